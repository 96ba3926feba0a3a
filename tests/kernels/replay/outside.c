// Kernels that are wrong on purpose, to show that the tests with sanitizers notice it.

#include "runtime/repops.h"

// Writes one element too many.
OPERATOR(arange) {
    (void)threads, (void)isa;
    int64_t *out = data[0];
    for (int64_t i = 0; i <= elements(output(sig, 0)); i++) out[i] = i;
    return 0;
}

// Signed overflow, which C does not define.
OPERATOR(neg) {
    (void)threads, (void)isa;
    const int64_t *in = data[0];
    int64_t *out = data[1];
    for (int64_t i = 0; i < elements(output(sig, 0)); i++) out[i] = 0 - in[i];
    return 0;
}
