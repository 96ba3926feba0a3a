// The innermost loop of a contraction, once for each instruction set.

#ifndef REPOPS_MICROKERNEL_H
#define REPOPS_MICROKERNEL_H

#include "repops.h"

#define MAX_HEIGHT 12

// acc[i * width + j] = chain over k < depth of fma(a[k * height + i], b[k * width + j], .), from -0.
// `masked` leaves column j out of step k where bit j of mask[k] is clear: such a tap is (-0, +0), and
// fma(-0, +0, acc) = acc + -0 = acc bit for bit.
typedef struct {
    int64_t height, width;
    void (*whole)(int64_t depth, const float *a, const float *b, float *acc);
    void (*masked)(int64_t depth, const float *a, const float *b, const uint32_t *mask, float *acc);
} microkernel;

extern const microkernel microkernels[];

#endif
