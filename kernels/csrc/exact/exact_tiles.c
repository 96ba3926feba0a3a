// Exact sums by instruction set, and as reductions of fused kernels (rows.h), whose state is an exact sum.

#include "exact_tiles.h"
#include "runtime/rows.h"

_Static_assert(sizeof(exact_sum) <= LANES * sizeof(int64_t), "a reduction's state has room for an exact sum");

#if defined(__x86_64__)
const exact_tiles *const exactly[ISA_COUNT] = {&exact_tiles_portable, &exact_tiles_avx2, &exact_tiles_avx512};
#else
const exact_tiles *const exactly[ISA_COUNT] = {&exact_tiles_portable, &exact_tiles_portable,
                                               &exact_tiles_portable};
#endif

BODY begin_body(void *state) {
    memset(state, 0, sizeof(exact_sum));
}
BODY fold_body(void *state, void *result) {
    *(float *)result = exact_result(state, 0);
}
VARIANTS(begin, (void *state), (state))
VARIANTS(fold, (void *state, void *result), (state, result))

#define REDUCTION_OF(isa)                                                                                    \
    static void add_##isa(void *state, int64_t at, const void *x, int64_t n) {                               \
        (void)at;                                                                                            \
        exactly[isa]->add(state, x, n);                                                                      \
    }                                                                                                        \
    static void whole_##isa(const void *x, int64_t n, void *result) {                                        \
        exactly[isa]->whole(x, n, result);                                                                   \
    }
REDUCTION_OF(ISA_PORTABLE)
REDUCTION_OF(ISA_AVX2)
REDUCTION_OF(ISA_AVX512)

static void (*const add[ISA_COUNT])(void *state, int64_t at, const void *x,
                                    int64_t n) = {add_ISA_PORTABLE, add_ISA_AVX2, add_ISA_AVX512};
static void (*const whole[ISA_COUNT])(const void *x, int64_t n,
                                      void *result) = {whole_ISA_PORTABLE, whole_ISA_AVX2, whole_ISA_AVX512};

const reduction exact_sum_f32 = {begin, add, fold, whole, .unbroken = 1};
