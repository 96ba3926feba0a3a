// Packs panels in binary32, which bf16 is widened to, and converts them to binary64. A panel is copied along
// runs of lanes or transposed along runs of steps, by the longer runs.

#include "pack.h"
#include "bits.h"

void pack(const gathered *g, const microkernel *kernel, float *to, int64_t width) {
    const int64_t lane_runs = count_runs(g->lane, g->lanes, g->lane_apart);
    if (lane_runs * g->steps <= g->step_runs * g->lanes) {
        for (int64_t i = 0, n; i < g->lanes; i += n) {
            n = run_of(g->lane + i, g->lanes - i, g->lane_apart);
            kernel->copy[g->bf16](g->data, g->lane[i], n, g->lane_apart, g->step, g->steps, to + i, width);
        }
    } else {
        for (int64_t k = 0, n; k < g->steps; k += n) {
            n = run_of(g->step + k, g->steps - k, g->step_apart);
            kernel->transpose[g->bf16](g->data, g->step[k], n, g->step_apart, g->lane, g->lanes,
                                       to + k * width, width);
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
