// Included in the middle of a file: all functions from here to target_end.h are for AVX2 with fma, as
// TARGET_AVX2 (repops.h) makes one.

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
