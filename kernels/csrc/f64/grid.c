// Arithmetic whose results are rounded to a grid: one IEEE-754 operation in binary64, then rounded.

#include "grid.h"
#include <math.h>
#include <string.h>

#define STRIP 64 // elements that are all computed before any is written, so that operands may be overwritten

#define F64_add(x, y) ((x) + (y))
#define F64_sub(x, y) ((x) - (y))
#define F64_mul(x, y) ((x) * (y))
#define F64_div(x, y) ((x) / (y))
#define F64_sqrt(x, y) sqrt(x)

// Recompute extraordinary elements one by one. A zero keeps its sign: no order of a sum decides it.
#define ARITHMETIC(name)                                                                                     \
    static __attribute__((noinline)) void name##_again(int64_t n, float *out, const float *a, int64_t sa,    \
                                                       const float *b, int64_t sb, int bits) {               \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const double x = a[i * sa], y = b[i * sb], y64 = F64_##name(x, y);                               \
            (void)y;                                                                                         \
            if (odd(y64)) round_one(y64, 0, bits, 0, -0.0, out + i);                                         \
        }                                                                                                    \
    }                                                                                                        \
    BODY name##_strip(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb,         \
                      int bits) {                                                                            \
        float rounded[STRIP];                                                                                \
        int64_t any = 0;                                                                                     \
        NO_DEPENDENCE                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const double x = a[i * sa], y = b[i * sb], y64 = F64_##name(x, y);                               \
            (void)y;                                                                                         \
            any |= odd(y64);                                                                                 \
            rounded[i] = (float)grid_nearest(y64, bits);                                                     \
        }                                                                                                    \
        if (__builtin_expect(any != 0, 0)) name##_again(n, rounded, a, sa, b, sb, bits);                     \
        memcpy(out, rounded, (size_t)n * sizeof *out);                                                       \
    }                                                                                                        \
    BODY name##_run(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb,           \
                    int bits) {                                                                              \
        int64_t i = 0;                                                                                       \
        for (; i + STRIP <= n; i += STRIP)                                                                   \
            name##_strip(STRIP, out + i, a + i * sa, sa, b + i * sb, sb, bits);                              \
        if (i < n) name##_strip(n - i, out + i, a + i * sa, sa, b + i * sb, sb, bits);                       \
    }                                                                                                        \
    BODY grid_##name##_body(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb,   \
                            int bits, int *doubt) {                                                          \
        (void)doubt;                                                                                         \
        if (sa && sb)                                                                                        \
            name##_run(n, out, a, 1, b, 1, bits);                                                            \
        else if (sa)                                                                                         \
            name##_run(n, out, a, 1, b, 0, bits);                                                            \
        else                                                                                                 \
            name##_run(n, out, a, 0, b, sb, bits);                                                           \
    }                                                                                                        \
    VARIANTS(grid_##name,                                                                                    \
             (int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb, int bits,       \
              int *doubt),                                                                                   \
             (n, out, a, sa, b, sb, bits, doubt))

ARITHMETIC(add)
ARITHMETIC(sub)
ARITHMETIC(mul)
ARITHMETIC(div)
ARITHMETIC(sqrt)

// rsqrt is a function here: it has two roundings in binary64, so its error is below 2^-51.
static float rsqrt_on_grid(float x, int bits, int *doubt) {
    const float y = 1.0f / sqrtf(x);
    if ((x > 0) & (x < INFINITY)) return decide_on_grid(1 / sqrt((double)x), bits, doubt);
    return y != y ? f32_of(0x7FC00000) : y + 0.0f;
}
BODY grid_rsqrt_body(int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb, int bits,
                     int *doubt) {
    (void)b, (void)sb;
    if (!sa) {
        for (int64_t i = 0; i < n; i++) out[i] = rsqrt_on_grid(*a, bits, doubt);
        return;
    }
    for (int64_t at = 0; at < n; at += STRIP) {
        const int64_t count = min_i64(STRIP, n - at);
        int64_t any = 0;
        for (int64_t i = at; i < at + count; i++) {
            const double y = 1 / sqrt((double)a[i]);
            any |= odd(y) | near_middle(y, bits, GRID_UNITS) | !(a[i] > 0);
            out[i] = (float)grid_nearest(y, bits);
        }
        for (int64_t i = at; i < at + count && any; i++) out[i] = rsqrt_on_grid(a[i], bits, doubt);
    }
}
VARIANTS(grid_rsqrt,
         (int64_t n, float *out, const float *a, int64_t sa, const float *b, int64_t sb, int bits,
          int *doubt),
         (n, out, a, sa, b, sb, bits, doubt))

#if defined(__x86_64__)
#define FUNCTION(name)                                                                                       \
    static grid_kernel *const grid_##name[ISA_COUNT] = {grid_##name##_portable, grid_##name##_avx2,          \
                                                        grid_##name##_avx512};
#else
#define FUNCTION(name)                                                                                       \
    static grid_kernel *const grid_##name[ISA_COUNT] = {grid_##name##_portable, grid_##name##_portable,      \
                                                        grid_##name##_portable};
#endif
FUNCTION(exp)
FUNCTION(log)
FUNCTION(log1p)
FUNCTION(tanh)
FUNCTION(erf)
FUNCTION(sin)
FUNCTION(cos)

const named_grid_kernel named_grid_kernels[] = {
    {"grid_add", grid_add},     {"grid_sub", grid_sub},
    {"grid_mul", grid_mul},     {"grid_div", grid_div},
    {"grid_sqrt", grid_sqrt},   {"grid_rsqrt", grid_rsqrt},
    {"grid_exp", grid_exp},     {"grid_log", grid_log},
    {"grid_log1p", grid_log1p}, {"grid_tanh", grid_tanh},
    {"grid_erf", grid_erf},     {"grid_sin", grid_sin},
    {"grid_cos", grid_cos},     {NULL, NULL},
};
