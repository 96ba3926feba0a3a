// Converts panels (exact_operands.h).

#include "exact_operands.h"
#include <math.h>
#include <string.h>

typedef int32_t words __attribute__((vector_size(4 * LANES_CONVERTED)));
typedef uint32_t sizes __attribute__((vector_size(4 * LANES_CONVERTED)));
typedef double doubles __attribute__((vector_size(8 * LANES_CONVERTED)));

// NOTE: gcc converts a vector in two halves, but a loop at once.
static inline __attribute__((always_inline)) void widen(const words *bits, doubles *to) {
    float values[LANES_CONVERTED];
    double converted[LANES_CONVERTED];
    memcpy(values, bits, sizeof values);
    for (int i = 0; i < LANES_CONVERTED; i++) converted[i] = values[i];
    memcpy(to, converted, sizeof converted);
}

static inline __attribute__((always_inline)) void convert_lanes(const conversion *c, const lane_facts *facts,
                                                                int64_t i, int masked, int finite) {
    const words select = {1, 2, 4, 8, 16, 32, 64, 128};
    const float *from = c->from;
    double *to = c->to;
    const int64_t steps = c->steps, from_stride = c->from_stride, to_stride = c->to_stride;
    doubles squares;
    sizes set, least;
    words all_finite = select != 0;
    memcpy(&squares, facts->squares + i, sizeof squares);
    memcpy(&set, facts->set + i, sizeof set);
    memcpy(&least, facts->least + i, sizeof least);
    for (int64_t k = 0; k < steps; k++, from += from_stride, to += to_stride) {
        words bits;
        doubles wide;
        memcpy(&bits, from, sizeof bits);
        if (masked) bits &= (select & (int32_t)(c->exists[k] >> c->shift)) == select;
        widen(&bits, &wide);
        memcpy(to, &wide, sizeof wide);
        if (finite) {
            const words is = (bits & 0x7FFFFFFF) < 0x7F800000;
            all_finite &= is, bits &= is;
            widen(&bits, &wide);
        }
        squares += wide * wide;
        set |= (sizes)bits;
        const sizes size = (sizes)(bits & 0x7FFFFFFF) - 1; // of a zero the largest
        const sizes less = (sizes)(size < least);
        least = (size & less) | (least & ~less);
    }
    memcpy(facts->squares + i, &squares, sizeof squares);
    memcpy(facts->set + i, &set, sizeof set);
    memcpy(facts->least + i, &least, sizeof least);
    for (int j = 0; finite && j < LANES_CONVERTED; j++) *c->nonfinite |= !all_finite[j];
}

BODY convert_body(const conversion *c, const lane_facts *facts, int64_t i) {
    if (c->nonfinite)
        convert_lanes(c, facts, i, 0, 1);
    else if (c->exists)
        convert_lanes(c, facts, i, 1, 0);
    else
        convert_lanes(c, facts, i, 0, 0);
}
VARIANTS(convert, (const conversion *c, const lane_facts *facts, int64_t i), (c, facts, i))

void (*const exact_convert[ISA_COUNT])(const conversion *c, const lane_facts *facts,
                                       int64_t i) = {convert_portable, convert_avx2, convert_avx512};

#define FRACTION 23
#define HIDDEN ((uint32_t)1 << FRACTION)

// INVARIANT: the sum of squares has fewer than 2^31 roundings, so the factor makes up for them and for that
// of the root.
//
// A nonzero element is a multiple of its last place, and so of the last place of the smallest; and, in units
// of its last place, of the lowest bit that is set in the significand of any element.
lane_bound bound_of(const lane_facts *facts, int64_t i) {
    lane_bound b = {.norm = sqrt(facts->squares[i]) * (1 + 0x1p-20)};
    if (facts->least[i] == UINT32_MAX) return b; // only zeros
    const int exponent = (int)max_i64(1, (facts->least[i] + 1) >> FRACTION);
    const int lowest = __builtin_ctz((facts->set[i] & (HIDDEN - 1)) | HIDDEN);
    b.in_units = ldexp(b.norm, 127 + FRACTION - exponent - lowest);
    return b;
}
