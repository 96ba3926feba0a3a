// The blocks of the mode tc16 with a column in each lane. A template: a file that includes it defines `words`
// and `floats`, LANES numbers of 32 bits; `bytes`, 4 LANES of 8 bits; ISA(name), a name of the instruction
// set; and these functions, in which a mask has a bit for each lane:
//
//     bytes load_bytes(const uint8_t *), all_bytes(const uint32_t *x) (four equal bytes, again and again),
//           plus(bytes, bytes) (255 if it is more), least_of(bytes, bytes);   void put_bytes(uint8_t *,
//           bytes)
//     uint64_t equal(bytes, uint8_t), above(bytes, uint8_t)                    masks
//     words load(const void *), widened(const uint8_t *), all_words(int32_t), add(words, words),
//           less(words, words), most_of(words, words), biased(words) (the exponent field of binary32),
//           truncated(floats);   floats converted(words), power(words) (with this exponent field)
//     uint64_t overflowed(words a, words b, words sum), outside(words x, int32_t low, int32_t high)   masks
//     void put(uint32_t *, words), put_some(uint32_t *, words, uint64_t mask)
//
// Of each block of a row or column, factors are kept in units of the power of two below the largest, together
// with how many binades they are below it: 255 for what is no term. The distance of a product is the sum of
// two such bytes. With E = the exponents of the two units, added, and d = the least distance, E - d is the
// largest exponent of the products; top is that or the exponent of the accumulator, whichever is more. Then
//
//     sum = sum over k of trunc(a b 2^(E + 25 - top)) + trunc(acc 2^(25 - top)),   acc = RZ(sum) 2^(top - 25)
//
// in the environment TRUNCATING, in which a conversion to binary32 is the block's rounding.
//
// INVARIANT, why a lane that is not redone has the bits of the rule. A product of factors has 16
// significant bits and is below 4, and scales are powers of two: nothing is rounded before it is truncated.
// What is flushed to zero is below 2^-126, less than a unit, and would be truncated. Sixteen terms are less
// than 63.6 times 2^25, so only the addition of acc can leave 31 bits. Lanes are redone by the rule itself
// (tc16_block)
//   - where a factor is infinite or NaN (special);
//   - where `top`, as a biased exponent, is not LOW to HIGH: then a unit could be below the smallest normal
//     number, so that a result could be subnormal, or a result could be infinite. An accumulator that is
//     subnormal is below the unit otherwise, one that is infinite or NaN has an exponent above HIGH;
//   - where the sum overflows;
//   - where d is above NEAR, unless top is at least E - DOMINATED. Factors more than KEPT binades below the
//     largest are 0 here, with a distance that may be wrong. As KEPT - NEAR is 26, the products of such a
//     factor are truncated to zero if d is at most NEAR. If d is above it, no product has a distance up to
//     NEAR, so all are below 2^(E - NEAR + 1), which is a unit if top is E - DOMINATED: then only the
//     accumulator counts.
// Where there is no product, nothing happens: the accumulator is the result.

#include "tc16_kernel.h"
#include "shared/bits.h"
#include <string.h>

#define WIDTH (4 * LANES)
#define ALL (UINT64_MAX >> (64 - WIDTH))
#define NEAR 34
#define KEPT 60
#define DOMINATED (NEAR - FRACTION_BITS - 1)
#define BEYOND 120 // a distance of what is not kept; two of them are less than NO_TERM
#define NO_TERM 255
#define LOW 26 // a unit is at least 2^-126
#define HIGH 247
#define BIAS 127
#define FRACTION_BITS 25

#define TRUNCATING 0xFFC0 // all exceptions masked, toward zero, flush-to-zero, denormals-are-zero

typedef struct {
    float value[TC16_TERMS];
    uint32_t distance[TC16_TERMS]; // the byte four times
    int32_t exponent;              // of the unit
    int8_t some, special;          // a factor is not zero; one is infinite or NaN
} row_block;

typedef struct {
    _Alignas(64) float value[TC16_TERMS][WIDTH];
    uint8_t distance[TC16_TERMS][WIDTH];
    int32_t exponent[WIDTH]; // of the unit, biased
    uint64_t special;        // a bit for each column
    int64_t some;
} column_block;

// A factor of a block in which the largest exponent field is `most`: its distance, and the bits of its value.
static inline __attribute__((always_inline)) uint32_t distance_of(uint32_t size, uint32_t most) {
    const uint32_t field = size >> 7, below = most - (field ? field : 1);
    return size == 0 || size >= BF16_INFINITE ? NO_TERM : below > KEPT ? BEYOND : below;
}
static inline __attribute__((always_inline)) uint32_t value_of(uint32_t code, uint32_t most,
                                                               uint32_t distance) {
    const uint32_t size = code & BF16_SIZE, sign = code >> 15 << 31;
    // A subnormal number is below 2^7 of its last places; it is normal here.
    const float small = (float)(int32_t)(size & 127) * f32_of((int32_t)((BIAS - 7 - (distance & 127)) << 23));
    const uint32_t of_small = (uint32_t)bits_of(small) | sign,
                   of_normal = (code << 16) - (most << 23) + (BIAS << 23);
    return distance > KEPT ? 0 : size < 128 ? of_small : of_normal;
}
static inline __attribute__((always_inline)) uint32_t field_of(uint32_t size) {
    const uint32_t field = size >> 7;
    return size == 0 || size >= BF16_INFINITE ? 0 : field ? field : 1;
}
static inline __attribute__((always_inline)) uint32_t is_special(uint32_t size) {
    return (size >= BF16_INFINITE) & (size != ABSENT);
}

static void prepare_row(const uint16_t *codes, int64_t blocks, void *to) {
    row_block *block = to;
    for (int64_t t = 0; t < blocks; t++, block++, codes += TC16_TERMS) {
        uint32_t most = 0, special = 0;
        for (int k = 0; k < TC16_TERMS; k++) {
            const uint32_t field = field_of(codes[k] & BF16_SIZE);
            most = field > most ? field : most;
        }
        for (int k = 0; k < TC16_TERMS; k++) {
            const uint32_t size = codes[k] & BF16_SIZE, distance = distance_of(size, most);
            const uint32_t value = value_of(codes[k], most, distance);
            special |= is_special(size);
            block->distance[k] = distance * 0x01010101;
            memcpy(&block->value[k], &value, sizeof value);
        }
        block->exponent = (int32_t)most - BIAS;
        block->special = (int8_t)special, block->some = (int8_t)(special | (most > 0));
    }
}

static void prepare_columns(const uint16_t *codes, int64_t blocks, void *to) {
    column_block *block = to;
    for (int64_t t = 0; t < blocks; t++, block++, codes += TC16_TERMS * WIDTH) {
        uint32_t most[WIDTH] = {0}, special[WIDTH] = {0};
        for (int k = 0; k < TC16_TERMS; k++)
            for (int j = 0; j < WIDTH; j++) {
                const uint32_t field = field_of(codes[k * WIDTH + j] & BF16_SIZE);
                most[j] = field > most[j] ? field : most[j];
            }
        for (int k = 0; k < TC16_TERMS; k++)
            for (int j = 0; j < WIDTH; j++) {
                const uint32_t code = codes[k * WIDTH + j], size = code & BF16_SIZE;
                const uint32_t distance = distance_of(size, most[j]),
                               value = value_of(code, most[j], distance);
                special[j] |= is_special(size);
                block->distance[k][j] = (uint8_t)distance;
                memcpy(&block->value[k][j], &value, sizeof value);
            }
        block->special = 0, block->some = 0;
        for (int j = 0; j < WIDTH; j++) {
            block->exponent[j] = (int32_t)most[j];
            block->special |= (uint64_t)special[j] << j;
            block->some |= special[j] | most[j];
        }
    }
}

// Apply block t to the accumulators of a row.
INLINE void apply(const tc16_product *p, int64_t i, int64_t t, const row_block *a, const column_block *b) {
    uint32_t *acc = p->acc + i * WIDTH;
    _Alignas(64) uint8_t below[WIDTH];
    bytes least = all_bytes(&(const uint32_t){UINT32_MAX});
#pragma GCC unroll 16
    for (int k = 0; k < TC16_TERMS; k++)
        least = least_of(least, plus(load_bytes(b->distance[k]), all_bytes(&a->distance[k])));
    const uint64_t none = equal(least, NO_TERM), special = a->special ? ALL : b->special;
    if (none == ALL && !special) return;
    uint64_t again = above(least, NEAR) & ~none;
    put_bytes(below, least);

    words top[4], sum[4], carried[4], both[4];
    floats scale[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        const words c = load(acc + v * LANES);
        both[v] = add(load(b->exponent + v * LANES), all_words(a->exponent));
        top[v] = most_of(less(both[v], widened(below + v * LANES)), biased(c));
        const words shift = less(add(both[v], all_words(BIAS + FRACTION_BITS)), top[v]);
        scale[v] = power(most_of(shift, all_words(0)));
        carried[v] = truncated((floats)c * power(less(all_words(2 * BIAS + FRACTION_BITS), top[v])));
        sum[v] = all_words(0);
    }
    for (int v = 0; again && v < 4; v++) { // not where the accumulator is far above
        const words apart = less(top[v], less(both[v], all_words(DOMINATED)));
        again &= ~(outside(apart, INT32_MIN / 2, -1) << (v * LANES));
    }
#pragma GCC unroll 16
    for (int k = 0; k < TC16_TERMS; k++) {
        const floats factor = all_floats(&a->value[k]);
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) {
            const floats product = factor * load_floats(b->value[k] + v * LANES);
            sum[v] = add(sum[v], truncated(product * scale[v]));
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        const words all = add(sum[v], carried[v]);
        again |= (overflowed(sum[v], carried[v], all) | outside(top[v], LOW, HIGH)) << (v * LANES);
        sum[v] = (words)(converted(all) * power(less(top[v], all_words(FRACTION_BITS))));
    }
    again = (again & ~none) | special;
    const uint64_t done = ALL & ~(none | again);
#pragma GCC unroll 4
    for (int v = 0; v < 4; v++) {
        if (done == ALL)
            put(acc + v * LANES, sum[v]);
        else
            put_some(acc + v * LANES, sum[v], done >> (v * LANES));
    }
    for (; again; again &= again - 1) {
        const int j = __builtin_ctzll(again);
        const int64_t k = t * TC16_TERMS;
        acc[j] = tc16_block(p->a + i * p->a_row + k, p->b + k * WIDTH + j, WIDTH, acc[j]);
    }
}

// NOTE: a call of its own, so that no arithmetic moves across the change of the environment.
static __attribute__((noinline)) void apply_all(const tc16_product *p) {
    const row_block *rows = p->rows;
    const column_block *columns = p->columns;
    for (int64_t t = 0; t < p->blocks; t++) {
        const column_block *of = &columns[t];
        for (int64_t i = 0; i < p->height; i++) {
            const row_block *row = &rows[i * p->blocks + t];
            // NOTE: a factor that is not finite makes NaN of zeros, which are no terms.
            if ((row->some && of->some) || row->special || of->special) apply(p, i, t, row, of);
        }
    }
}

static void multiply(const tc16_product *p) {
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(TRUNCATING);
    apply_all(p);
    _mm_setcsr(saved);
}

const tc16_kernel ISA(tc16) = {WIDTH,       sizeof(row_block), sizeof(column_block),
                               prepare_row, prepare_columns,   multiply};
