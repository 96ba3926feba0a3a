// Gathers the elements of a panel.

#ifndef REPOPS_PACK_H
#define REPOPS_PACK_H

#include "microkernel.h"

// Return the number of offsets, from the first on, whose neighbours are `apart`.
static inline int64_t run_of(const int64_t *offset, int64_t count, int64_t apart) {
    int64_t n = 1;
    while (n < count && offset[n] - offset[n - 1] == apart) n++;
    return n;
}

static inline int64_t count_runs(const int64_t *offset, int64_t count, int64_t apart) {
    int64_t breaks = 0;
    for (int64_t i = 1; i < count; i++) breaks += offset[i] - offset[i - 1] != apart;
    return breaks + 1;
}

// Return the distance at which offsets with this stride form runs. The micro-kernels support 1 and 2; with
// any other stride there are no runs at 1.
static inline int64_t apart(int64_t stride) {
    return stride == 2 ? 2 : 1;
}

// Lane i of step k is data[lane[i] + step[k]], of binary32 or bf16.
typedef struct {
    const void *data;
    int bf16;
    int64_t lanes, steps;
    const int64_t *lane, *step;
    int64_t lane_apart, step_apart;
    int64_t step_runs; // runs of steps that are step_apart
} gathered;

// to[k * width + i] = lane i of step k
void pack(const gathered *g, const microkernel *kernel, float *to, int64_t width);

// to[i] = from[i]
void to_f64(const float *from, int64_t n, double *to, enum isa isa);

// to[i * to_row + j] = from[i * from_row + j], rounded, for i < rows and j < n
void round_to_bf16(const float *from, int64_t from_row, int64_t rows, int64_t n, uint16_t *to, int64_t to_row,
                   enum isa isa);

#endif
