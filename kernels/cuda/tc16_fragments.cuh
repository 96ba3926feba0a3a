// A product of matrices of bf16 as tensor cores of sm_90 and later compute it, by the rule in integers: for
// older devices, and for the emulation of device.cuh, either of which includes this file.

#ifndef REPOPS_TC16_FRAGMENTS_CUH
#define REPOPS_TC16_FRAGMENTS_CUH

#include "tc16_rule.h"

// See multiply_16x8x16 in device.cuh. The k of a row or column lie in four lanes, two in each half of a word.
DEVICE void multiply_by_the_rule(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    const int lane = thread_index() % 32, group = lane / 4, in_group = lane % 4;
    u64 rows[2][4], columns[2][4]; // k from 2 q and from 2 q + 8 on
#pragma unroll
    for (int q = 0; q < 4; q++) {
        rows[0][q] = from_lane((u64)a[2] << 32 | a[0], 4 * group + q);
        rows[1][q] = from_lane((u64)a[3] << 32 | a[1], 4 * group + q);
#pragma unroll
        for (int j = 0; j < 2; j++)
            columns[j][q] = from_lane((u64)b[1] << 32 | b[0], 4 * (2 * in_group + j) + q);
    }
#pragma unroll 1
    for (int v = 0; v < 4; v++) {
        tc16_sum sum;
        tc16_begin(&sum);
#pragma unroll 1
        for (int k = 0; k < TC16_TERMS; k++) {
            const int q = k % 8 / 2, shift = 32 * (k / 8) + 16 * (k % 2);
            tc16_add_product(&sum, (uint16_t)(rows[v / 2][q] >> shift),
                             (uint16_t)(columns[v % 2][q] >> shift));
        }
        const uint32_t bits = tc16_end(&sum, (uint32_t)bits_of(c[v]));
        c[v] = f32_of(bits == TC16_NAN ? 0x7FFFFFFF : (int32_t)bits); // the NaN of these devices
    }
}

#endif
