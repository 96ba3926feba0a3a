// Decides open elements of a contraction in two stages, all elements together block by block, so that the
// places of a block's taps are found once.
//
// First stage: compensated sums in lanes, with a bound on what they lack. Second stage, for elements that the
// first does not decide: sums without rounding.

#include "exact_open.h"
#include "exact_sum.h"

#define SIDE_BY_SIDE 8 // lanes

// In each lane, the sum of its products is sum + rest + d, where the absolute value of d is at most `lost`,
// up to the rounding of `lost` itself.
typedef struct {
    double sum[SIDE_BY_SIDE], rest[SIDE_BY_SIDE], lost[SIDE_BY_SIDE];
} compensated;

// Add and return the sum; *error is what it lacks, exactly.
static inline __attribute__((always_inline)) double two_sum(double a, double b, double *error) {
    const double sum = a + b, of_b = sum - a;
    *error = (a - (sum - of_b)) + (b - of_b);
    return sum;
}

BODY add_compensated_body(compensated *c, const double *product, int64_t count) {
    compensated found = *c;
    for (int64_t k = 0; k < count; k += SIDE_BY_SIDE)
        for (int i = 0; i < SIDE_BY_SIDE; i++) {
            double error, lost;
            found.sum[i] = two_sum(found.sum[i], product[k + i], &error);
            found.rest[i] = two_sum(found.rest[i], error, &lost);
            found.lost[i] += __builtin_fabs(lost);
        }
    *c = found;
}
VARIANTS(add_compensated, (compensated * c, const double *product, int64_t count), (c, product, count))

// Decide a result, unless the bound includes several.
//
// INVARIANT: the additions that make `lost` have fewer than 2^31 roundings, so twice its value is enough. It
// is a multiple of 2^-298, as every sum here is.
static int decide_sum(const compensated *c, float *result) {
    exact_sum total = {0};
    double lost = 0;
    for (int i = 0; i < SIDE_BY_SIDE; i++) {
        exact_add(&total, c->sum[i]);
        exact_add(&total, c->rest[i]);
        lost += 2 * c->lost[i];
    }
    if (!(lost <= DBL_MAX) || total.beyond != 0) return 0;
    exact_sum low = total;
    exact_add(&low, -lost);
    exact_add(&total, lost);
    *result = exact_result(&total);
    return exact_result(&low) == *result;
}

// The taps of a block: where they are in a row of A and in B.
typedef struct {
    taps t;
    int64_t a[CHUNK];
} block;

static void find_block(const plan *p, const part *s, int64_t begin, block *b) {
    const gemm *g = p->g;
    int64_t place[CHUNK];
    find_taps(p, s, begin, &b->t);
    if (!b->t.count) return;
    expand(&g->taps, &g->a_tap, counters_at(&g->taps, begin), min_i64(CHUNK, count_of(&g->taps) - begin),
           place);
    for (int64_t k = 0; k < b->t.count; k++) b->a[k] = place[b->t.a[k] / p->kernel->height];
}

// The places of a column, as part defines.
typedef struct {
    int64_t b, y, x;
} column_place;

static column_place find_column(const part *s, int64_t column) {
    column_place at = {0};
    const counters c = counters_at(&s->columns, column);
    expand(&s->columns, &s->b_column, c, 1, &at.b);
    if (s->image)
        expand(&s->columns, &s->y_column, c, 1, &at.y), expand(&s->columns, &s->x_column, c, 1, &at.x);
    return at;
}

// Compute the products of an element in a block; those of taps that do not exist are 0. Return their number,
// a multiple of the lanes.
static int64_t find_products(const gemm *g, const part *s, const block *b, const float *row, const float *all,
                             column_place at, double *product) {
    const taps *t = &b->t;
    for (int64_t k = 0; k < t->count; k++) {
        const int64_t y = at.y + t->y[k], x = at.x + t->x[k];
        const int exists = !s->image || (y >= 0 && y < g->high && x >= 0 && x < g->wide);
        product[k] =
            exists ? (double)row[b->a[k]] * *element(all, (int64_t)((uint64_t)at.b + (uint64_t)t->b[k])) : 0;
    }
    int64_t count = t->count;
    while (count % SIDE_BY_SIDE) product[count++] = 0;
    return count;
}

void exact_decide(const plan *p, const part *s, int64_t batch, const open_elements *open) {
    const gemm *g = p->g;
    const int64_t total = count_of(&g->taps);
    const float *a = g->a + batch * g->a_batch, *all = g->b + batch * g->b_batch;
    column_place at[OPEN_ELEMENTS];
    compensated first[OPEN_ELEMENTS];
    exact_sum second[OPEN_ELEMENTS];
    int64_t left[OPEN_ELEMENTS], count = open->count;
    double product[CHUNK];
    block b;
    memset(first, 0, sizeof first);
    memset(second, 0, sizeof second);
    for (int64_t i = 0; i < count; i++) left[i] = i, at[i] = find_column(s, open->column[i]);

    for (int stage = 0; stage < 2 && count; stage++) {
        for (int64_t begin = 0; begin < total; begin += CHUNK) {
            find_block(p, s, begin, &b);
            if (!b.t.count) continue;
            for (int64_t j = 0; j < count; j++) {
                const int64_t i = left[j];
                const int64_t n = find_products(g, s, &b, a + open->row[i] * g->a_row, all, at[i], product);
                if (stage == 0)
                    add_compensated[p->isa](&first[i], product, n);
                else
                    for (int64_t k = 0; k < n; k++) exact_add(&second[i], product[k]);
            }
        }
        int64_t undecided = 0;
        for (int64_t j = 0; j < count; j++) {
            const int64_t i = left[j];
            int64_t column;
            expand(&s->columns, &s->c_column, counters_at(&s->columns, open->column[i]), 1, &column);
            float *c = (float *)g->c + batch * g->c_batch + open->row[i] * g->c_row + column;
            if (stage == 1)
                *c = exact_result(&second[i]);
            else if (!decide_sum(&first[i], c))
                left[undecided++] = i;
        }
        count = undecided;
    }
}
