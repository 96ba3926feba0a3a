// Exact sums of binary32 values with AVX-512.

#if defined(__x86_64__)
// NOTE: the target is that of every function here, since gcc takes vectors apart before it inlines what works
// on them.
#include "runtime/target_avx512.h"

#define ISA(name) name##_avx512
#define VECTOR 8
#include "exact_tiles_body.h"

#include "runtime/target_end.h"
#endif
