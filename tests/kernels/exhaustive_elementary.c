// Tries inputs of one elementary function on every instruction set of this machine:
//
//     exhaustive_elementary NAME STEP FIRST LAST
//
// One input out of every STEP consecutive bit patterns, in parts FIRST to LAST - 1 of all PARTS; step 1 takes
// all 2^32 / PARTS patterns of a part. test_elementary.py builds and runs it.
//
// The reference is the C library's 80-bit function, whose relative error is a few units of 2^-63. If the
// values 2^-48 below and above it round to one float, the kernel must give that float: a margin of 2^15 such
// units. Otherwise the input is printed with the kernel's result, and a multiple-precision library decides.
// Odd and even functions are tried for x >= 0, and f(-x) is compared with f(x).

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kernels/csrc/runtime/repops.h"

enum { PARTS = 64, CHUNK = 1 << 14 };
enum symmetry { NONE, ODD, EVEN };

repops_operator repops_exp, repops_log, repops_log1p, repops_tanh, repops_erf, repops_sin, repops_cos;

static uint32_t bits(float x) {
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static float from_bits(uint32_t b) {
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}
static int same(float a, float b) {
    return bits(a) == bits(b) || (a != a && b != b);
}

// Inputs whose result needs no evaluation: return 1 and set the result, or return 0.
static int exp_special(float x, float *y) {
    *y = x > 0 ? INFINITY : 0;
    if (x == 0) *y = 1;
    return x == 0 || x > 90 || x < -110;
}
static int log_special(float x, float *y) {
    *y = x < 0 ? NAN : x == 0 ? -INFINITY : x == 1 ? 0 : x;
    return x <= 0 || x == 1 || x == INFINITY;
}
static int log1p_special(float x, float *y) {
    *y = x < -1 ? NAN : x == -1 ? -INFINITY : x;
    return x <= -1 || x == 0 || x == INFINITY;
}
static int saturating_special(float x, float *y) {
    *y = fabsf(x) > 10 ? copysignf(1, x) : x;
    return fabsf(x) > 10 || x == 0;
}
static int sin_special(float x, float *y) {
    *y = x == 0 ? x : NAN;
    return x == 0 || isinf(x);
}
static int cos_special(float x, float *y) {
    *y = x == 0 ? 1 : NAN;
    return x == 0 || isinf(x);
}

static const struct function {
    const char *name;
    repops_operator *kernel;
    long double (*reference)(long double);
    int (*special)(float, float *);
    enum symmetry symmetry;
} functions[] = {
    {"exp", repops_exp, expl, exp_special, NONE},
    {"log", repops_log, logl, log_special, NONE},
    {"log1p", repops_log1p, log1pl, log1p_special, NONE},
    {"tanh", repops_tanh, tanhl, saturating_special, ODD},
    {"erf", repops_erf, erfl, saturating_special, ODD},
    {"sin", repops_sin, sinl, sin_special, ODD},
    {"cos", repops_cos, cosl, cos_special, EVEN},
};

static void apply(const struct function *f, float *in, float *out, int isa) {
    struct {
        int64_t inputs, outputs;
        tensor tensors[2];
    } sig = {1, 1, {{F32, 1, {CHUNK}}, {F32, 1, {CHUNK}}}};
    f->kernel((const signature *)&sig, (void *[]){in, out}, 1, isa);
}

static int is_wrong(const struct function *f, float x, float y) {
    float special;
    if (x != x) return y == y;
    if (f->special(x, &special)) return !same(y, special);
    const long double value = f->reference(x), error = fabsl(value) * 0x1p-48L;
    const float low = (float)(value - error), high = (float)(value + error);
    if (bits(low) == bits(high)) return bits(y) != bits(low);
    printf("%08x %08x\n", bits(x), bits(y));
    return 0;
}

// Try one chunk of inputs, and their mirror images if there is a symmetry.
static long try_chunk(const struct function *f, float *in, int best) {
    float out[CHUNK], other[CHUNK], mirrored[CHUNK];
    long wrong = 0;
    apply(f, in, out, best);
    for (int i = 0; i < CHUNK; i++) wrong += is_wrong(f, in[i], out[i]);
    for (int isa = 0; isa < best; isa++) {
        apply(f, in, other, isa);
        for (int i = 0; i < CHUNK; i++) wrong += !same(other[i], out[i]);
    }
    if (f->symmetry == NONE) return wrong;
    for (int i = 0; i < CHUNK; i++) mirrored[i] = -in[i];
    for (int isa = 0; isa <= best; isa++) {
        apply(f, mirrored, other, isa);
        for (int i = 0; i < CHUNK; i++) wrong += !same(other[i], f->symmetry == ODD ? -out[i] : out[i]);
    }
    return wrong;
}

int main(int count, char **words) {
    const struct function *f = NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (count == 5 && !strcmp(words[1], functions[i].name)) f = &functions[i];
    if (!f) return 2;
    const int64_t step = atoll(words[2]), first = atoll(words[3]), last = atoll(words[4]);
    const int64_t patterns = (f->symmetry == NONE ? (int64_t)1 << 32 : (int64_t)1 << 31) / step;
    const int64_t begin = patterns * first / PARTS, end = patterns * last / PARTS;
    const int best = repops_best_isa();
    long wrong = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : wrong)
    for (int64_t at = begin; at < end; at += CHUNK) {
        float in[CHUNK];
        for (int64_t i = 0; i < CHUNK; i++) {
            const int64_t stratum = at + i < end ? at + i : end - 1;
            in[i] = from_bits((uint32_t)(stratum * step + stratum * 0x9E3779B1 % step));
        }
        wrong += try_chunk(f, in, best);
    }
    fprintf(stderr, "%ld wrong\n", wrong);
    return wrong != 0;
}
