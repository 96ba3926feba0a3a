// An element's chain of steps (docs/adjudication.md, section 2), computed from one state to a later one.
//
// A state is bytes, with words big-endian. referee_py/element defines its contents, and tests compare this
// code with it. The caller (repops/host/chains.py) has checked operands and attributes against the operator
// table, and that the element, the steps and the size of the state belong to this chain.
//
//     dispatch.c       selects the walk; the C ABI
//     chain_terms.c    contractions: the products whose sum an element is
//     chain_values.c   reductions: the elements that are reduced to one
//     chain_lanes.c    sum of f32: lanes and blocks
//     chain_select.c   operators that compare or wrap: i64 sums, amax, argmax, max_pool2d
//     chain_exact.c    exact sums, in the modes exact and rounded-f64
//     chain_tensor.c   contractions of bf16 in the mode tc16

#ifndef REPOPS_CHAIN_H
#define REPOPS_CHAIN_H

#include "runtime/repops.h"
#include "shared/bits.h"
#include "runtime/loops.h"

// The rule of an operator. repops/host/chains.py has the same numbers.
enum chain_kind {
    CHAIN_MATMUL = 0,
    CHAIN_CONV = 1,
    CHAIN_INPUT_GRAD = 2,
    CHAIN_WEIGHT_GRAD = 3,
    CHAIN_SUM = 4,
    CHAIN_AMAX = 5,
    CHAIN_ARGMAX = 6,
    CHAIN_POOL = 7,
    CHAIN_SCATTER = 8,
};

// The state of a sum of floats, which depends on the arithmetic. repops/host/chains.py has the same numbers.
enum chain_sums {
    SUMS_ORDERED = 0, // repops-f32: rounded sums, in a fixed order
    SUMS_EXACT = 1,   // exact: the exact sum
    SUMS_LOGGED = 2,  // rounded-f64: the exact sum, and what a decision under a log needs
    SUMS_TENSOR = 3,  // tc16: as ordered, but contractions of bf16 are chains of blocks
};

// Chain `kind` of an element of an operator's first output, from before step `from` to before step `to`.
// `sums` matters only where floats are added.
typedef struct {
    const signature *sig;
    void *const *data;
    int kind, sums;
    int64_t element, from, to;
    uint8_t *state;
} chain;

#define CHUNK 512  // terms of a contraction that are summed separately
#define BLOCK 4096 // items of a sum that are summed separately
#define CANONICAL_NAN 0x7FC00000u

// Whether sums are real sums, rounded once.
static inline int sums_exactly(const chain *c) {
    return c->sums == SUMS_EXACT || c->sums == SUMS_LOGGED;
}

void chain_terms(const chain *c);   // contractions, every arithmetic but that of blocks
void chain_tensor(const chain *c);  // contractions of bf16, in blocks
void chain_lanes(const chain *c);   // sum of f32, ordered
void chain_select(const chain *c);  // i64 sum, amax, argmax, max_pool2d
void chain_scatter(const chain *c); // every arithmetic
void chain_exact_sum(const chain *c);
int64_t chain_pool_length(const chain *c);
int chain_has_blocks(const chain *c); // whether chain_tensor walks it

// --------------------------------------------------------------------------------- words of a state

static inline uint64_t get_be(const uint8_t *from, int bytes) {
    uint64_t word = 0;
    for (int i = 0; i < bytes; i++) word = word << 8 | from[i];
    return word;
}
static inline void put_be(uint8_t *to, int bytes, uint64_t word) {
    for (int i = bytes - 1; i >= 0; i--) to[i] = (uint8_t)word, word >>= 8;
}
static inline float get_f32(const uint8_t *from) {
    return f32_of((int32_t)get_be(from, 4));
}
// Return the bits of x, of the canonical NaN for every NaN.
static inline uint32_t canonical_bits(float x) {
    return x == x ? (uint32_t)bits_of(x) : CANONICAL_NAN;
}
static inline void put_f32(uint8_t *to, float x) {
    put_be(to, 4, canonical_bits(x));
}

// ------------------------------------------------------------------------------ terms of a contraction

// Term k is, row-major, a digit `outer` and two taps. A tap meets the image where
//
//     start + tap * step  is a multiple of `apart`, and the quotient is in [0, size)
typedef struct {
    int64_t start, step, apart, size;
} axis;

typedef struct {
    const void *data[2];   // of the operand that has the image, and of the other one
    int narrow;            // both are bf16
    int64_t image, other;  // places of their first elements
    loops taps;            // (outer, row, column), in the last three
    int64_t plane;         // elements of the image per outer digit
    int64_t other_step[3]; // of the other operand, per digit
    axis rows, columns;
} terms;

terms terms_of(const chain *c);

// Return the place that a tap meets, or -1.
static inline int64_t meets(const axis *a, int64_t tap) {
    const int64_t at = a->start + tap * a->step;
    if (at < 0) return -1;
    if (a->apart == 1) return at < a->size ? at : -1;
    return at % a->apart == 0 && at / a->apart < a->size ? at / a->apart : -1;
}

// ------------------------------------------------------------------- elements that are reduced to one

typedef struct {
    loops inner;  // over the reduced dimensions, row-major
    linear place; // of an element in the operand
    int64_t count;
} reduction;

// For `sum` and `amax` the attribute is dims, for `argmax` dim.
reduction reduction_of(const chain *c);
// Find the places in the operand of elements first, first + 1, ..., at most BLOCK of them.
void reduced_places(const reduction *r, int64_t first, int64_t count, int64_t *places);

// --------------------------------------------------------------------- exact sums of binary32 products

#define LIMBS 12

// An integer in units of 2^-298 in two's complement, lowest limb first, or a value beyond every sum.
typedef struct {
    uint64_t limb[LIMBS];
    enum { FINITE, PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER } is;
} exact;

// A decoded state. All but the total is for SUMS_LOGGED only.
typedef struct {
    exact total, magnitude;
    uint64_t terms;
    uint32_t smallest; // bits of the smallest nonzero value, without its sign; 0 if there is none
    int logged;
} exact_sums;

exact_sums get_exact(const chain *c);
void put_exact(const chain *c, const exact_sums *s);
// Add a product of two binary32 values, which is exact in binary64.
void add_product(exact_sums *s, double product);
// Add a value.
void add_value(exact_sums *s, float value);

#endif
