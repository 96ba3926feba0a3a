// Exact sums of binary32 values with AVX2.

#if defined(__x86_64__)
// NOTE: the target is that of every function here, since gcc takes vectors apart before it inlines what works
// on them.
#include "runtime/target_avx2.h"

#define ISA(name) name##_avx2
#define VECTOR 4
#include "exact_tiles_body.h"

#include "runtime/target_end.h"
#endif
