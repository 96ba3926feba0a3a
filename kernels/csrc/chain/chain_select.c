// Operators that compare or wrap: sum of i64, amax, argmax, max_pool2d. Their states:
//
// sum, amax            the value: 8 bytes
// argmax, max_pool2d   the largest and its place: 8 + 8 bytes; max_pool2d begins with place -1

#include "chain.h"

static void reduce_i64(const chain *c, const reduction *r) {
    const int64_t *x = c->data[0];
    uint64_t found = get_be(c->state, 8), place = c->kind == CHAIN_ARGMAX ? get_be(c->state + 8, 8) : 0;
    int64_t places[BLOCK];
    for (int64_t t = c->from; t < c->to; t += BLOCK) {
        const int64_t count = min_i64(BLOCK, c->to - t);
        reduced_places(r, t, count, places);
        if (c->kind == CHAIN_SUM) {
            for (int64_t i = 0; i < count; i++) found += (uint64_t)x[places[i]];
            continue;
        }
        for (int64_t i = 0; i < count; i++) {
            const int64_t value = x[places[i]];
            const int taken = c->kind == CHAIN_ARGMAX && t + i == 0;
            if (taken || value > (int64_t)found) found = (uint64_t)value, place = (uint64_t)(t + i);
        }
    }
    put_be(c->state, 8, found);
    if (c->kind == CHAIN_ARGMAX) put_be(c->state + 8, 8, place);
}

static void reduce_f32(const chain *c, const reduction *r) {
    const float *x = c->data[0];
    int32_t found = order_key(f32_of((int32_t)get_be(c->state, 8)));
    uint64_t place = c->kind == CHAIN_ARGMAX ? get_be(c->state + 8, 8) : 0;
    int64_t places[BLOCK];
    for (int64_t t = c->from; t < c->to; t += BLOCK) {
        const int64_t count = min_i64(BLOCK, c->to - t);
        reduced_places(r, t, count, places);
        for (int64_t i = 0; i < count; i++) {
            const int32_t key = order_key(x[places[i]]);
            const int taken = c->kind == CHAIN_ARGMAX && t + i == 0;
            if (taken || key > found) found = key, place = (uint64_t)(t + i);
        }
    }
    put_be(c->state, 8, canonical_bits(from_key(found)));
    if (c->kind == CHAIN_ARGMAX) put_be(c->state + 8, 8, place);
}

// The first place in the plane that a tap meets, and the number of taps inside the plane.
typedef struct {
    int64_t first, count, step;
} taps;

static taps taps_of(int64_t before, int64_t kernel, int64_t dilation, int64_t size) {
    const int64_t skipped = before < 0 ? ceil_div(-before, dilation) : 0;
    const int64_t past = size - 1 >= before ? min_i64((size - 1 - before) / dilation + 1, kernel) : 0;
    return (taps){before + skipped * dilation, max_i64(past - skipped, 0), dilation};
}

// Find the taps of the element's window that are inside the plane. Attributes: kernel, stride, padding and
// dilation, each preceded by its count.
static void pool_taps(const chain *c, taps met[2]) {
    const tensor *x = input(c->sig, 0), *y = output(c->sig, 0);
    const int64_t *attr = attributes(c->sig);
    const int64_t at[2] = {c->element / y->dim[3] % y->dim[2], c->element % y->dim[3]};
    for (int d = 0; d < 2; d++)
        met[d] = taps_of(at[d] * attr[4 + d] - attr[7 + d], attr[1 + d], attr[10 + d], x->dim[2 + d]);
}

int64_t chain_pool_length(const chain *c) {
    taps met[2];
    pool_taps(c, met);
    return met[0].count * met[1].count;
}

static void pool(const chain *c) {
    const tensor *x = input(c->sig, 0), *y = output(c->sig, 0);
    const int64_t W = x->dim[3];
    const float *plane = (const float *)c->data[0] + c->element / (y->dim[2] * y->dim[3]) * x->dim[2] * W;
    taps met[2];
    pool_taps(c, met);

    int64_t best = (int64_t)get_be(c->state + 8, 8);
    int32_t found = order_key(f32_of((int32_t)get_be(c->state, 8)));
    for (int64_t t = c->from; t < c->to;) {
        const int64_t h = met[0].first + t / met[1].count * met[0].step, first = t % met[1].count;
        const int64_t end = min_i64(met[1].count, first + c->to - t);
        for (int64_t i = first; i < end; i++) {
            const int64_t place = h * W + met[1].first + i * met[1].step;
            const int32_t key = order_key(plane[place]);
            if (best < 0 || key > found) found = key, best = place;
        }
        t += end - first;
    }
    put_be(c->state, 8, canonical_bits(from_key(found)));
    put_be(c->state + 8, 8, (uint64_t)best);
}

void chain_select(const chain *c) {
    if (c->kind == CHAIN_POOL) {
        pool(c);
        return;
    }
    const reduction r = reduction_of(c);
    (input(c->sig, 0)->dtype == I64 ? reduce_i64 : reduce_f32)(c, &r);
}
