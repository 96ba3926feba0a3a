// Contractions of bf16 factors: the factors are widened to f32, which is exact, and the result is rounded.

#include "repops.h"
#include "bits.h"
#include <stdlib.h>

BODY widen_body(const uint16_t *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) to[i] = from_bf16(from[i]);
}
VARIANTS(widen, (const uint16_t *from, int64_t n, float *to), (from, n, to))

BODY narrow_body(const float *from, int64_t n, uint16_t *to) {
    for (int64_t i = 0; i < n; i++) to[i] = to_bf16(from[i]);
}
VARIANTS(narrow, (const float *from, int64_t n, uint16_t *to), (from, n, to))

typedef struct {
    const void *from;
    void *to;
    int narrows;
    enum isa isa;
} conversion;

static void range(void *context, int64_t begin, int64_t end) {
    const conversion *c = context;
    if (c->narrows)
        narrow[c->isa]((const float *)c->from + begin, end - begin, (uint16_t *)c->to + begin);
    else
        widen[c->isa]((const uint16_t *)c->from + begin, end - begin, (float *)c->to + begin);
}

// Apply an operator of two f32 factors. Return 1 if there is no memory.
static int widened(const signature *sig, void *const *data, int threads, int isa, repops_operator *operator) {
    const int64_t count[3] = {elements(input(sig, 0)), elements(input(sig, 1)), elements(output(sig, 0))};
    float *f32[3];
    int failed = 0;
    for (int i = 0; i < 3; i++) failed |= !(f32[i] = malloc((size_t)(count[i] + 1) * sizeof *f32[i]));
    for (int i = 0; i < 2 && !failed; i++) {
        conversion c = {data[i], f32[i], 0, (enum isa)isa};
        parallel(threads, count[i], THREAD_WORK, range, &c);
    }
    if (!failed) failed = operator(sig, (void *const *)f32, threads, isa);
    if (!failed) {
        conversion c = {f32[2], data[2], 1, (enum isa)isa};
        parallel(threads, count[2], THREAD_WORK, range, &c);
    }
    for (int i = 0; i < 3; i++) free(f32[i]);
    return failed;
}

// NOTE: a contraction reads shapes and attributes of its signature, no dtypes.
#define OF_BF16(name)                                                                                        \
    repops_operator repops_##name;                                                                           \
    OPERATOR(bf16_##name) {                                                                                  \
        return widened(sig, data, threads, isa, repops_##name);                                              \
    }
OF_BF16(mm)
OF_BF16(bmm)
OF_BF16(conv2d)
OF_BF16(conv2d_input_grad)
OF_BF16(conv2d_weight_grad)
