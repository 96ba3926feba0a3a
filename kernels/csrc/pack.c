// A panel is copied along runs of lanes, or transposed along runs of steps, whichever are longer.

#include "pack.h"

static int64_t count_runs(const int64_t *offset, int64_t count, int64_t apart) {
    int64_t breaks = 0;
    for (int64_t i = 1; i < count; i++) breaks += offset[i] - offset[i - 1] != apart;
    return breaks + 1;
}

void pack(const gathered *g, const microkernel *kernel, float *to, int64_t width) {
    const int64_t lane_runs = count_runs(g->lane, g->lanes, g->lane_apart);
    const int64_t step_runs = count_runs(g->step, g->steps, g->step_apart);
    if (lane_runs * g->steps <= step_runs * g->lanes) {
        for (int64_t i = 0, n; i < g->lanes; i += n) {
            n = run_of(g->lane + i, g->lanes - i, g->lane_apart);
            kernel->copy(g->data, g->lane[i], n, g->lane_apart, g->step, g->steps, to + i, width);
        }
    } else {
        for (int64_t k = 0, n; k < g->steps; k += n) {
            n = run_of(g->step + k, g->steps - k, g->step_apart);
            kernel->transpose(g->data, g->step[k], n, g->step_apart, g->lane, g->lanes, to + k * width,
                              width);
        }
    }
}
