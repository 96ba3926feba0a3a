// Converts panels (exact_operands.h).

#include "exact_operands.h"
#include <math.h>
#include <string.h>

typedef int32_t words __attribute__((vector_size(4 * LANES_CONVERTED)));
typedef uint32_t unsigned_words __attribute__((vector_size(4 * LANES_CONVERTED)));

#define MAGNITUDE 0x7FFFFFFF // also what `least` is before a nonzero element

// The facts of some lanes.
typedef struct {
    double squares[LANES_CONVERTED];
    uint32_t set[LANES_CONVERTED], least[LANES_CONVERTED];
} lanes_before;

static lanes_before before_of(const lane_facts *facts, int64_t i) {
    lanes_before b;
    memcpy(b.squares, facts->squares + i, sizeof b.squares);
    memcpy(b.set, facts->set + i, sizeof b.set);
    memcpy(b.least, facts->least + i, sizeof b.least);
    return b;
}
static void restore(const lanes_before *b, const lane_facts *facts, int64_t i) {
    memcpy(facts->squares + i, b->squares, sizeof b->squares);
    memcpy(facts->set + i, b->set, sizeof b->set);
    memcpy(facts->least + i, b->least, sizeof b->least);
}
// NOTE: in binary64 squares of finite elements have a finite sum.
static int are_finite(const lane_facts *facts, int64_t i) {
    int finite = 1;
    for (int j = 0; j < LANES_CONVERTED; j++) finite &= facts->squares[i + j] < INFINITY;
    return finite;
}

// convert_NAME in vectors of SIZE doubles, those of the instruction set: gcc takes larger ones through
// memory. It also converts a vector in two halves, but a loop at once.
#define CONVERT(name, target, size)                                                                          \
    typedef double name##_doubles __attribute__((vector_size(8 * size)));                                    \
    target static inline __attribute__((always_inline)) void widen_##name(const words *bits,                 \
                                                                          name##_doubles *to) {              \
        float values[LANES_CONVERTED];                                                                       \
        memcpy(values, bits, sizeof values);                                                                 \
        _Pragma("GCC unroll 4") for (int v = 0; v < LANES_CONVERTED / size; v++) {                           \
            double converted[size];                                                                          \
            for (int i = 0; i < size; i++) converted[i] = values[v * size + i];                              \
            memcpy(&to[v], converted, sizeof converted);                                                     \
        }                                                                                                    \
    }                                                                                                        \
    target static inline __attribute__((always_inline)) void convert_##name##_lanes(                         \
        const conversion *c, const lane_facts *facts, int64_t i, int masked, int finite) {                   \
        const words select = {1, 2, 4, 8, 16, 32, 64, 128};                                                  \
        const float *from = c->from;                                                                         \
        double *to = c->to;                                                                                  \
        const int64_t steps = c->steps, from_stride = c->from_stride, to_stride = c->to_stride;              \
        name##_doubles squares[LANES_CONVERTED / size];                                                      \
        words set, least, all_finite = select != 0;                                                          \
        memcpy(squares, facts->squares + i, sizeof squares);                                                 \
        memcpy(&set, facts->set + i, sizeof set);                                                            \
        memcpy(&least, facts->least + i, sizeof least);                                                      \
        for (int64_t k = 0; k < steps; k++, from += from_stride, to += to_stride) {                          \
            words bits;                                                                                      \
            name##_doubles wide[LANES_CONVERTED / size];                                                     \
            memcpy(&bits, from, sizeof bits);                                                                \
            if (masked) bits &= (select & (int32_t)(c->exists[k] >> c->shift)) == select;                    \
            widen_##name(&bits, wide);                                                                       \
            _Pragma("GCC unroll 4") for (int v = 0; v < LANES_CONVERTED / size; v++) {                       \
                memcpy(to + v * size, &wide[v], sizeof wide[v]);                                             \
            }                                                                                                \
            if (finite) {                                                                                    \
                const words is = (bits & MAGNITUDE) < 0x7F800000;                                            \
                all_finite &= is, bits &= is;                                                                \
                widen_##name(&bits, wide);                                                                   \
            }                                                                                                \
            _Pragma("GCC unroll 4") for (int v = 0; v < LANES_CONVERTED / size; v++) {                       \
                squares[v] += wide[v] * wide[v];                                                             \
            }                                                                                                \
            set |= bits;                                                                                     \
            const words less_1 = (words)((unsigned_words)bits - 1) & MAGNITUDE; /* of a zero the largest */  \
            const words less = less_1 < least;                                                               \
            least = (less_1 & less) | (least & ~less);                                                       \
        }                                                                                                    \
        memcpy(facts->squares + i, squares, sizeof squares);                                                 \
        memcpy(facts->set + i, &set, sizeof set);                                                            \
        memcpy(facts->least + i, &least, sizeof least);                                                      \
        for (int j = 0; finite && j < LANES_CONVERTED; j++) *c->nonfinite |= !all_finite[j];                 \
    }                                                                                                        \
    target static void convert_##name(const conversion *c, const lane_facts *facts, int64_t i) {             \
        const lanes_before before = before_of(facts, i);                                                     \
        if (c->exists)                                                                                       \
            convert_##name##_lanes(c, facts, i, 1, 0);                                                       \
        else                                                                                                 \
            convert_##name##_lanes(c, facts, i, 0, 0);                                                       \
        if (c->nonfinite && !are_finite(facts, i)) {                                                         \
            restore(&before, facts, i);                                                                      \
            convert_##name##_lanes(c, facts, i, 0, 1);                                                       \
        }                                                                                                    \
    }

CONVERT(portable, , 2)
#if defined(__x86_64__)
CONVERT(avx2, TARGET_AVX2, 4)
CONVERT(avx512, TARGET_AVX512, 8)
#else
#define convert_avx2 convert_portable
#define convert_avx512 convert_portable
#endif

void (*const exact_convert[ISA_COUNT])(const conversion *c, const lane_facts *facts,
                                       int64_t i) = {convert_portable, convert_avx2, convert_avx512};

void facts_clear(const lane_facts *facts, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        facts->squares[i] = 0, facts->set[i] = 0, facts->least[i] = MAGNITUDE;
    }
}

#define FRACTION 23
#define HIDDEN ((uint32_t)1 << FRACTION)

// INVARIANT: the sum of squares has fewer than 2^31 roundings, so the factor makes up for them and for that
// of the root.
//
// A nonzero element is a multiple of its last place, and so of the last place of the smallest; and, in units
// of its last place, of the lowest bit that is set in the significand of any element.
lane_bound bound_of(const lane_facts *facts, int64_t i) {
    lane_bound b = {.norm = sqrt(facts->squares[i]) * (1 + 0x1p-20)};
    if (facts->least[i] == MAGNITUDE) return b; // only zeros
    const int exponent = (int)max_i64(1, (facts->least[i] + 1) >> FRACTION);
    const int lowest = __builtin_ctz((facts->set[i] & (HIDDEN - 1)) | HIDDEN);
    b.in_units = ldexp(b.norm, 127 + FRACTION - exponent - lowest);
    return b;
}
