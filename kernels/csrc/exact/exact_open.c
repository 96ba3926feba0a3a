// Decides open elements of a contraction in two stages, all elements together block by block, so that the
// places of a block's taps are found once.
//
// First stage: compensated sums in lanes, with a bound on what they lack. Second stage, for elements that the
// first does not decide: sums without rounding.

#include "exact_open.h"
#include "exact_pair.h"
#include "gemm/pack.h"
#include <math.h>

#define VECTOR 8
#define SIDE_BY_SIDE (2 * VECTOR) // lanes

typedef double wide __attribute__((vector_size(8 * VECTOR)));
typedef int64_t whole __attribute__((vector_size(sizeof(wide))));

// In each lane, the sum of its products is sum + rest + d, where the absolute value of d is at most `lost`,
// up to the rounding of `lost` itself.
typedef struct {
    double sum[SIDE_BY_SIDE], rest[SIDE_BY_SIDE], lost[SIDE_BY_SIDE];
} compensated;

// Add `count` products, a multiple of the lanes.
BODY add_compensated_body(compensated *c, const double *product, int64_t count) {
    wide sum[2], rest[2], lost[2];
    memcpy(sum, c->sum, sizeof sum), memcpy(rest, c->rest, sizeof rest), memcpy(lost, c->lost, sizeof lost);
    for (int64_t k = 0; k < count; k += SIDE_BY_SIDE) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            wide value;
            memcpy(&value, product + k + v * VECTOR, sizeof value);
            ADD_WITH_ERROR(wide, sum[v], value);
            ADD_WITH_ERROR(wide, rest[v], value);
            // NOTE: the sign bit is cleared as an integer; not every compiler knows fabs of a vector.
            whole size;
            memcpy(&size, &value, sizeof size);
            size &= INT64_MAX;
            memcpy(&value, &size, sizeof value);
            lost[v] += value;
        }
    }
    memcpy(c->sum, sum, sizeof sum), memcpy(c->rest, rest, sizeof rest), memcpy(c->lost, lost, sizeof lost);
}
VARIANTS(add_compensated, (compensated * c, const double *product, int64_t count), (c, product, count))

// Add lane `other` to lane `one`.
static inline void join_lanes(compensated *c, int one, int other) {
    double error = c->sum[other], more = c->rest[other];
    ADD_WITH_ERROR(double, c->sum[one], error);
    ADD_WITH_ERROR(double, c->rest[one], error);
    ADD_WITH_ERROR(double, c->rest[one], more);
    c->lost[one] += c->lost[other] + fabs(error) + fabs(more);
}

// Decide a result, unless the bound includes several.
//
// INVARIANT: the additions that make `lost` have fewer than 2^31 roundings, so twice its value is enough. It
// is a multiple of 2^-298, as every sum here is.
static int decide_sum(compensated *c, int bf16, float *result) {
    for (int half = SIDE_BY_SIDE / 2; half; half /= 2)
        for (int i = 0; i < half; i++) join_lanes(c, i, i + half);
    const double lost = 2 * c->lost[0];
    if (lost == 0) {
        *result = rounded(pair_odd(c->sum[0], c->rest[0]), bf16);
        return 1;
    }
    if (!(lost <= DBL_MAX)) return 0;
    exact_sum low = {0}, high;
    exact_add(&low, c->sum[0]), exact_add(&low, c->rest[0]);
    high = low;
    exact_add(&low, -lost), exact_add(&high, lost);
    *result = exact_result(&high, bf16);
    return exact_result(&low, bf16) == *result;
}

// The taps of a block, and where they are in a row of A.
typedef struct {
    taps t;
    int64_t a[CHUNK];
} block;

static void find_block(const plan *p, const part *s, int64_t begin, block *b) {
    const gemm *g = p->g;
    const int64_t end = min_i64(begin + CHUNK, count_of(&g->taps));
    int64_t place[CHUNK];
    find_taps_between(p, s, begin, end, &b->t);
    if (!b->t.count) return;
    expand(&g->taps, &g->a_tap, counters_at(&g->taps, begin), end - begin, place);
    for (int64_t k = 0; k < b->t.count; k++) b->a[k] = place[b->t.a[k] / p->kernel->height];
}

// A column's elements in a block: those of taps that exist, and where these are in a row of A.
typedef struct {
    int64_t count, a[CHUNK];
    int near; // one after the other in a row
    float b[CHUNK];
} column_terms;

static void find_column(const gemm *g, const part *s, const block *k, const void *b, int64_t column,
                        column_terms *to) {
    const counters at = counters_at(&s->columns, column);
    const taps *t = &k->t;
    int64_t place, y = 0, x = 0;
    expand(&s->columns, &s->b_column, at, 1, &place);
    if (s->image) expand(&s->columns, &s->y_column, at, 1, &y), expand(&s->columns, &s->x_column, at, 1, &x);
    to->count = 0;
    for (int64_t i = 0; i < t->count; i++) {
        if (s->image) {
            const int64_t high = y + t->y[i], wide = x + t->x[i];
            if (high < 0 || high >= g->high || wide < 0 || wide >= g->wide) continue;
        }
        to->a[to->count] = k->a[i];
        to->b[to->count++] = factor(g->bf16, factor_at(g->bf16, factor_at(g->bf16, b, place), t->b[i]));
    }
    to->near = to->count && count_runs(to->a, to->count, 1) == 1;
}

BODY multiply_body(const float *row, const column_terms *c, double *product) {
    if (c->near) {
        const float *a = row + c->a[0];
        for (int64_t k = 0; k < c->count; k++) product[k] = (double)a[k] * (double)c->b[k];
    } else {
        for (int64_t k = 0; k < c->count; k++) product[k] = (double)row[c->a[k]] * (double)c->b[k];
    }
}
VARIANTS(multiply, (const float *row, const column_terms *c, double *product), (row, c, product))

static void multiply_bf16(const uint16_t *row, const column_terms *c, double *product) {
    for (int64_t k = 0; k < c->count; k++) product[k] = (double)from_bf16(row[c->a[k]]) * (double)c->b[k];
}

// Compute an element's products in a block, followed by zeros. Return their number, a multiple of the lanes.
static int64_t find_products(const plan *p, const void *row, const column_terms *column, double *product) {
    if (p->g->bf16)
        multiply_bf16(row, column, product);
    else
        multiply[p->isa](row, column, product);
    int64_t count = column->count;
    while (count % SIDE_BY_SIDE) product[count++] = 0;
    return count;
}

// Two sums take turns, so that one need not wait for the other's digits.
static void add_exactly(exact_sum sum[2], const double *product, int64_t count) {
    for (int64_t k = 0; k < count; k += 2) exact_add(&sum[0], product[k]), exact_add(&sum[1], product[k + 1]);
}

// Order elements by column. Return their indices.
static void order(const open_elements *open, int64_t *index) {
    for (int64_t i = 0; i < open->count; i++) {
        int64_t j = i;
        for (; j > 0 && open->column[index[j - 1]] > open->column[i]; j--) index[j] = index[j - 1];
        index[j] = i;
    }
}

static int64_t decided[2]; // elements, by stage

// Return how many elements each stage has decided in this process, so far.
REPOPS_EXPORT void repops_exact_decided(int64_t *by_stage) {
    for (int i = 0; i < 2; i++) by_stage[i] = __atomic_load_n(&decided[i], __ATOMIC_RELAXED);
}

void exact_decide(const plan *p, const part *s, int64_t batch, const open_elements *open) {
    const gemm *g = p->g;
    const int bf16 = g->bf16;
    const int64_t total = count_of(&g->taps);
    const void *a = factor_at(bf16, g->a, batch * g->a_batch),
               *all = factor_at(bf16, g->b, batch * g->b_batch);
    compensated first[OPEN_ELEMENTS];
    exact_sum second[OPEN_ELEMENTS][2];
    int64_t left[OPEN_ELEMENTS], count = open->count;
    double product[CHUNK];
    block b;
    column_terms column;
    memset(first, 0, (size_t)count * sizeof *first);
    order(open, left);
    for (int stage = 0; stage < 2 && count; stage++) {
        if (stage == 1) memset(second, 0, (size_t)open->count * sizeof *second);
        for (int64_t begin = 0; begin < total; begin += CHUNK) {
            find_block(p, s, begin, &b);
            if (!b.t.count) continue;
            for (int64_t j = 0, known = -1; j < count; j++) {
                const int64_t i = left[j];
                if (open->column[i] != known) find_column(g, s, &b, all, open->column[i], &column);
                known = open->column[i];
                const int64_t n =
                    find_products(p, factor_at(bf16, a, open->row[i] * g->a_row), &column, product);
                if (stage == 0)
                    add_compensated[p->isa](&first[i], product, n);
                else
                    add_exactly(second[i], product, n);
            }
        }
        int64_t undecided = 0;
        for (int64_t j = 0; j < count; j++) {
            const int64_t i = left[j];
            int64_t place;
            expand(&s->columns, &s->c_column, counters_at(&s->columns, open->column[i]), 1, &place);
            float value;
            if (stage == 0) {
                if (!decide_sum(&first[i], bf16, &value)) {
                    left[undecided++] = i;
                    continue;
                }
            } else {
                exact_join(&second[i][0], &second[i][1]);
                value = exact_result(&second[i][0], bf16);
            }
            put_exact(g->c, batch * g->c_batch + open->row[i] * g->c_row + place, value, bf16);
        }
        __atomic_fetch_add(&decided[stage], count - undecided, __ATOMIC_RELAXED);
        count = undecided;
    }
}
