// The elementary functions for AVX-512.

#if defined(__x86_64__)

#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),         \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")
#endif

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#define ISA(name) name##_avx512
#include "maps_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
