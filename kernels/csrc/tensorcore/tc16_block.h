// The block of the mode tc16 (docs/opset.md, section 2), for one element, in integers.

#ifndef REPOPS_TC16_BLOCK_H
#define REPOPS_TC16_BLOCK_H

#include "runtime/repops.h"

#define TC16_TERMS 16 // products of a block
#define TC16_NAN UINT32_C(0x7FC00000)
#define TC16_INFINITE UINT32_C(0x7F800000)

// Panels hold codes: bits of bf16, but for two. Every NaN is BF16_NAN, so that another NaN's bits are free to
// say that a factor, and so its term, does not exist.
#define BF16_NAN 0x7FC0
#define BF16_INFINITE 0x7F80
#define BF16_SIZE 0x7FFF // all bits but the sign
#define ABSENT 0x7FFF

static inline uint16_t code_of(uint16_t bits) {
    return (bits & BF16_SIZE) > BF16_INFINITE ? BF16_NAN : bits;
}

// Return the bits of binary32 of c + the sum of a[k] * b[k * b_step] over k < TC16_TERMS, of codes.
uint32_t tc16_block(const uint16_t *a, const uint16_t *b, int64_t b_step, uint32_t c);

#endif
