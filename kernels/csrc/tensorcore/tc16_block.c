// The block of the mode tc16 for one element, of codes.

#include "tc16_block.h"

uint32_t tc16_block(const uint16_t *a, const uint16_t *b, int64_t b_step, uint32_t c) {
    if ((c & INT32_MAX) > TC16_INFINITE) return TC16_NAN;
    tc16_sum t;
    tc16_begin(&t);
    for (int64_t k = 0; k < TC16_TERMS; k++)
        if (a[k] != ABSENT && b[k * b_step] != ABSENT) tc16_add_product(&t, a[k], b[k * b_step]);
    return tc16_end(&t, c);
}
