// The elementary functions for any machine.

#define ISA(name) name##_portable
#include "unary_body.h"
