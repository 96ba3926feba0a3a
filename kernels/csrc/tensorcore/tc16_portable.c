// The mode tc16 on any machine: the rule itself, element by element.

#include "tc16_kernel.h"

#define WIDTH 32

static void prepare_nothing(const uint16_t *codes, int64_t blocks, void *to) {
    (void)codes, (void)blocks, (void)to;
}

static void multiply(const tc16_product *p) {
    for (int64_t i = 0; i < p->height; i++)
        for (int64_t t = 0; t < p->blocks; t++)
            for (int64_t j = 0; j < WIDTH; j++) {
                uint32_t *acc = p->acc + i * WIDTH + j;
                const int64_t k = t * TC16_TERMS;
                *acc = tc16_block(p->a + i * p->a_row + k, p->b + k * WIDTH + j, WIDTH, *acc);
            }
}

static const tc16_kernel portable_tc16 = {WIDTH, 0, 0, prepare_nothing, prepare_nothing, multiply};

#if defined(__x86_64__)
const tc16_kernel *const tc16_kernels[ISA_COUNT] = {&portable_tc16, &avx2_tc16, &avx512_tc16};
#else
const tc16_kernel *const tc16_kernels[ISA_COUNT] = {&portable_tc16, &portable_tc16, &portable_tc16};
#endif
