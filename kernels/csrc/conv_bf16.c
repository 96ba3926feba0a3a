// Convolutions of bf16 factors in mode repops-f32: sums are those of binary32, which are rounded again.

#include "pack.h"
#include <stdlib.h>

typedef struct {
    const float *from;
    uint16_t *to;
    enum isa isa;
} conversion;

static void range(void *context, int64_t begin, int64_t end) {
    const conversion *c = context;
    round_to_bf16(c->from + begin, end - begin, c->to + begin, c->isa);
}

// Apply an operator with a binary32 result, and round that. Return 1 if there is no memory.
static int rounded_twice(const signature *sig, void *const *data, int threads, int isa,
                         repops_operator *operator) {
    const int64_t size = elements(output(sig, 0));
    float *wide = malloc((size_t)(size + 1) * sizeof *wide);
    void *const places[3] = {data[0], data[1], wide};
    const int failed = !wide || operator(sig, places, threads, isa);
    conversion c = {wide, data[2], (enum isa)isa};
    if (!failed) parallel(threads, size, THREAD_WORK, range, &c);
    free(wide);
    return failed;
}

#define ROUNDED_TWICE(name)                                                                                  \
    repops_operator repops_of_bf16_##name;                                                                   \
    OPERATOR(bf16_##name) {                                                                                  \
        return rounded_twice(sig, data, threads, isa, repops_of_bf16_##name);                                \
    }
ROUNDED_TWICE(conv2d)
ROUNDED_TWICE(conv2d_input_grad)
ROUNDED_TWICE(conv2d_weight_grad)
