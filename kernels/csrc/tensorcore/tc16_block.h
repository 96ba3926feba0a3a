// The block of the mode tc16 for one element of a panel.

#ifndef REPOPS_TC16_BLOCK_H
#define REPOPS_TC16_BLOCK_H

#include "runtime/repops.h"
#include "shared/tc16_rule.h"

// Panels hold codes: bits of bf16, but for two. Every NaN is BF16_NAN, so that another NaN's bits are free to
// say that a factor, and so its term, does not exist.
#define BF16_NAN 0x7FC0
#define ABSENT 0x7FFF

static inline uint16_t code_of(uint16_t bits) {
    return (bits & BF16_SIZE) > BF16_INFINITE ? BF16_NAN : bits;
}

// Return the bits of binary32 of c + the sum of a[k] * b[k * b_step] over k < TC16_TERMS, of codes.
uint32_t tc16_block(const uint16_t *a, const uint16_t *b, int64_t b_step, uint32_t c);

#endif
