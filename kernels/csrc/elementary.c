// exp and log, correctly rounded for all 2^32 inputs (tests/kernels/exhaustive_elementary.c checks every
// one).
//
// Each evaluates in binary64 with +, -, *, / in a fixed order, no libm and no fma, so the binary64 result is
// the same on every machine and vector width, and then rounds to binary32. Only inputs whose true result lies
// within the binary64 error of a rounding boundary can go wrong. For exp there is none; for log there are
// five, in a table.

#include "repops.h"
#include "bits.h"

#define GRAIN 4096

static inline int64_t bits64(double x) {
    int64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline double f64_of(int64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

// exp(x) = 2^k exp(r), x = k ln2 + r, |r| <= ln2 / 2. LN2_HI has 32 bits, so k * LN2_HI is exact.
#define INV_LN2 0x1.71547652b82fep+0
#define LN2_HI 0x1.62e42feep-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define ROUND_MAGIC 0x1.8p52 // adding and subtracting rounds to an integer, which stands in the low bits

static inline double exp_f64(double x) {
    const double shifted = x * INV_LN2 + ROUND_MAGIC;
    const double k = shifted - ROUND_MAGIC;
    const double r = (x - k * LN2_HI) - k * LN2_LO;
    double p = 0x1.6124613a86d09p-33; // 1/13!
    p = p * r + 0x1.1eed8eff8d898p-29;
    p = p * r + 0x1.ae64567f544e4p-26;
    p = p * r + 0x1.27e4fb7789f5cp-22;
    p = p * r + 0x1.71de3a556c734p-19;
    p = p * r + 0x1.a01a01a01a01ap-16;
    p = p * r + 0x1.a01a01a01a01ap-13;
    p = p * r + 0x1.6c16c16c16c17p-10;
    p = p * r + 0x1.1111111111111p-7;
    p = p * r + 0x1.5555555555555p-5;
    p = p * r + 0x1.5555555555555p-3;
    p = p * r + 0.5;
    const double tail = r + (r * r) * p; // exp(r) - 1
    // |k| <= 151, so 2^k is a normal binary64 and the product with it is exact.
    const double scale = f64_of((int64_t)(((uint64_t)bits64(shifted) + 1023) << 52));
    return scale + scale * tail;
}

static inline float exp_f32(float x) {
    // Clamped, so that k stays small: beyond these the result is 0 or inf whatever the input.
    const float clamped = x < -105.0f ? -105.0f : x > 90.0f ? 90.0f : x;
    const float y = (float)exp_f64((double)clamped);
    return x == x ? y : x;
}

// log(x) = k ln2 + log(m), m in [sqrt(1/2), sqrt(2)), log(m) = 2 atanh(s), s = (m - 1) / (m + 1).
static inline float log_f32(float x) {
    const double wide = (double)x; // exact, and a subnormal binary32 is normal here
    const uint64_t b =
        (uint64_t)bits64(wide); // unsigned, because a negative x wraps here (and gives NaN below)
    const int64_t k = (int64_t)(b - 0x3FE6A09E667F3BCD) >> 52;
    const double m = f64_of((int64_t)(b - ((uint64_t)k << 52)));
    const double kd = f64_of(k + 0x4338000000000000) - ROUND_MAGIC;
    const double f = m - 1.0;
    const double s = f / (m + 1.0);
    const double z = s * s;
    double p = 2.0 / 23.0;
    p = p * z + 2.0 / 21.0;
    p = p * z + 2.0 / 19.0;
    p = p * z + 2.0 / 17.0;
    p = p * z + 2.0 / 15.0;
    p = p * z + 2.0 / 13.0;
    p = p * z + 2.0 / 11.0;
    p = p * z + 2.0 / 9.0;
    p = p * z + 2.0 / 7.0;
    p = p * z + 2.0 / 5.0;
    p = p * z + 2.0 / 3.0;
    // 2 atanh(s) = f - (f^2/2 - s (f^2/2 + z p)): the large term, f, is exact.
    const double half = 0.5 * f * f;
    const double y = kd * LN2_HI - ((half - (s * (half + z * p) + kd * LN2_LO)) - f);
    // The five inputs whose logarithm is so near a midpoint of two floats that y falls on its other side: the
    // result is the float before or after. (Sums of comparisons, not branches, so that the loop vectorises.)
    const int32_t of = bits_of(x);
    const int32_t nudge = (of == 0x4C5D65A5) + (of == 0x65D890D3) + (of == 0x6F31A8EC) - (of == 0x3C413D3A) -
                          (of == 0x41178FEB);
    float result = f32_of(bits_of((float)y) + nudge);
    result = x == __builtin_inff() ? x : result;
    result = x == 0 ? -__builtin_inff() : result;
    return x >= 0 ? result : __builtin_nanf("");
}

#define MAP(name, function)                                                                                  \
    BODY name##_body(float *restrict out, const float *in, int64_t n) {                                      \
        for (int64_t i = 0; i < n; i++) out[i] = function(in[i]);                                            \
    }                                                                                                        \
    VARIANTS(name, (float *restrict out, const float *in, int64_t n), (out, in, n))

MAP(exp_map, exp_f32)
MAP(log_map, log_f32)

typedef void map(float *restrict out, const float *in, int64_t n);
typedef struct {
    map *body;
    float *out;
    const float *in;
} job;

static void range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    j->body(j->out + begin, j->in + begin, end - begin);
}

OPERATOR(exp) {
    job j = {exp_map[isa], data[1], data[0]};
    parallel(threads, elements(output(sig, 0)), GRAIN, range, &j);
    return 0;
}

OPERATOR(log) {
    job j = {log_map[isa], data[1], data[0]};
    parallel(threads, elements(output(sig, 0)), GRAIN, range, &j);
    return 0;
}
