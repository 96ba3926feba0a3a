// The portable micro-kernel: plain C, one fmaf at a time.

#include "contraction.h"
#include "microkernel.h"
#include <math.h>

#define HEIGHT 4
#define WIDTH 8
#define HALF 4

static void multiply(const chunk_product *p) {
    float acc[HEIGHT * WIDTH];
    for (int i = 0; i < HEIGHT * WIDTH; i++) acc[i] = -0.0f;
    for (int64_t k = 0; k < p->depth; k++)
        for (int64_t j = 0; j < p->columns; j++) {
            const float *a = (const float *)p->a + (p->a_step ? p->a_step[k] : k * HEIGHT);
            if (p->mask && !(p->mask[k] >> j & 1)) continue;
            const float b = *element(p->b[j / HALF], (p->b_step ? p->b_step[k] : k * WIDTH) + j % HALF);
            for (int64_t i = 0; i < p->rows; i++) {
                // NOTE: fmaf of the C library is correctly rounded, with or without the instruction.
                acc[i * WIDTH + j] = fmaf(a[i], b, acc[i * WIDTH + j]);
            }
        }
    for (int64_t i = 0; i < p->rows; i++)
        for (int64_t j = 0; j < p->columns; j++) {
            float *to = (float *)p->c[j / HALF] + i * p->row + j % HALF;
            *to = (p->add ? *to : -0.0f) + acc[i * WIDTH + j];
        }
}

#define MOVES(name, bf16)                                                                                    \
    static void copy_##name(const void *from, int64_t first, int64_t lanes, int64_t apart,                   \
                            const int64_t *step, int64_t steps, float *to, int64_t width) {                  \
        for (int64_t k = 0; k < steps; k++)                                                                  \
            for (int64_t i = 0; i < lanes; i++)                                                              \
                to[k * width + i] = factor(bf16, factor_at(bf16, from, first + i * apart + step[k]));        \
    }                                                                                                        \
    static void transpose_##name(const void *from, int64_t first, int64_t steps, int64_t apart,              \
                                 const int64_t *lane, int64_t lanes, float *to, int64_t width) {             \
        for (int64_t k = 0; k < steps; k++)                                                                  \
            for (int64_t i = 0; i < lanes; i++)                                                              \
                to[k * width + i] = factor(bf16, factor_at(bf16, from, first + k * apart + lane[i]));        \
    }
MOVES(f32, 0)
MOVES(bf16, 1)

static void store(const void *from, int64_t stride, int add, int64_t rows, int64_t columns, int64_t apart,
                  void *to, int64_t row) {
    const float *acc = from;
    float *c = to;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            float *at = &c[i * row + j * apart];
            *at = (add ? *at : -0.0f) + acc[i * stride + j];
        }
}

static void dot(const float *vector, const float *from, int64_t stride, int64_t steps, int64_t rows,
                float *sum) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < steps; k++) sum[i] = fmaf(vector[k], from[i * stride + k], sum[i]);
}

static const microkernel portable_kernel = {{HEIGHT, WIDTH, sizeof(float), multiply, store},
                                            {copy_f32, copy_bf16},
                                            {transpose_f32, transpose_bf16},
                                            dot,
                                            0,
                                            0,
                                            0};

#if defined(__x86_64__)
const microkernel *const microkernels[ISA_COUNT] = {&portable_kernel, &avx2_kernel, &avx512_kernel};
#else
const microkernel *const microkernels[ISA_COUNT] = {&portable_kernel, &portable_kernel, &portable_kernel};
#endif
