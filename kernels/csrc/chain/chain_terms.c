// Contractions: sums of products, without those in the padding. Factors of bf16 are widened. Their states:
//
// ordered   two words: the sum of the earlier chunks, and the sum of this chunk
// exact     the sum
// logged    the sum, the magnitude, the number of existing products

#include "chain.h"
#include <math.h>

static terms matmul_terms(const chain *c) {
    const tensor *a = input(c->sig, 0), *b = input(c->sig, 1);
    const int64_t M = a->dim[a->rank - 2], K = a->dim[a->rank - 1], N = b->dim[b->rank - 1];
    const int64_t n = c->element % N, m = c->element / N; // m counts the rows of all batches
    terms t = {.data = {c->data[0], c->data[1]},
               .narrow = a->dtype == BF16,
               .image = m * K,
               .other = m / M * K * N + n,
               .taps = {{1, 1, 1, K}},
               .other_step = {0, 0, N},
               .rows = {0, 0, 1, 1},
               .columns = {0, 1, 1, K}};
    return t;
}

// Attributes: stride, padding and dilation, each preceded by its count, then groups.
static terms conv_terms(const chain *c) {
    const tensor *first = input(c->sig, 0), *second = input(c->sig, 1), *y = output(c->sig, 0);
    const int64_t *attr = attributes(c->sig);
    const int64_t *stride = attr + 1, *padding = attr + 4, *dilation = attr + 7, groups = attr[9];
    int64_t at[4], rest = c->element;
    for (int d = 3; d >= 0; d--) at[d] = rest % y->dim[d], rest /= y->dim[d];

    const int gradient = c->kind == CHAIN_WEIGHT_GRAD; // its image is the second operand
    terms t = {.data = {c->data[gradient], c->data[!gradient]}, .narrow = first->dtype == BF16};
    axis axes[2];
    if (c->kind == CHAIN_CONV) { // x [N, C, H, W], w [F, C / groups, R, S]
        const int64_t C = first->dim[1], part = second->dim[1], taps = second->dim[2] * second->dim[3];
        const int64_t group = at[1] / (second->dim[0] / groups);
        t.plane = first->dim[2] * first->dim[3];
        t.image = (at[0] * C + group * part) * t.plane;
        t.other = at[1] * part * taps;
        t.taps = (loops){{1, part, second->dim[2], second->dim[3]}};
        t.other_step[0] = taps, t.other_step[1] = second->dim[3], t.other_step[2] = 1;
        for (int d = 0; d < 2; d++)
            axes[d] = (axis){at[2 + d] * stride[d] - padding[d], dilation[d], 1, first->dim[2 + d]};
    } else if (c->kind == CHAIN_INPUT_GRAD) { // dy [N, F, P, Q], w [F, C / groups, R, S]
        const int64_t F = first->dim[1], filters = F / groups, part = second->dim[1];
        const int64_t taps = second->dim[2] * second->dim[3], group = at[1] / part, channel = at[1] % part;
        t.plane = first->dim[2] * first->dim[3];
        t.image = (at[0] * F + group * filters) * t.plane;
        t.other = (group * filters * part + channel) * taps;
        t.taps = (loops){{1, filters, second->dim[2], second->dim[3]}};
        t.other_step[0] = part * taps, t.other_step[1] = second->dim[3], t.other_step[2] = 1;
        for (int d = 0; d < 2; d++)
            axes[d] = (axis){at[2 + d] + padding[d], -dilation[d], stride[d], first->dim[2 + d]};
    } else { // dy [N, F, P, Q], x [N, C, H, W]: a tap is a place of dy
        const int64_t F = first->dim[1], C = second->dim[1], places = first->dim[2] * first->dim[3];
        const int64_t channel = at[0] / (F / groups) * (C / groups) + at[1],
                      plane = second->dim[2] * second->dim[3];
        t.plane = C * plane;
        t.image = channel * plane;
        t.other = at[0] * places;
        t.taps = (loops){{1, first->dim[0], first->dim[2], first->dim[3]}};
        t.other_step[0] = F * places, t.other_step[1] = first->dim[3], t.other_step[2] = 1;
        for (int d = 0; d < 2; d++)
            axes[d] = (axis){at[2 + d] * dilation[d] - padding[d], stride[d], 1, second->dim[2 + d]};
    }
    t.rows = axes[0], t.columns = axes[1];
    return t;
}

FN float factor(const void *data, int64_t place, int narrow) {
    return narrow ? from_bf16(((const uint16_t *)data)[place]) : ((const float *)data)[place];
}

FN int64_t gather_of(const terms *t, int64_t from, int64_t to, float *a, float *b, const int narrow) {
    const int64_t width = t->taps.size[LOOPS - 1];
    counters at = counters_at(&t->taps, from);
    int64_t found = 0;
    while (from < to) {
        const int64_t outer = at.at[1], row = at.at[2], first = at.at[3];
        const int64_t run = min_i64(width - first, to - from), h = meets(&t->rows, row);
        if (h >= 0) {
            const int64_t line = t->image + outer * t->plane + h * t->columns.size;
            const int64_t other = t->other + outer * t->other_step[0] + row * t->other_step[1];
            for (int64_t tap = first; tap < first + run; tap++) {
                const int64_t w = meets(&t->columns, tap);
                if (w < 0) continue;
                a[found] = factor(t->data[0], line + w, narrow);
                b[found] = factor(t->data[1], other + tap * t->other_step[2], narrow);
                found++;
            }
        }
        from += run, at.at[3] = 0;
        if (++at.at[2] == t->taps.size[2]) at.at[2] = 0, at.at[1]++;
    }
    return found;
}

// Gather both factors of the existing terms from .. to - 1, in order; return the number of these terms.
static int64_t gather(const terms *t, int64_t from, int64_t to, float *a, float *b) {
    return t->narrow ? gather_of(t, from, to, a, b, 1) : gather_of(t, from, to, a, b, 0);
}

static void ordered_terms(const chain *c, const terms *t) {
    float total = get_f32(c->state), chunk = get_f32(c->state + 4), a[CHUNK], b[CHUNK];
    for (int64_t k = c->from; k < c->to;) {
        if (k % CHUNK == 0) total += chunk, chunk = -0.0f;
        const int64_t end = min_i64(c->to, k - k % CHUNK + CHUNK), found = gather(t, k, end, a, b);
        // NOTE: fmaf of the C library is correctly rounded, with or without the instruction.
        for (int64_t i = 0; i < found; i++) chunk = fmaf(a[i], b[i], chunk);
        k = end;
    }
    put_f32(c->state, total), put_f32(c->state + 4, chunk);
}

static void exact_terms(const chain *c, const terms *t) {
    exact_sums sums = get_exact(c);
    float a[CHUNK], b[CHUNK];
    for (int64_t k = c->from; k < c->to; k += CHUNK) {
        const int64_t found = gather(t, k, min_i64(c->to, k + CHUNK), a, b);
        for (int64_t i = 0; i < found; i++) add_product(&sums, (double)a[i] * (double)b[i]);
    }
    put_exact(c, &sums);
}

terms terms_of(const chain *c) {
    return c->kind == CHAIN_MATMUL ? matmul_terms(c) : conv_terms(c);
}

void chain_terms(const chain *c) {
    const terms t = terms_of(c);
    (sums_exactly(c) ? exact_terms : ordered_terms)(c, &t);
}
