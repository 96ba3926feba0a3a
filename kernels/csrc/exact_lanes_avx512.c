// Exact sums of binary32 values with AVX-512.

#if defined(__x86_64__)
// NOTE: the target is that of every function here, since gcc takes vectors apart before it inlines what works
// on them.
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),         \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif

#define ISA(name) name##_avx512
#define VECTOR 8
#include "exact_lanes_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
