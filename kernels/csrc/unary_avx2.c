// The elementary functions for AVX2 with fma.

#if defined(__x86_64__)

#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif

#define MULADD(a, b, c) __builtin_fma(a, b, c)
#define ISA(name) name##_avx2
#include "unary_body.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
