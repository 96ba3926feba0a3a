// The elementary functions over arrays, in plain C that the compiler vectorises. A template: ISA(name) names
// the functions, and SHORT_MAPS says that the file has its own exp, tanh and erf.
//
// A block is evaluated without branches in binary64. The scalar function recomputes an element whose rounding
// is not certain or whose input is not ordinary.

// NOTE: partial redundancy elimination would give the ends of a clamp, where much is constant, paths of their
// own, and a loop with several paths does not vectorise.
#if !defined(__clang__)
#pragma GCC optimize("no-tree-pre")
#endif

#include "shared/elementary.h"
#include "unary.h"
#include "f64/grid_unary.h"

#define BLOCK_SIZE 64
// NOTE: 2^-48 covers the error of every `name_f64`, and x == x excludes NaNs.
#define UNCERTAIN 0x1p-48

// `result` is an expression in low and x; `ordinary` is a condition on x. Other elements go to the scalar
// function.
#define MAP(name, result, ordinary)                                                                          \
    static __attribute__((noinline)) void name##_again(float *out, const float *in, const int32_t *again) {  \
        for (int i = 0; i < BLOCK_SIZE; i++)                                                                 \
            if (again[i]) out[i] = name##_f32(in[i]);                                                        \
    }                                                                                                        \
    static inline void name##_block(float *restrict out, const float *in) {                                  \
        int32_t again[BLOCK_SIZE], any = 0;                                                                  \
        for (int i = 0; i < BLOCK_SIZE; i++) {                                                               \
            const float x = in[i];                                                                           \
            const double y = name##_f64((double)x);                                                          \
            const float low = (float)(y - y * UNCERTAIN), high = (float)(y + y * UNCERTAIN);                 \
            again[i] = (low == high) & (x == x) & (ordinary) ? 0 : -1;                                       \
            any |= again[i];                                                                                 \
            out[i] = (result);                                                                               \
        }                                                                                                    \
        if (any) name##_again(out, in, again);                                                               \
    }                                                                                                        \
    void ISA(name)(float *restrict out, const float *in, int64_t n) {                                        \
        int64_t i = 0;                                                                                       \
        for (; i + BLOCK_SIZE <= n; i += BLOCK_SIZE) name##_block(out + i, in + i);                          \
        for (; i < n; i++) out[i] = name##_f32(in[i]);                                                       \
    }

#define OR_ZERO (x == 0.0f ? x : low)

#ifndef SHORT_MAPS
MAP(exp, low, 1)
MAP(tanh, OR_ZERO, 1)
MAP(erf, OR_ZERO, 1)
#endif
MAP(log, low, (x > 0.0f) & (x < INFINITE))
MAP(log1p, OR_ZERO, (x > -1.0f) & (x < INFINITE))
MAP(sin, OR_ZERO, magnitude(x) < TRIG_MODERATE)
MAP(cos, low, magnitude(x) < TRIG_MODERATE)

// Functions rounded to a grid.
#define GRID_UNARY(name, ordinary)                                                                           \
    static __attribute__((noinline)) void name##_grid_again(float *out, const float *in,                     \
                                                            const int64_t *again, int bits, int *doubt) {    \
        for (int i = 0; i < BLOCK_SIZE; i++)                                                                 \
            if (again[i]) out[i] = name##_on_grid(in[i], bits, doubt);                                       \
    }                                                                                                        \
    static inline void name##_grid_block(float *restrict out, const float *in, int bits, int *doubt) {       \
        int64_t again[BLOCK_SIZE], any = 0;                                                                  \
        for (int i = 0; i < BLOCK_SIZE; i++) {                                                               \
            const float x = in[i];                                                                           \
            const double y = name##_f64((double)x);                                                          \
            again[i] = odd(y) | near_middle(y, bits, GRID_UNITS) | !(ordinary);                              \
            any |= again[i];                                                                                 \
            out[i] = (float)grid_nearest(y, bits) + 0.0f;                                                    \
        }                                                                                                    \
        if (any) name##_grid_again(out, in, again, bits, doubt);                                             \
    }                                                                                                        \
    static void name##_grid_run(float *restrict out, const float *in, int64_t n, int bits, int *doubt) {     \
        int64_t i = 0;                                                                                       \
        for (; i + BLOCK_SIZE <= n; i += BLOCK_SIZE) name##_grid_block(out + i, in + i, bits, doubt);        \
        for (; i < n; i++) out[i] = name##_on_grid(in[i], bits, doubt);                                      \
    }                                                                                                        \
    GRID_KERNEL(ISA(grid_##name), name##_grid_run)

GRID_UNARY(exp, x == x)
GRID_UNARY(log, (x > 0.0f) & (x < INFINITE))
GRID_UNARY(log1p, (x > -1.0f) & (x < INFINITE))
GRID_UNARY(tanh, x == x)
GRID_UNARY(erf, x == x)
GRID_UNARY(sin, magnitude(x) < TRIG_MODERATE)
GRID_UNARY(cos, magnitude(x) < TRIG_MODERATE)

// exp(a - b), with the difference rounded: the beginning of softmax.
void ISA(exp_sub)(int64_t n, void *to, const void *minuends, int64_t sa, const void *subtrahends,
                  int64_t sb) {
    float *out = to, difference[BLOCK_SIZE];
    const float *a = minuends, *b = subtrahends;
    for (int64_t at = 0; at < n; at += BLOCK_SIZE) {
        const int64_t count = min_i64(BLOCK_SIZE, n - at);
        for (int64_t i = 0; i < count; i++) difference[i] = a[(at + i) * sa] - b[(at + i) * sb];
        ISA(exp)(out + at, difference, count);
    }
}

// pow, for operands that run (stride 1) or stand (stride 0).
static __attribute__((noinline)) void pow_again(float *out, const float *x, const float *y,
                                                const int32_t *again) {
    for (int i = 0; i < BLOCK_SIZE; i++)
        if (again[i]) out[i] = pow_f32(x[i], y[i]);
}

// NOTE: the scalar function handles a negative base, unless the exponent is an integer below 2^24, whose half
// then tells whether it is odd.
static inline void pow_block(float *restrict out, const float *bases, const float *exponents) {
    int32_t again[BLOCK_SIZE], any = 0;
    for (int i = 0; i < BLOCK_SIZE; i++) {
        const float x = bases[i], y = exponents[i], size = magnitude(x);
        const double wide = (double)y;
        const double v = exp_f64(wide * log_f64((double)size));
        const float low = (float)(v - v * POW_MARGIN), high = (float)(v + v * POW_MARGIN);
        const int32_t whole = (wide + ROUND_MAGIC) - ROUND_MAGIC == wide;
        const int32_t odd = (0.5 * wide + ROUND_MAGIC) - ROUND_MAGIC != 0.5 * wide;
        const int32_t ordinary = (size > 0.0f) & (size < INFINITE) & (magnitude(y) < 0x1p24f) &
                                 ((x > 0.0f) | whole) & (low == high);
        again[i] = ordinary ? 0 : -1;
        any |= again[i];
        out[i] = (x < 0.0f) & odd ? -low : low;
    }
    if (any) pow_again(out, bases, exponents, again);
}

void ISA(pow)(int64_t n, void *to, const void *bases, int64_t sa, const void *exponents, int64_t sb) {
    float *out = to, x[BLOCK_SIZE], y[BLOCK_SIZE];
    const float *a = bases, *b = exponents;
    if (!sa || !sb)
        for (int i = 0; i < BLOCK_SIZE; i++) x[i] = *a, y[i] = *b;
    int64_t i = 0;
    for (; i + BLOCK_SIZE <= n; i += BLOCK_SIZE) pow_block(out + i, sa ? a + i : x, sb ? b + i : y);
    for (; i < n; i++) out[i] = pow_f32(a[i * sa], b[i * sb]);
}
