// Scalar rules of binary32 that C does not have.

#ifndef REPOPS_BITS_H
#define REPOPS_BITS_H

#include <stdint.h>
#include <string.h>

static inline int32_t bits_of(float x) {
    int32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline float f32_of(int32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}

// An integer for each value such that -inf < ... < -0 < +0 < ... < inf < NaN, and all NaNs are equal.
static inline int32_t order_key(float x) {
    int32_t b = bits_of(x);
    int32_t key = b ^ ((b >> 31) & 0x7FFFFFFF);
    return (b & 0x7FFFFFFF) > 0x7F800000 ? INT32_MAX : key;
}
// The value of a key; NaN comes back as a NaN.
static inline float from_key(int32_t key) {
    return f32_of(key ^ ((key >> 31) & 0x7FFFFFFF));
}

static inline float larger(float a, float b) {
    return order_key(a) >= order_key(b) ? a : b;
}

#endif
