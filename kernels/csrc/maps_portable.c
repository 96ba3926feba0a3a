// The elementary functions for any machine.

#define ISA(name) name##_portable
#include "maps_body.h"
