// Operators that take values one by one: the elements of a reduction, and scatter_add.

#include "chain.h"

// NOTE: neighbouring dimensions that are both reduced form one loop, so rank 8 needs at most LOOPS loops.
reduction reduction_of(const chain *c) {
    const tensor *x = input(c->sig, 0);
    const int64_t *attr = attributes(c->sig), one = 1;
    const int64_t rank = c->kind == CHAIN_ARGMAX ? one : attr[0],
                  *dims = attr + (c->kind == CHAIN_ARGMAX ? 0 : 1);
    int reduced[MAX_RANK] = {0};
    for (int64_t i = 0; i < rank; i++) reduced[dims[i]] = 1;

    reduction r = {.inner = {{1, 1, 1, 1}}, .count = 1};
    int64_t stride = 1, rest = c->element;
    for (int d = (int)x->rank - 1, loop = LOOPS; d >= 0; d--) {
        const int64_t size = x->dim[d];
        if (!reduced[d]) {
            r.place.start += rest % size * stride, rest /= size;
        } else {
            const int joins = d + 1 < x->rank && reduced[d + 1];
            if (!joins) r.place.stride[--loop] = stride;
            r.inner.size[loop] *= size, r.count *= size;
        }
        stride *= size;
    }
    return r;
}

void reduced_places(const reduction *r, int64_t first, int64_t count, int64_t *places) {
    expand(&r->inner, &r->place, counters_at(&r->inner, first), count, places);
}

void chain_exact_sum(const chain *c) {
    const reduction r = reduction_of(c);
    const float *x = c->data[0];
    exact_sums sums = get_exact(c);
    int64_t places[BLOCK];
    for (int64_t t = c->from; t < c->to; t += BLOCK) {
        const int64_t count = min_i64(BLOCK, c->to - t);
        reduced_places(&r, t, count, places);
        for (int64_t i = 0; i < count; i++) add_value(&sums, x[places[i]]);
    }
    put_exact(c, &sums);
}

// Step 0 takes the base. Step 1 + p adds the source row at position p of idx, if idx[p] is this row.
void chain_scatter(const chain *c) {
    const tensor *base = input(c->sig, 0);
    const int64_t width = product(base->dim + 1, base->rank - 1);
    const int64_t row = c->element / width, *idx = c->data[1];
    const float *src = (const float *)c->data[2] + c->element % width,
                first = ((const float *)c->data[0])[c->element];
    const int ordered = !sums_exactly(c);
    exact_sums sums = {0};
    float sum = -0.0f;
    if (ordered)
        sum = get_f32(c->state);
    else
        sums = get_exact(c);
    for (int64_t t = c->from; t < c->to; t++) {
        if (t > 0 && idx[t - 1] != row) continue;
        const float value = t ? src[(t - 1) * width] : first;
        if (ordered)
            sum = t ? sum + value : value;
        else
            add_value(&sums, value);
    }
    if (ordered)
        put_f32(c->state, sum);
    else
        put_exact(c, &sums);
}
