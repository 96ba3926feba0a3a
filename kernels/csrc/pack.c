// Packs panels in binary32, which bf16 is widened to, and converts them to binary64. A panel is copied along
// runs of lanes or transposed along runs of steps, by the longer runs.

#include "pack.h"
#include "gemm.h"

// As `copy` and `transpose` of a micro-kernel, of bf16.

// to[i] = from[i * apart]; constant numbers of elements become vectors.
static inline __attribute__((always_inline)) void widen(const uint16_t *from, int64_t n, int64_t apart,
                                                        float *to) {
    int64_t i = 0;
    if (apart == 1) {
        for (; i + 16 <= n; i += 16)
            for (int j = 0; j < 16; j++) to[i + j] = from_bf16(from[i + j]);
        for (; i + 4 <= n; i += 4)
            for (int j = 0; j < 4; j++) to[i + j] = from_bf16(from[i + j]);
    }
    for (; i < n; i++) to[i] = from_bf16(from[i * apart]);
}

BODY copy_bf16_body(const uint16_t *from, int64_t lanes, int64_t apart, const int64_t *step, int64_t steps,
                    float *to, int64_t width) {
    for (int64_t k = 0; k < steps; k++) widen(factor_at(1, from, step[k]), lanes, apart, to + k * width);
}
VARIANTS(copy_bf16,
         (const uint16_t *from, int64_t lanes, int64_t apart, const int64_t *step, int64_t steps, float *to,
          int64_t width),
         (from, lanes, apart, step, steps, to, width))

#define PIECE 64 // steps of all lanes that are widened before they are transposed: in the first-level cache

BODY widen_rows_body(const uint16_t *from, int64_t steps, int64_t apart, const int64_t *lane, int64_t lanes,
                     float *to) {
    for (int64_t i = 0; i < lanes; i++) widen(factor_at(1, from, lane[i]), steps, apart, to + i * PIECE);
}
VARIANTS(widen_rows,
         (const uint16_t *from, int64_t steps, int64_t apart, const int64_t *lane, int64_t lanes, float *to),
         (from, steps, apart, lane, lanes, to))

static void transpose_bf16(const uint16_t *from, int64_t steps, int64_t apart, const int64_t *lane,
                           int64_t lanes, const microkernel *kernel, enum isa isa, float *to, int64_t width) {
    float wide[MAX_WIDTH * PIECE];
    int64_t row[MAX_WIDTH];
    for (int64_t i = 0; i < lanes; i++) row[i] = i * PIECE;
    for (int64_t k = 0, n; k < steps; k += n) {
        n = min_i64(PIECE, steps - k);
        widen_rows[isa](factor_at(1, from, k * apart), n, apart, lane, lanes, wide);
        kernel->transpose(wide, 0, n, 1, row, lanes, to + k * width, width);
    }
}

void pack(const gathered *g, const microkernel *kernel, enum isa isa, float *to, int64_t width) {
    const int64_t lane_runs = count_runs(g->lane, g->lanes, g->lane_apart);
    if (lane_runs * g->steps <= g->step_runs * g->lanes) {
        for (int64_t i = 0, n; i < g->lanes; i += n) {
            n = run_of(g->lane + i, g->lanes - i, g->lane_apart);
            if (g->bf16)
                copy_bf16[isa](factor_at(1, g->data, g->lane[i]), n, g->lane_apart, g->step, g->steps, to + i,
                               width);
            else
                kernel->copy(g->data, g->lane[i], n, g->lane_apart, g->step, g->steps, to + i, width);
        }
    } else {
        for (int64_t k = 0, n; k < g->steps; k += n) {
            n = run_of(g->step + k, g->steps - k, g->step_apart);
            if (g->bf16)
                transpose_bf16(factor_at(1, g->data, g->step[k]), n, g->step_apart, g->lane, g->lanes, kernel,
                               isa, to + k * width, width);
            else
                kernel->transpose(g->data, g->step[k], n, g->step_apart, g->lane, g->lanes, to + k * width,
                                  width);
        }
    }
}

BODY panels_to_f64_body(const float *from, int64_t n, double *to) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i];
}
VARIANTS(panels_to_f64, (const float *from, int64_t n, double *to), (from, n, to))

void to_f64(const float *from, int64_t n, double *to, enum isa isa) {
    panels_to_f64[isa](from, n, to);
}

BODY panels_to_bf16_body(const float *from, int64_t n, uint16_t *to) {
    for (int64_t i = 0; i < n; i++) to[i] = to_bf16(from[i]);
}
VARIANTS(panels_to_bf16, (const float *from, int64_t n, uint16_t *to), (from, n, to))

void round_to_bf16(const float *from, int64_t n, uint16_t *to, enum isa isa) {
    panels_to_bf16[isa](from, n, to);
}
