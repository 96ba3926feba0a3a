// Exact sums of binary32 values for any machine.

#define ISA(name) name##_portable
#define VECTOR 2
#include "exact_tiles_body.h"
