// Contractions of bf16 factors: the factors are widened to f32, which is exact, and the result is rounded.

#include "bits.h"
#include "matrix.h"
#include <stdlib.h>

BODY widen_body(const uint16_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) to[i] = from_bf16(from[i]);
}
VARIANTS(widen, (const uint16_t *from, int64_t n, float *to), (from, n, to))

BODY narrow_body(const float *from, int64_t n, uint16_t *to) {
    for (int64_t i = 0; i < n; i++) to[i] = to_bf16(from[i]);
}
VARIANTS(narrow, (const float *from, int64_t n, uint16_t *to), (from, n, to))

typedef struct {
    const void *from;
    void *to;
    int narrows;
    enum isa isa;
} conversion;

static void range(void *context, int64_t begin, int64_t end) {
    const conversion *c = context;
    if (c->narrows)
        narrow[c->isa]((const float *)c->from + begin, end - begin, (uint16_t *)c->to + begin);
    else
        widen[c->isa]((const uint16_t *)c->from + begin, end - begin, (float *)c->to + begin);
}

// Apply an operator of two f32 factors, whose result is f32 or, if it `narrows` itself, bf16. Return 1 if
// there is no memory.
static int widened(const signature *sig, void *const *data, int narrows, int threads, int isa,
                   repops_operator *operator) {
    const int64_t count[3] = {elements(input(sig, 0)), elements(input(sig, 1)),
                              narrows ? 0 : elements(output(sig, 0))};
    float *f32[3];
    int failed = 0;
    for (int i = 0; i < 3; i++) failed |= !(f32[i] = malloc((size_t)(count[i] + 1) * sizeof *f32[i]));
    for (int i = 0; i < 2 && !failed; i++) {
        conversion c = {data[i], f32[i], 0, (enum isa)isa};
        parallel(threads, count[i], THREAD_WORK, range, &c);
    }
    if (!failed) {
        void *const places[3] = {f32[0], f32[1], narrows ? data[2] : f32[2]};
        failed = operator(sig, places, threads, isa);
    }
    if (!failed && !narrows) {
        conversion c = {f32[2], data[2], 1, (enum isa)isa};
        parallel(threads, count[2], THREAD_WORK, range, &c);
    }
    for (int i = 0; i < 3; i++) free(f32[i]);
    return failed;
}

// NOTE: a contraction reads shapes and attributes of its signature, no dtypes.
#define OF_BF16(name)                                                                                        \
    repops_operator repops_##name, repops_exact_narrow_##name;                                               \
    OPERATOR(bf16_##name) {                                                                                  \
        return widened(sig, data, 0, threads, isa, repops_##name);                                           \
    }                                                                                                        \
    OPERATOR(exact_bf16_##name) {                                                                            \
        return widened(sig, data, 1, threads, isa, repops_exact_narrow_##name);                              \
    }
OF_BF16(mm)
OF_BF16(bmm)
OF_BF16(conv2d)
OF_BF16(conv2d_input_grad)
OF_BF16(conv2d_weight_grad)

// ---------------------------------------------------------------------------------------- products of views

// A batch of matrices, as lines along the dimension with the smaller stride.
typedef struct {
    const uint16_t *from;
    float *to; // matrix after matrix, line after line
    const product_words *w;
    const int64_t *outer, *stride;
    int64_t lines, length, apart, step; // lines of a matrix; distance of lines, and of elements
    enum isa isa;
} matrices;

static void widen_lines(void *context, int64_t begin, int64_t end) {
    const matrices *x = context;
    for (int64_t i = begin; i < end; i++) {
        int64_t matrix = i / x->lines, rest = matrix / x->w->inner.batch;
        int64_t at = i % x->lines * x->apart + matrix % x->w->inner.batch * x->stride[BATCH];
        for (int d = OUTER - 1; d >= 0; d--)
            at += rest % x->w->outer[d] * x->outer[d], rest /= x->w->outer[d];
        float *to = x->to + i * x->length;
        if (x->step == 1)
            widen[x->isa](x->from + at, x->length, to);
        else
            for (int64_t j = 0; j < x->length; j++) to[j] = from_bf16(x->from[at + j * x->step]);
    }
}

// Widen all matrices [rows, columns] of an operand, and set the strides of the result.
static float *widened_matrices(const product_words *w, const void *from, const int64_t *outer,
                               const int64_t *stride, int64_t rows, int64_t columns, int64_t *strides,
                               int threads, enum isa isa) {
    const int by_row = stride[COLUMN] <= stride[ROW];
    matrices x = {.from = from, .w = w, .outer = outer, .stride = stride, .isa = isa};
    x.lines = by_row ? rows : columns, x.length = by_row ? columns : rows;
    x.apart = stride[by_row ? ROW : COLUMN], x.step = stride[by_row ? COLUMN : ROW];
    const int64_t count = product(w->outer, OUTER) * w->inner.batch;
    x.to = malloc((size_t)(count * rows * columns + 1) * sizeof *x.to);
    if (!x.to) return 0;
    parallel(threads, count * x.lines, ceil_div(THREAD_WORK, x.length + 1), widen_lines, &x);
    strides[BATCH] = rows * columns, strides[ROW] = by_row ? columns : 1, strides[COLUMN] = by_row ? 1 : rows;
    return x.to;
}

typedef int product_of_views(const product_words *w, void *const *data, int threads, int isa);
product_of_views repops_product, repops_exact_narrow_product;

static int widened_product(const product_words *w, void *const *data, product_of_views *operator, int narrows,
                           int threads, int isa) {
    const product_shape *s = &w->inner;
    product_words wide = {.outer = {1, 1, 1, 1}, .inner = *s};
    wide.inner.batch = product(w->outer, OUTER) * s->batch;
    wide.inner.c[BATCH] = s->m * s->n;
    const int64_t size = wide.inner.batch * s->m * s->n;
    float *f32[3] = {widened_matrices(w, data[0], w->a_outer, s->a, s->m, s->k, wide.inner.a, threads, isa),
                     widened_matrices(w, data[1], w->b_outer, s->b, s->k, s->n, wide.inner.b, threads, isa),
                     malloc((size_t)(narrows ? 1 : size + 1) * sizeof(float))};
    int failed = !f32[0] || !f32[1] || !f32[2];
    if (!failed) {
        void *const places[3] = {f32[0], f32[1], narrows ? data[2] : f32[2]};
        failed = operator(&wide, places, threads, isa);
    }
    if (!failed && !narrows) {
        conversion c = {f32[2], data[2], 1, (enum isa)isa};
        parallel(threads, size, THREAD_WORK, range, &c);
    }
    for (int i = 0; i < 3; i++) free(f32[i]);
    return failed;
}

// As repops_product and repops_exact_product, of bf16 views. INVARIANT: C is contiguous.
REPOPS_EXPORT int repops_bf16_product(const product_words *w, void *const *data, int threads, int isa) {
    return widened_product(w, data, repops_product, 0, threads, isa);
}

REPOPS_EXPORT int repops_exact_bf16_product(const product_words *w, void *const *data, int threads, int isa) {
    return widened_product(w, data, repops_exact_narrow_product, 1, threads, isa);
}
