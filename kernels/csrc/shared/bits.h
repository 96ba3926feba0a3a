// Scalar rules of binary32 that C lacks, in the common subset of C11 and CUDA C++.

#ifndef REPOPS_BITS_H
#define REPOPS_BITS_H

// FN: a function of this header or of one built on it. TABLE: a constant array that such a function reads.
#ifdef __CUDACC__
#define FN static __device__ inline
#define TABLE static __device__ const
#else
#define FN static inline __attribute__((always_inline, unused))
#define TABLE static const __attribute__((unused))
#endif

#ifdef __CUDACC_RTC__
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT32_MAX 0x7FFFFFFF
#else
#include <stdint.h>
#include <math.h>
#include <string.h>
#endif

#ifdef __CUDACC__
FN int32_t bits_of(float x) {
    return __float_as_int(x);
}
FN float f32_of(int32_t b) {
    return __int_as_float(b);
}
FN int64_t bits64(double x) {
    return __double_as_longlong(x);
}
FN double f64_of(int64_t b) {
    return __longlong_as_double(b);
}
#else
FN int32_t bits_of(float x) {
    int32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
FN float f32_of(int32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}
FN int64_t bits64(double x) {
    int64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
FN double f64_of(int64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}
#endif

// Map each value to an integer such that -inf < ... < -0 < +0 < ... < inf < NaN and all NaNs are equal.
FN int32_t order_key(float x) {
    int32_t b = bits_of(x);
    int32_t key = b ^ ((b >> 31) & 0x7FFFFFFF);
    return (b & 0x7FFFFFFF) > 0x7F800000 ? INT32_MAX : key;
}
// Return the value of a key; the key of NaN gives a NaN.
FN float from_key(int32_t key) {
    return f32_of(key ^ ((key >> 31) & 0x7FFFFFFF));
}

FN float larger(float a, float b) {
    return order_key(a) >= order_key(b) ? a : b;
}

// bf16 is the upper half of a binary32.
FN float from_bf16(uint16_t b) {
    return f32_of((int32_t)((uint32_t)b << 16));
}
FN uint16_t upper_half(float x, uint32_t bits) {
    return x != x ? 0x7FC0 : (uint16_t)(bits >> 16);
}
// Bits whose upper half is rounded to nearest, ties to even; a carry continues into the exponent.
FN uint32_t to_nearest_half(float x) {
    const uint32_t b = (uint32_t)bits_of(x);
    return b + 0x7FFF + ((b >> 16) & 1);
}
FN uint16_t to_bf16(float x) {
    return upper_half(x, to_nearest_half(x));
}
// The same as a binary32, for what is computed with next.
FN float rounded_bf16(float x) {
    return f32_of((int32_t)(x != x ? 0x7FC00000 : to_nearest_half(x) & 0xFFFF0000));
}
// Round away from zero with the probability that the low 16 bits of random bits give.
FN uint16_t to_bf16_stochastic(float x, uint64_t random) {
    const uint32_t b = (uint32_t)bits_of(x);
    return upper_half(x, (b & 0x7FFFFFFF) == 0x7F800000 ? b : b + (uint32_t)(random & 0xFFFF));
}

#endif
