// Scalar rules and index arithmetic that several families share.

#ifndef REPOPS_COMMON_CUH
#define REPOPS_COMMON_CUH

#include "device.cuh"
#include "bits.h"

typedef uint16_t bf16; // the upper half of a float

constexpr int MAX_RANK = 8;
constexpr int WARP = 32;
constexpr int MINUS_ZERO_BITS = (int)0x80000000u;
constexpr int INF_BITS = 0x7F800000;
constexpr i64 I64_MIN = (i64)(1ull << 63);
constexpr i64 I64_MAX = ~I64_MIN;

DEVICE i64 min_i64(i64 a, i64 b) {
    return a < b ? a : b;
}
DEVICE i64 max_i64(i64 a, i64 b) {
    return a > b ? a : b;
}
DEVICE float minus_zero() {
    return f32_of(MINUS_ZERO_BITS);
}
DEVICE bool is_nan(float x) {
    return (bits_of(x) & 0x7FFFFFFF) > INF_BITS;
}

DEVICE i64 order_key(i64 x) {
    return x;
}
DEVICE i64 larger(i64 a, i64 b) {
    return a >= b ? a : b;
}

// A divisor with the constants of a cheap division: for 0 <= n < 2^31, n / d = (high_product(n, magic) + n)
// >> shift (Granlund and Montgomery, 1994).
struct Divisor {
    i64 d;
    u32 magic, shift;
};
static DEVICE_CALL i64 far_quotient(i64 n, i64 d) { // rare and long: not to be inlined
    return (i64)((u64)n / (u64)d);
}
DEVICE u32 near_quotient(u32 n, const Divisor &by) {
    return (high_product(n, by.magic) + n) >> by.shift;
}
DEVICE i64 quotient(i64 n, const Divisor &by) {
    if ((u64)(n | by.d) < (1ull << 31)) return near_quotient((u32)n, by);
    return far_quotient(n, by.d);
}

// Dimensions and strides (in elements); maps a row-major index to an offset.
struct Axes {
    i64 rank;
    Divisor dim[MAX_RANK];
    i64 stride[MAX_RANK];
};
DEVICE i64 axes_offset(const Axes &a, i64 index) {
    i64 offset = 0;
#pragma unroll 1
    for (int d = (int)a.rank - 1; d > 0; d--) {
        const i64 rest = quotient(index, a.dim[d]);
        offset += (index - rest * a.dim[d].d) * a.stride[d];
        index = rest;
    }
    return a.rank ? offset + index * a.stride[0] : 0;
}

// The type of an absent operand.
struct None {};
template <class T> constexpr int SIZE = sizeof(T);
template <> constexpr int SIZE<None> = 0;

// V elements that are read and written at once.
template <class T, int V> struct alignas(sizeof(T) * V) Pack {
    T at[V];
};
template <int V> DEVICE Pack<float, V> splat(float x) {
    Pack<float, V> same;
#pragma unroll
    for (int i = 0; i < V; i++) same.at[i] = x;
    return same;
}

// The elements of a tensor as f32, and f32 as an element, rounded.
DEVICE float widened(float x) {
    return x;
}
DEVICE float widened(bf16 x) {
    return from_bf16(x);
}
template <class E> DEVICE E narrowed(float x) {
    if constexpr (sizeof(E) == sizeof(bf16))
        return to_bf16(x);
    else
        return x;
}

DEVICE bool aligned(const void *pointer, int bytes) {
    return ((u64)pointer & (u64)(bytes - 1)) == 0;
}

// This thread's number in the grid, and the number of threads.
DEVICE i64 global_thread() {
    return block_index() * block_threads() + thread_index();
}
DEVICE i64 global_threads() {
    return grid_blocks() * block_threads();
}

#endif
