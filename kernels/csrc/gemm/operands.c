// Gathers panels of A and B. Where rows of A are close together, a few taps of all rows are packed at a time,
// so that memory is read in order. Taps of B that do not exist are read like the others if that stays inside
// b. If it does not, the tap is moved inside, and its elements are fetched one by one afterwards.

#include "operands.h"
#include "pack.h"
#include <string.h>

void pack_a(const plan *p, int64_t batch, int64_t m0, int64_t m1, const int64_t *tap, int64_t count,
            float *out) {
    const gemm *g = p->g;
    const int64_t height = p->kernel->height, block = g->a_row < CHUNK ? 64 : CHUNK;
    // NOTE: the micro-kernels multiply the missing rows of the last panel too. Left as they are, these could
    // be subnormal, which takes some processors a hundred cycles.
    const int64_t last = (m1 - m0) / height * height;
    if (m0 + last < m1) memset(out + last * count, 0, (size_t)(height * count) * sizeof *out);
    for (int64_t k = 0; k < count; k += block)
        for (int64_t m = m0; m < m1; m += height) {
            int64_t lane[MAX_HEIGHT];
            for (int64_t i = 0; i < height; i++) lane[i] = (m + i) * g->a_row;
            gathered from = {.data = factor_at(g->bf16, g->a, batch * g->a_batch),
                             .bf16 = g->bf16,
                             .lanes = min_i64(height, m1 - m),
                             .steps = min_i64(block, count - k),
                             .lane = lane,
                             .step = tap + k,
                             .lane_apart = apart(g->a_row),
                             .step_apart = apart(g->a_tap.stride[LOOPS - 1])};
            from.step_runs = count_runs(from.step, from.steps, from.step_apart);
            pack(&from, p->moves, out + (m - m0) * count + k * height, height);
        }
}

void pack_b(const plan *p, const part *s, int64_t batch, const panel *columns, const taps *t, float *out) {
    const gemm *g = p->g;
    const int64_t width = p->kernel->width, *lane = columns->b, *step = columns->b_step;
    gathered from = {.data = factor_at(g->bf16, g->b, batch * g->b_batch),
                     .bf16 = g->bf16,
                     .lanes = columns->count,
                     .steps = columns->steps,
                     .lane = lane,
                     .step = step,
                     .lane_apart = apart(s->b_column.stride[LOOPS - 1]),
                     .step_apart = apart(s->b_tap.stride[LOOPS - 1]),
                     .step_runs = t->b_runs};
    int64_t first = INT64_MIN / 2, last = g->b_size - batch * g->b_batch - 1; // taps that stay inside b
    for (int64_t j = 0; j < columns->count && !s->far; j++) {
        first = max_i64(first, -lane[j]);
        last = min_i64(last, g->b_size - batch * g->b_batch - 1 - lane[j]);
    }
    if (columns->whole || (!s->far && first <= t->b_low && t->b_high <= last)) {
        pack(&from, p->moves, out, width);
        return;
    }
    const int some = !s->far && first <= last;
    int64_t moved[CHUNK];
    for (int64_t k = 0; k < from.steps; k++) moved[k] = max_i64(first, min_i64(last, step[k]));
    if (some) {
        from.step = moved;
        pack(&from, p->moves, out, width);
    }
    for (int64_t k = 0; k < from.steps; k++) {
        if (some && moved[k] == step[k]) continue;
        for (int64_t j = 0; j < columns->count; j++)
            out[k * width + j] =
                columns->exists[k] >> j & 1
                    ? factor(g->bf16, factor_at(g->bf16, factor_at(g->bf16, from.data, lane[j]), step[k]))
                    : -0.0f;
    }
}
