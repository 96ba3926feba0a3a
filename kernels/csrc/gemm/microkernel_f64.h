// The micro-kernel for binary64 results: panels of A are binary64, elements of B are converted when loaded.
//
// A template. A file that includes it defines `vector`, LANES doubles; HEIGHT, a multiple of 3, as HEIGHT
// rows of two vectors are the accumulators; TARGET, the instruction set; INLINE, the same for functions
// without calls; and these functions:
//
//     vector all_of(double x);                                x in every lane
//     vector load(const float *from);                         LANES floats
//     vector load_some(uint32_t bits, const float *from);     reads those whose bit is set, the others are 0
//     vector mul_add(vector a, vector b, vector c);           a * b + c
//
// Products of binary32 values are exact, so one rounding and two give the same result. The order is that of
// gemm.h, but nothing depends on it.
//
// NOTE: an element that the mask excludes is multiplied as zero, which changes nothing while A is finite. If
// A is not finite, results may be NaN that should not be.

#include "microkernel.h"
#include <string.h>

#define WIDTH (2 * LANES)

// Compute `height` rows and `vectors` vectors of columns. Both, and the presence of steps and a mask, are
// constants at each call, so that the accumulators are registers.
INLINE void block(int height, int vectors, int steps, const chunk_product *p, const uint32_t *bits) {
    const int64_t *a_step = p->a_step, *b_step = p->b_step;
    const float *const b[2] = {p->b[0], p->b[1]};
    const int64_t depth = p->depth;
    vector sum[HEIGHT][2];
#pragma GCC unroll 12
    for (int i = 0; i < height; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) sum[i][v] = all_of(-0.0);
    for (int64_t k = 0; k < depth; k++) {
        const double *a = (const double *)p->a + (steps ? a_step[k] : k * HEIGHT);
        vector column[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const float *from = element(b[v], steps ? b_step[k] : k * WIDTH);
            column[v] = bits ? load_some(bits[k] >> v * LANES, from) : load(from);
        }
#pragma GCC unroll 12
        for (int i = 0; i < height; i++) {
            const vector row = all_of(a[i]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[i][v] = mul_add(row, column[v], sum[i][v]);
        }
    }
    const int whole = p->rows >= height && p->columns == vectors * LANES;
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
#pragma GCC unroll 12
        for (int i = 0; i < height; i++) {
            if (i >= p->rows) continue;
            double *c = (double *)p->c[v] + i * p->row;
            if (whole) {
                vector found = sum[i][v], old;
                if (p->add) memcpy(&old, c, sizeof old), found = old + found;
                memcpy(c, &found, sizeof found);
            } else {
                for (int j = 0; j < LANES && v * LANES + j < p->columns; j++)
                    c[j] = (p->add ? c[j] : -0.0) + sum[i][v][j];
            }
        }
}

INLINE void heights(int vectors, int steps, const chunk_product *p, const uint32_t *bits) {
    if (p->rows > 2 * HEIGHT / 3)
        block(HEIGHT, vectors, steps, p, bits);
    else if (p->rows > HEIGHT / 3)
        block(2 * HEIGHT / 3, vectors, steps, p, bits);
    else
        block(HEIGHT / 3, vectors, steps, p, bits);
}

INLINE void widths(int steps, const chunk_product *p, const uint32_t *bits) {
    if (p->columns > LANES)
        heights(2, steps, p, bits);
    else
        heights(1, steps, p, bits);
}

TARGET static void multiply(const chunk_product *p) {
    WITH_CONSTANTS(widths, p);
}

TARGET static void store(const void *from, int64_t stride, int add, int64_t rows, int64_t columns,
                         int64_t apart, void *to, int64_t row) {
    const double *acc = from;
    double *c = to;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double *at = &c[i * row + j * apart];
            *at = (add ? *at : -0.0) + acc[i * stride + j];
        }
}

#define F64_KERNEL {HEIGHT, WIDTH, sizeof(double), multiply, store}
