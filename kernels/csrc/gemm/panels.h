// The places of the elements of a contraction's panels, and which of them exist: gemm.c packs and multiplies
// them.

#ifndef REPOPS_PANELS_H
#define REPOPS_PANELS_H

#include "contraction.h"
#include "microkernel.h"

typedef struct {
    const gemm *g;
    const product_kernel *kernel;
    const microkernel *moves; // of binary32, in which panels are packed
    enum isa isa;
    int64_t tiles_m, tiles_n;
    int64_t packed[CHUNK]; // places of the steps of a panel of B
    int direct;            // B may be read in place
    int failed;
} plan;

// The taps of one chunk that belong to one part.
typedef struct {
    int64_t count;
    int64_t a[CHUNK];                     // in a panel of A
    int64_t b[CHUNK], y[CHUNK], x[CHUNK]; // in b and in the image, as the part defines
    int64_t b_runs, b_low, b_high;        // runs in b, at the distance of pack_b; least and greatest value
    int64_t ahead[CHUNK], ahead_count;    // in b: read by the next panel and not by this one
} taps;

// The columns of one panel, and the taps that exist for them.
typedef struct {
    int64_t count;
    int64_t b[MAX_WIDTH], c[MAX_WIDTH], y[MAX_WIDTH], x[MAX_WIDTH];
    uint32_t exists[CHUNK];
    int whole;          // every tap exists for every column
    int some;           // the part lacks some taps of the contraction, or some exist for no column
    int near_b, near_c; // each half is contiguous in B, in C

    // The taps that exist for any column.
    int64_t steps;
    const int64_t *a_step, *b_step;
    int64_t a_some[CHUNK], b_some[CHUNK];
} panel;

// Find the taps of a part whose numbers are in the chunk that begins at `begin`.
void find_taps(const plan *p, const part *s, int64_t begin, taps *t);

// Find the taps of a part with a number from `begin` on and below `end`, at most CHUNK.
void find_taps_between(const plan *p, const part *s, int64_t begin, int64_t end, taps *t);

// Find `count` columns of a part from `first` on, for these taps.
void find_panel(const plan *p, const part *s, int64_t first, int64_t count, const taps *t, panel *c);

#endif
