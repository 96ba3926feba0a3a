// Nested loops with one index, and functions that are linear in the loop counters.

#ifndef REPOPS_LOOPS_H
#define REPOPS_LOOPS_H

#include "repops.h"

#define LOOPS 4

// Nested loops, the last one fastest, with one index over all iterations.
typedef struct {
    int64_t size[LOOPS];
} loops;

// start + i[0] * stride[0] + i[1] * stride[1] + ... for the counters i of some loops.
typedef struct {
    int64_t start, stride[LOOPS];
} linear;

static inline int64_t count_of(const loops *l) {
    return product(l->size, LOOPS);
}

// The counters of the loops at an index.
typedef struct {
    int64_t at[LOOPS];
} counters;

static inline counters counters_at(const loops *l, int64_t index) {
    counters c;
    for (int d = LOOPS - 1; d >= 0; d--) c.at[d] = index % l->size[d], index /= l->size[d];
    return c;
}

// Compute f at `count` indices from c on.
// NOTE: the arithmetic is unsigned, because places far from the image (gemm.h) wrap around.
static inline void expand(const loops *l, const linear *f, counters c, int64_t count, int64_t *out) {
    const int64_t size = l->size[LOOPS - 1];
    const uint64_t step = (uint64_t)f->stride[LOOPS - 1];
    for (int64_t done = 0; done < count;) {
        uint64_t first = (uint64_t)f->start;
        for (int d = 0; d < LOOPS; d++) first += (uint64_t)c.at[d] * (uint64_t)f->stride[d];
        const int64_t run = min_i64(size - c.at[LOOPS - 1], count - done);
        for (int64_t i = 0; i < run; i++) out[done + i] = (int64_t)(first + (uint64_t)i * step);
        done += run;
        c.at[LOOPS - 1] = 0;
        for (int d = LOOPS - 2; d >= 0 && ++c.at[d] == l->size[d]; d--) c.at[d] = 0;
    }
}

#endif
