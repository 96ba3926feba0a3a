// Tries all 2^32 inputs of exp or log: exhaustive_elementary exp|log (test_elementary.py builds and runs it).
//
// The reference is the C library's 80-bit expl or logl, whose error is below 2^-62 relative. Where the values
// 2^-48 below and above it round to the same float, that float must be the kernel's. The few hundred inputs
// where they do not are printed with the kernel's result, for a multiple-precision library to decide.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../kernels/csrc/repops.h"

enum { PART = 1 << 16 };

repops_operator repops_exp, repops_log;

static uint32_t bits(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

static int is_special(int is_log, float x, float *result) {
    if (x != x || (is_log && x < 0)) return *result = NAN, 1;
    if (is_log && (x == 0 || x == 1 || x == INFINITY))
        return *result = x == 0 ? -INFINITY : x == 1 ? 0 : x, 1;
    if (!is_log && (x == 0 || x > 90 || x < -110)) return *result = x == 0 ? 1 : x > 0 ? INFINITY : 0, 1;
    return 0;
}

int main(int count, char **words) {
    const int is_log = count > 1 && !strcmp(words[1], "log");
    long wrong = 0;
    int best = repops_best_isa();

#pragma omp parallel for schedule(dynamic) reduction(+ : wrong)
    for (int64_t part = 0; part < PART; part++) {
        static _Thread_local float in[PART], out[PART], other[PART];
        struct {
            int64_t inputs, outputs;
            tensor tensors[2];
        } sig = {1, 1, {{F32, 1, {PART}}, {F32, 1, {PART}}}};
        void *data[2] = {in, out}, *other_data[2] = {in, other};
        for (int64_t i = 0; i < PART; i++) {
            const uint32_t b = (uint32_t)(part * PART + i);
            memcpy(&in[i], &b, sizeof b);
        }
        repops_operator *apply = is_log ? repops_log : repops_exp;
        apply((const signature *)&sig, data, 1, best);
        for (int isa = 0; isa < best; isa++) {
            apply((const signature *)&sig, other_data, 1, isa);
            if (memcmp(out, other, sizeof out)) wrong++;
        }
        for (int64_t i = 0; i < PART; i++) {
            float special;
            if (is_special(is_log, in[i], &special)) {
                wrong += special != special ? out[i] == out[i] : bits(special) != bits(out[i]);
                continue;
            }
            const long double y = is_log ? logl(in[i]) : expl(in[i]), error = fabsl(y) * 0x1p-48L;
            const float low = (float)(y - error), high = (float)(y + error);
            if (bits(low) == bits(high))
                wrong += bits(low) != bits(out[i]);
            else
                printf("%08x %08x\n", bits(in[i]), bits(out[i]));
        }
    }
    fprintf(stderr, "%ld wrong\n", wrong);
    return wrong != 0;
}
