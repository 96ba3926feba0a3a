// Sums of binary32 values in lanes side by side, without loss: a row is cut into pieces of LANES values, and
// of columns each is a lane. A template: VECTOR is the number of binary64 values in a vector.
//
// The exponents of the largest and the smallest nonzero magnitude tell how values can be added so that
// nothing is lost:
//
//     near    in binary64; each lane's sum is exact
//     apart   in a cascade of 2, 3 or 7 levels: each addition's error is added at the next level. At the last
//             level nothing is lost.
//
// So the sum of a lane, or of a tile, is the sum of a few binary64 values, one for each level.
//
// INVARIANT: let e and f be the exponents as in binary32's bits, at least 1, of the largest and the smallest
// magnitude. All values, sums and errors are multiples of 2^(f - 150), of which binary64 holds those up to
// 2^(f - 97). Values are below 2^(e - 126).
//     near    2^b values in a lane have a sum below 2^(e - 126 + b). That is enough if e - f <= 29 - b.
//     apart   At most 2^10 values, and fewer than 2^11 additions at a level. First level: sums are at most
//             2^(e - 116), so an error is at most 2^(e - 169), and the sum of errors at most 2^(e - 158). So
//             a level gains 42 bits, and the last of d levels is exact if e - f <= 19 + 42 (d - 1). Seven
//             levels are enough for any finite values.

#ifndef REPOPS_EXACT_LANES_H
#define REPOPS_EXACT_LANES_H

#include "shared/bits.h"
#include "exact_pair.h"
#include "runtime/rows.h"

#define TILE 1024 // values whose sum is computed at once
#define NEAR(bits) (29 - (bits))
#define APART(levels) (19 + 42 * ((levels) - 1))
#define LEVELS 7
#define AHEAD 16 // rows between those that are added and prefetched
#define LINE 16  // values in a line of the cache
#define MAGNITUDE 0x7FFFFFFF
#define INFINITE 0x7F800000
#define EXPONENT 23

_Static_assert(LANES == 1 << 5 && TILE == 1 << 10, "as the bounds have it");
_Static_assert(APART(LEVELS) >= 253, "every finite value has its place in a cascade");

#define INLINE static inline __attribute__((always_inline))

// NOTE: functions take pointers to vectors, because how a vector itself is passed depends on the instruction
// set.
#define VECTORS (LANES / VECTOR)
typedef double wide __attribute__((vector_size(8 * VECTOR)));

// Vector v of LANES values, in binary64. NOTE: gcc converts a vector in two halves, but a loop at once.
INLINE void load(const float *x, int v, wide *to) {
    double values[VECTOR];
    for (int i = 0; i < VECTOR; i++) values[i] = x[v * VECTOR + i];
    memcpy(to, values, sizeof values);
}

// Add a value to a cascade from level `from` on; level l is level[l * apart].
#define ADD_AT(T, level, apart, levels, from, value)                                                         \
    do {                                                                                                     \
        T rest_ = (value);                                                                                   \
        for (int l_ = (from); l_ < (levels) - 1; l_++) ADD_WITH_ERROR(T, (level)[l_ * (apart)], rest_);      \
        (level)[((levels) - 1) * (apart)] += rest_;                                                          \
    } while (0)

// Where the values of each step are: at x + step * LANES, or with rows at row[step] + first. The last step of
// a row may have fewer values than lanes; then they are copied, followed by zeros.
typedef struct {
    const float *x;
    const float *const *row;
    int64_t first, steps;
    const float *last; // or 0
} source;

INLINE const float *values_at(const source *s, int64_t step) {
    if (s->row) return s->row[step] + s->first;
    return s->last && step == s->steps - 1 ? s->last : s->x + step * LANES;
}

// What adding in binary64 finds: the sums, and the bits of the largest and the smallest magnitude, of the
// latter less 1, which makes zeros the largest.
typedef struct {
    wide sum[VECTORS];
    uint32_t most[LANES], least[LANES];
} plain_sums;

// Return how far the exponents are apart; 0 for zeros alone, and if a value is not finite.
INLINE int32_t distance(uint32_t most, uint32_t least) {
    const int32_t high = (int32_t)(most >> EXPONENT), low = (int32_t)((least + 1) >> EXPONENT);
    const int32_t apart = (high > 1 ? high : 1) - (low > 1 ? low : 1);
    return least == UINT32_MAX || most >= INFINITE ? 0 : apart;
}

INLINE void add_plainly(const source *s, plain_sums *to) {
    wide sum[VECTORS] = {{0}};
    uint32_t most[LANES] = {0}, least[LANES];
    for (int j = 0; j < LANES; j++) least[j] = UINT32_MAX;
    for (int64_t i = 0; i < s->steps; i++) {
        const float *x = values_at(s, i);
        const float *ahead = s->row ? s->row[min_i64(i + AHEAD, s->steps - 1)] + s->first : x + TILE;
        for (int j = 0; j < LANES; j += LINE) __builtin_prefetch(ahead + j);
        if (s->row) __builtin_prefetch(ahead + LANES - 1); // rows begin anywhere in a line
        for (int j = 0; j < LANES; j++) {
            const uint32_t size = (uint32_t)bits_of(x[j]) & MAGNITUDE;
            most[j] = most[j] > size ? most[j] : size;
            least[j] = least[j] < size - 1 ? least[j] : size - 1;
        }
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            wide value;
            load(x, v, &value);
            sum[v] += value;
        }
    }
    memcpy(to->sum, sum, sizeof sum);
    for (int j = 0; j < LANES; j++) to->most[j] = most[j], to->least[j] = least[j];
}

// The sums of lanes: level l of vector v is level[l][v].
typedef struct {
    wide level[LEVELS][VECTORS];
    int levels;
} lane_sums;

// `levels` is a constant at each call.
INLINE void add_cascade(const source *s, int levels, lane_sums *to) {
    wide level[LEVELS][VECTORS];
#pragma GCC unroll 8
    for (int l = 0; l < levels; l++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) level[l][v] = (wide){0};
    for (int64_t i = 0; i < s->steps; i++) {
        const float *x = values_at(s, i);
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            wide value;
            load(x, v, &value);
#pragma GCC unroll 8
            for (int l = 0; l < levels - 1; l++) ADD_WITH_ERROR(wide, level[l][v], value);
            level[levels - 1][v] += value;
        }
    }
#pragma GCC unroll 8
    for (int l = 0; l < levels; l++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) to->level[l][v] = level[l][v];
    to->levels = levels;
}

// Sum the lanes, which have at most 2^bits values each; `apart` is the greatest distance. Sums in binary64
// are followed by zeros, to be cascades of two levels.
INLINE void sum_lanes(const source *s, const plain_sums *plain, int32_t apart, int bits, lane_sums *to) {
    if (apart > APART(3)) {
        add_cascade(s, LEVELS, to);
    } else if (apart > APART(2)) {
        add_cascade(s, 3, to);
    } else if (apart > NEAR(bits)) {
        add_cascade(s, 2, to);
    } else {
        memcpy(to->level[0], plain->sum, sizeof plain->sum);
        memset(to->level[1], 0, sizeof plain->sum);
        to->levels = 2;
    }
}

// Return in sum[l] level l of the sum of all lanes. `levels` is a constant at each call.
INLINE void fold(const lane_sums *s, int levels, double *sum) {
    wide all[LEVELS];
    double one[LEVELS][VECTOR];
    for (int l = 0; l < levels; l++) all[l] = s->level[l][0];
    for (int v = 1; v < VECTORS; v++)
        for (int l = 0; l < levels; l++) ADD_AT(wide, all, 1, levels, l, s->level[l][v]);
    memcpy(one, all, (size_t)levels * sizeof *one);
    for (int half = VECTOR / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            for (int l = 0; l < levels; l++) ADD_AT(double, &one[0][i], VECTOR, levels, l, one[l][i + half]);
    for (int l = 0; l < levels; l++) sum[l] = one[l][0];
}

#endif
