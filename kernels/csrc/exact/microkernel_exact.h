// The micro-kernel of the mode exact: a block of C in binary64, from panels in binary64.
//
// A template. A file that includes it defines `vector`, LANES doubles; HEIGHT, a multiple of 3, as HEIGHT
// rows of two vectors are the accumulators; TARGET, the instruction set; INLINE, the same for functions
// without calls; and these functions:
//
//     vector all_of(double x);                                x in every lane
//     vector add(vector a, vector b);                         a + b
//     vector mul_add(vector a, vector b, vector c);           a * b + c
//     vector choose(uint32_t bits, vector a, vector b);       lanes of a whose bit is set, others of b
//
// Products of binary32 values are exact, so one rounding and two give the same result.

#include "exact_kernel.h"

#define WIDTH (2 * LANES)

// Compute `height` rows and `vectors` vectors of columns. Both, and the presence of steps and a mask, are
// constants at each call, so that the accumulators are registers.
INLINE void block(int height, int vectors, int steps, const exact_product *p, const uint32_t *bits) {
    const int64_t *a_step = p->a_step, depth = p->depth;
    vector total[HEIGHT][2];
    for (int64_t begin = 0; begin == 0 || begin < depth; begin += EXACT_CHUNK) {
        const int64_t end = min_i64(depth, begin + EXACT_CHUNK);
        vector sum[HEIGHT][2];
#pragma GCC unroll 12
        for (int i = 0; i < height; i++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[i][v] = all_of(0);
        for (int64_t k = begin; k < end; k++) {
            const double *a = p->a + (steps ? a_step[k] : k * HEIGHT);
            vector column[2];
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                memcpy(&column[v], p->b + k * WIDTH + v * LANES, sizeof(vector));
#pragma GCC unroll 12
            for (int i = 0; i < height; i++) {
                const vector row = all_of(a[i]);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++) {
                    const vector more = mul_add(row, column[v], sum[i][v]);
                    if (bits)
                        sum[i][v] = choose(bits[k] >> (p->shift + v * LANES), more, sum[i][v]);
                    else
                        sum[i][v] = more;
                }
            }
        }
#pragma GCC unroll 12
        for (int i = 0; i < height; i++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) {
                if (begin)
                    total[i][v] = add(total[i][v], sum[i][v]);
                else
                    total[i][v] = sum[i][v];
            }
    }
#pragma GCC unroll 12
    for (int i = 0; i < height; i++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            double *c = p->c + i * WIDTH + v * LANES;
            vector old;
            if (p->add) memcpy(&old, c, sizeof old), total[i][v] = add(old, total[i][v]);
            memcpy(c, &total[i][v], sizeof(vector));
        }
}

INLINE void heights(int vectors, int steps, const exact_product *p, const uint32_t *bits) {
    if (p->rows > 2 * HEIGHT / 3)
        block(HEIGHT, vectors, steps, p, bits);
    else if (p->rows > HEIGHT / 3)
        block(2 * HEIGHT / 3, vectors, steps, p, bits);
    else
        block(HEIGHT / 3, vectors, steps, p, bits);
}

INLINE void widths(int steps, const exact_product *p, const uint32_t *bits) {
    if (p->columns > LANES)
        heights(2, steps, p, bits);
    else
        heights(1, steps, p, bits);
}

TARGET static void multiply(const exact_product *p) {
    WITH_CONSTANTS(widths, p);
}

#define EXACT_KERNEL {{HEIGHT, 2 * WIDTH, sizeof(float), 0, 0}, WIDTH, multiply}
