// Where the elements of a contraction's panels lie, and which of them exist: what gemm.c packs and
// multiplies.

#ifndef REPOPS_PANELS_H
#define REPOPS_PANELS_H

#include "gemm.h"
#include "microkernel.h"

typedef struct {
    const gemm *g;
    const product_kernel *kernel;
    const microkernel *moves; // of binary32, in which panels are packed
    enum isa isa;
    int64_t tiles_m, tiles_n;
    int64_t packed[CHUNK]; // where the steps of a panel of B are
    int direct;            // B may be read where it lies
    int failed;
} plan;

// The taps of one chunk and one part.
typedef struct {
    int64_t count;
    int64_t a[CHUNK];                     // in a panel of A
    int64_t b[CHUNK], y[CHUNK], x[CHUNK]; // as the part says
    int64_t b_runs, b_low, b_high;        // runs in b, at the distance of pack_b; its least and greatest
    int64_t ahead[CHUNK], ahead_count;    // of b: what the next panel reads and this one does not
} taps;

// The columns of one panel, and which taps exist for them.
typedef struct {
    int64_t count;
    int64_t b[MAX_WIDTH], c[MAX_WIDTH], y[MAX_WIDTH], x[MAX_WIDTH];
    uint32_t exists[CHUNK];
    int whole;          // every tap exists for every column
    int some;           // the part's taps are not all, or some of them exist for no column
    int near_b, near_c; // each half lies in one piece in B, in C

    // Those taps that exist for any column.
    int64_t steps;
    const int64_t *a_step, *b_step;
    int64_t a_some[CHUNK], b_some[CHUNK];
} panel;

// The taps of a part whose number is in the chunk from `begin` on.
void find_taps(const plan *p, const part *s, int64_t begin, taps *t);

// `count` columns of a part from `first` on, for these taps.
void find_panel(const plan *p, const part *s, int64_t first, int64_t count, const taps *t, panel *c);

#endif
