// mm and bmm: the contraction of gemm.h over row-major operands, and over operands with any strides.

#include "exact/exact_gemm.h"
#include "gemm/gemm.h"
#include "gemm/matrix.h"
#include "gemm/vector.h"
#include "tensorcore/tc16_gemm.h"

#define FEW 16 // columns that would leave most of a panel empty

static int multiply(const product_shape *s, const void *a, const void *b, void *c, contraction *run,
                    int threads, enum isa isa) {
    const int bf16 = run == tc16_gemm_run ? s->c_bf16 != 0 : s->a_bf16 || s->b_bf16 || s->c_bf16;
    // Turned: C transposed is B transposed times A transposed.
    const int turn = s->n <= FEW && s->m > s->n;
    if (run == gemm_run && (bf16 || (!turn && s->c[COLUMN] == 1)))
        return matrix_product(s, a, b, c, threads, isa);
    const int64_t *left = turn ? s->b : s->a, *right = turn ? s->a : s->b;
    const int down = turn ? COLUMN : ROW, across = turn ? ROW : COLUMN;
    const part all = {
        .columns = {{1, 1, 1, turn ? s->m : s->n}},
        .taps = {{1, 1, 1, s->k}},
        .number = {0, {0, 0, 0, 1}},
        .b_tap = {0, {0, 0, 0, right[down]}},
        .b_column = {0, {0, 0, 0, right[across]}},
        .c_column = {0, {0, 0, 0, s->c[across]}},
    };
    const gemm g = {
        .batch = s->batch,
        .bf16 = bf16,
        .rows = turn ? s->n : s->m,
        .taps = all.taps,
        .a_tap = {0, {0, 0, 0, left[across]}},
        .number = all.number,
        .a = turn ? b : a,
        .a_batch = left[BATCH],
        .a_row = left[down],
        .b = turn ? a : b,
        .b_batch = right[BATCH],
        .c = c,
        .c_batch = s->c[BATCH],
        .c_row = s->c[down],
        .parts = 1,
        .columns = count_of(&all.columns),
        .find_part = only_part,
        .context = &all,
    };
    return run(&g, threads, isa);
}

static int product_of(call c, int64_t batch, int bf16, contraction *run) {
    const tensor *a = input(c.sig, 0), *b = input(c.sig, 1);
    const int64_t m = a->dim[a->rank - 2], k = a->dim[a->rank - 1], n = b->dim[b->rank - 1];
    if (run == gemm_run && !bf16 && (m == 1 || n == 1)) {
        const int turn = m != 1;
        vector_product(c.data[turn], c.data[!turn], turn, batch, k, turn ? m : n, c.data[2], c.threads,
                       c.isa);
        return 0;
    }
    const product_shape s = {batch,
                             m,
                             k,
                             n,
                             {m * k, k, 1},
                             {k * n, n, 1},
                             {m * n, n, 1},
                             bf16,
                             bf16,
                             output(c.sig, 0)->dtype == BF16};
    return multiply(&s, c.data[0], c.data[1], c.data[2], run, c.threads, c.isa);
}

#define PRODUCTS(prefix, bf16, run)                                                                          \
    OPERATOR(prefix##mm) {                                                                                   \
        return product_of(CALL, 1, bf16, run);                                                               \
    }                                                                                                        \
    OPERATOR(prefix##bmm) {                                                                                  \
        return product_of(CALL, input(sig, 0)->dim[0], bf16, run);                                           \
    }
PRODUCTS(, 0, gemm_run)
PRODUCTS(bf16_, 1, gemm_run)
PRODUCTS(exact_, 0, exact_gemm_run)
PRODUCTS(exact_bf16_, 1, exact_gemm_run)
// Of bf16; the result is bf16 or binary32, as its tensor says.
PRODUCTS(tc16_, 1, tc16_gemm_run)

static int product_of_views(const product_words *w, void *const *data, contraction *run, int threads,
                            int isa) {
    const product_shape *s = &w->inner;
    int failed = 0;
    for (int64_t i = 0, count = product(w->outer, OUTER); i < count && !failed; i++) {
        int64_t a = 0, b = 0, c = 0, rest = i;
        for (int d = OUTER - 1; d >= 0; d--) {
            const int64_t at = rest % w->outer[d];
            a += at * w->a_outer[d], b += at * w->b_outer[d], c += at * w->c_outer[d];
            rest /= w->outer[d];
        }
        failed = multiply(s, factor_at(s->a_bf16 != 0, data[0], a), factor_at(s->b_bf16 != 0, data[1], b),
                          (void *)factor_at(s->c_bf16 != 0, data[2], c), run, threads, (enum isa)isa);
    }
    return failed;
}

// Compute mm or bmm of operands that are views, with the bits of their copies. data: A, B, C. With bf16 among
// them, columns of C are adjacent; in the mode exact all three are bf16 then.
REPOPS_EXPORT int repops_product(const product_words *w, void *const *data, int threads, int isa) {
    return product_of_views(w, data, gemm_run, threads, isa);
}
// Of bf16; C may be binary32.
REPOPS_EXPORT int repops_tc16_product(const product_words *w, void *const *data, int threads, int isa) {
    return product_of_views(w, data, tc16_gemm_run, threads, isa);
}
REPOPS_EXPORT int repops_exact_product(const product_words *w, void *const *data, int threads, int isa) {
    return product_of_views(w, data, exact_gemm_run, threads, isa);
}
