// Contractions of bf16 in the mode tc16: two steps for each term of a block, in which all terms of the block
// widen first and then accumulate (referee_py/element/tensor.py, which this follows for all bits of a state).
//
// State: total u32, c u32, e u16, flags u8, sum i40. The total is the sum of the earlier chunks; c is what
// the blocks of this one gave; the rest is of the block that is under way.

#include "chain.h"
#include "shared/tc16_rule.h"

enum { NAN_FLAG = 1, PLUS = 2, MINUS = 4 }; // bits of `flags`
#define BLOCKS_OF_CHUNK (CHUNK / TC16_TERMS)
#define LEAST 121 // the least exponent, with the biases of two factors
#define OF_C 127  // difference of that scale from the biased exponent of c
#define UNIT 130  // the e at which a unit of the sum is that of the subnormals, 2^-149
#define SUM_MASK ((UINT64_C(1) << 40) - 1)

typedef struct {
    uint32_t total, c;
    int32_t e;
    uint32_t flags;
    uint64_t sum; // two's complement, in 40 bits
} block;

// A number with 8 bits of exponent; the exponent of a subnormal is that of the smallest normal number.
typedef struct {
    uint32_t negative, significand;
    int32_t exponent;
    int finite;
} parts;

FN parts parts_of(uint32_t bits, int fraction_bits) {
    const uint32_t exponent = bits >> fraction_bits & 0xFF, fraction = bits & ((1u << fraction_bits) - 1);
    const parts p = {bits >> (fraction_bits + 8) & 1, fraction | (exponent % 0xFF ? 1u << fraction_bits : 0),
                     exponent ? (int32_t)exponent : 1, exponent != 0xFF};
    return p;
}

FN uint32_t infinity_of(uint32_t negative) {
    return negative ? MINUS : PLUS;
}

// Add a term, cut to the block's unit. NOTE: where e is below the term's exponent, as in no chain, nothing is
// left.
FN void add_cut(block *s, uint32_t negative, uint64_t size, int32_t distance) {
    const uint64_t left = distance >= 0 && distance < 64 ? size >> distance : 0;
    s->sum = (negative ? s->sum - left : s->sum + left) & SUM_MASK;
}

FN void open_block(block *s) {
    const parts c = parts_of(s->c, F32_FRACTION);
    s->sum = 0, s->flags = 0, s->e = LEAST;
    if (!c.finite)
        s->flags = c.significand ? NAN_FLAG : infinity_of(c.negative);
    else if (c.significand && c.exponent + OF_C > LEAST)
        s->e = c.exponent + OF_C;
}

FN void begin_sum(block *s) {
    const parts c = parts_of(s->c, F32_FRACTION);
    if (c.finite) add_cut(s, c.negative, (uint64_t)c.significand << 2, s->e - c.exponent - OF_C);
}

FN void widen(block *s, parts a, parts b) {
    if (!a.finite || !b.finite) {
        const int nan = !!a.significand != a.finite || !!b.significand != b.finite; // or a zero
        s->flags |= nan ? NAN_FLAG : infinity_of(a.negative ^ b.negative);
    } else if (a.significand && b.significand && a.exponent + b.exponent > s->e) {
        s->e = a.exponent + b.exponent;
    }
}

FN void accumulate(block *s, parts a, parts b) {
    if (a.finite && b.finite)
        add_cut(s, a.negative ^ b.negative, (uint64_t)(a.significand * b.significand) << 11,
                s->e - a.exponent - b.exponent);
}

FN uint32_t rounded(const block *s) {
    const uint32_t flags = s->flags & (NAN_FLAG | PLUS | MINUS);
    if (flags) return flags == PLUS ? TC16_INFINITE : flags == MINUS ? 1u << 31 | TC16_INFINITE : TC16_NAN;
    const uint32_t negative = (uint32_t)(s->sum >> 39);
    const uint64_t size = negative ? SUM_MASK + 1 - s->sum : s->sum;
    if (!size) return 0;
    const int length = bit_length(size);
    const int64_t exponent = (int64_t)s->e + length - UNIT - F32_FRACTION;
    uint64_t bits;
    if (exponent >= 1) {
        const uint64_t kept = length > 24 ? size >> (length - 24) : size << (24 - length);
        bits = ((uint64_t)(exponent - 1) << F32_FRACTION) + kept;
        if (bits > TC16_INFINITE) bits = TC16_INFINITE;
    } else {
        const int down = UNIT - s->e;
        bits = down >= 64 ? 0 : down >= 0 ? size >> down : size << -down;
    }
    return bits && negative ? 1u << 31 | (uint32_t)bits : (uint32_t)bits;
}

// Find both factors of a term; return whether it exists.
FN int term_of(const terms *t, int64_t outer, int64_t row, int64_t tap, parts *a, parts *b) {
    const int64_t h = meets(&t->rows, row), w = meets(&t->columns, tap);
    if (h < 0 || w < 0) return 0;
    const int64_t *by = t->other_step;
    const uint16_t *first = t->data[0], *second = t->data[1];
    *a = parts_of(first[t->image + outer * t->plane + h * t->columns.size + w], 7);
    *b = parts_of(second[t->other + outer * by[0] + row * by[1] + tap * by[2]], 7);
    return 1;
}

int chain_has_blocks(const chain *c) {
    return c->sums == SUMS_TENSOR && c->kind <= CHAIN_WEIGHT_GRAD && input(c->sig, 0)->dtype == BF16;
}

void chain_tensor(const chain *c) {
    const terms t = terms_of(c);
    // Places are (r, s, c) in convolutions with a kernel, else the terms in their order.
    const int64_t *size = t.taps.size, all = product(size, LOOPS);
    const int over_taps = c->kind == CHAIN_CONV || c->kind == CHAIN_INPUT_GRAD;
    const int64_t kernel = over_taps ? size[2] * size[3] : 1, channels = kernel ? all / kernel : 0;
    const int64_t blocks = (channels + TC16_TERMS - 1) / TC16_TERMS; // of a tap

    block s = {(uint32_t)get_be(c->state, 4), (uint32_t)get_be(c->state + 4, 4),
               (int32_t)get_be(c->state + 8, 2), (uint32_t)get_be(c->state + 10, 1),
               get_be(c->state + 11, 5)};
    for (int64_t step = c->from; step < c->to; step++) {
        const int64_t tap = step / (2 * channels), within = step % (2 * channels);
        const int64_t first = within / (2 * TC16_TERMS) * TC16_TERMS, r = within % (2 * TC16_TERMS);
        const int64_t count = min_i64(channels - first, TC16_TERMS), place = first + r % count;
        if (r == 0) {
            if ((tap * blocks + first / TC16_TERMS) % BLOCKS_OF_CHUNK == 0)
                s.total = canonical_bits(f32_of((int32_t)s.total) + f32_of((int32_t)s.c)), s.c = 0;
            open_block(&s);
        }
        if (r == count) begin_sum(&s);
        const counters at = counters_at(&t.taps, over_taps ? place * kernel + tap : place);
        parts a, b;
        if (term_of(&t, at.at[1], at.at[2], at.at[3], &a, &b)) (r < count ? widen : accumulate)(&s, a, b);
        if (r == 2 * count - 1) s.c = rounded(&s), s.e = 0, s.flags = 0, s.sum = 0;
    }
    put_be(c->state, 4, s.total), put_be(c->state + 4, 4, s.c);
    put_be(c->state + 8, 2, (uint64_t)s.e), put_be(c->state + 10, 1, s.flags),
        put_be(c->state + 11, 5, s.sum);
}
