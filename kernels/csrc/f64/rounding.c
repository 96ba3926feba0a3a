// Rounds binary64 results to a coarser grid and finds the results that are near a rounding midpoint.
//
// grid(b): the binary32 values whose last 32 - b mantissa bits are zero. An element x with radius r is
// reported if its nearest midpoint is at most widen * r away: as narrow if r is below an eighth of the grid's
// spacing, else as wide. A radius is a product of a scalar of the row and an element of a vector.
//
//     x[outer][rows][columns],  r = scalar[outer][row] * vector[outer][column]

#include "rounding.h"
#include <math.h>
#include <string.h>

#define STRIP 16 // elements that are examined one by one if one of them may have to be reported
#define RUN 4096 // elements of a row that are rounded in one go

typedef struct {
    const double *x, *scalar, *vector;
    float *out;
    int64_t outer, rows, columns;
    int64_t scalar_outer, scalar_row, vector_outer, vector_column; // strides
    int64_t bits, capacity;
    double widen, zero;
    int64_t *found; // positions times 2, plus 1 if wide
    int64_t *count;
    enum isa isa;
} rounding;

static inline uint64_t bits_of_double(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
static inline double double_of_bits(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

// --------------------------------------------------------------------------------------------- one element

int round_one(double x, double r, int bits, double widen, double zero, float *out) {
    if (isnan(x)) {
        const uint32_t nan = 0x7FC00000;
        memcpy(out, &nan, sizeof nan);
        return 0;
    }
    const double size = fabs(x), top = ldexp(1, 128) - ldexp(1, 135 - bits); // from top on, infinity
    if (size >= top) *out = copysignf(INFINITY, (float)x);
    if (isinf(x)) return 0;
    int e = -1074;
    if (x != 0) frexp(size, &e), e--;
    const double power = ldexp(1, e < -126 ? -126 : e), q = ldexp(power, 9 - bits);
    double distance = size - top;
    if (size < ldexp(1, 128)) {
        const double near = rint(x / q) * q, error = fabs(x - near); // exact
        if (size < top) *out = (float)(near + zero);
        distance = 0.5 * q - error;
        // NOTE: just above a power of two the cells below are half as wide, so the last midpoint below may be
        // the nearest.
        if (size >= fabs(near) && fabs(near) == power && e >= -125 && 0.25 * q + error < distance)
            distance = 0.25 * q + error;
    }
    return !(r > 0 && distance <= widen * r) ? 0 : r < 0.125 * q ? 1 : 2;
}

// ------------------------------------------------------------------------------------------------- a run

// Round the easy elements: zeros, and those far from the ends of binary32's range. again[k] is set if strip k
// may need more work.
BODY run_body(const double *x, double scalar, const double *vector, int64_t step, int64_t n, int bits,
              double widen, double zero, float *out, uint64_t *again) {
    const int dropped = 61 - bits;
    const uint64_t mask = ((uint64_t)1 << dropped) - 1, half = (uint64_t)1 << (dropped - 1);
    const uint64_t least = (uint64_t)(1023 - 126) << 52, most = (uint64_t)(1023 + 126) << 52;
    const double eighth = ldexp(1, 9 - bits - 3);
    for (int64_t start = 0; start < n; start += STRIP) {
        uint64_t any = 0;
        const int64_t end = start + STRIP < n ? start + STRIP : n;
        NO_DEPENDENCE
        for (int64_t i = start; i < end; i++) {
            const uint64_t u = bits_of_double(x[i]), rest = u & mask, exponent = u & 0x7FF0000000000000;
            const uint64_t rounded = (u + (half - 1) + ((u >> dropped) & 1)) & ~mask;
            out[i] = (float)(double_of_bits(rounded) + zero);
            const double power = double_of_bits(exponent), r = scalar * vector[i * step];
            const uint64_t apart = rest > half ? rest - half : half - rest;
            // Exact: an integer below 2^52 is put into a mantissa.
            const double distance = (double_of_bits(apart | 0x4330000000000000) - 0x1p52) * 0x1p-52 * power;
            const uint64_t odd = (exponent < least) | (exponent > most);
            const uint64_t close = (distance <= widen * r) | (r >= eighth * power);
            any |= (odd & (x[i] != 0)) | (close & !(r == 0));
        }
        again[start / STRIP] = any;
    }
}

#define KERNEL(name, target)                                                                                 \
    target static void name(const double *x, double scalar, const double *vector, int64_t step, int64_t n,   \
                            int bits, double widen, double zero, float *out, uint64_t *again) {              \
        if (step == 1)                                                                                       \
            run_body(x, scalar, vector, 1, n, bits, widen, zero, out, again);                                \
        else                                                                                                 \
            run_body(x, scalar, vector, 0, n, bits, widen, zero, out, again);                                \
    }
KERNEL(run_portable, )
#if defined(__x86_64__)
KERNEL(run_avx2, TARGET_AVX2)
KERNEL(run_avx512, TARGET_AVX512)
#else
#define run_avx2 run_portable
#define run_avx512 run_portable
#endif

typedef void run_kernel(const double *, double, const double *, int64_t, int64_t, int, double, double,
                        float *, uint64_t *);
static run_kernel *const RUNS[ISA_COUNT] = {run_portable, run_avx2, run_avx512};

// ------------------------------------------------------------------------------------------------ all of it

static void report(const rounding *c, int64_t position, int kind) {
    const int64_t at = __atomic_fetch_add(c->count, 1, __ATOMIC_RELAXED);
    if (at < c->capacity) c->found[at] = 2 * position + (kind == 2);
}

static void round_range(void *context, int64_t begin, int64_t end) {
    const rounding *c = context;
    for (int64_t at = begin; at < end;) {
        const int64_t row = at / c->columns, column = at % c->columns;
        const int64_t outer = row / c->rows, n = min_i64(min_i64(c->columns - column, end - at), RUN);
        const double scalar = c->scalar[outer * c->scalar_outer + row % c->rows * c->scalar_row];
        const double *vector = c->vector + outer * c->vector_outer + column * c->vector_column;
        uint64_t again[RUN / STRIP];
        RUNS[c->isa](c->x + at, scalar, vector, c->vector_column, n, (int)c->bits, c->widen, c->zero,
                     c->out + at, again);
        for (int64_t i = 0; i < n; i++) {
            if (i % STRIP == 0 && !again[i / STRIP]) {
                i += STRIP - 1;
                continue;
            }
            const int kind = round_one(c->x[at + i], scalar * vector[i * c->vector_column], (int)c->bits,
                                       c->widen, c->zero, c->out + at + i);
            if (kind) report(c, at + i, kind);
        }
        at += n;
    }
}

// words: outer, rows, columns, four strides (the columns' is 0 or 1), bits, capacity. Return the number of
// positions found; those beyond the capacity are not written. Positions are in no order.
REPOPS_EXPORT int64_t repops_round(const int64_t *words, const double *x, const double *scalar,
                                   const double *vector, double widen, double zero, float *out,
                                   int64_t *found, int threads, int isa) {
    int64_t count = 0;
    const rounding c = {.x = x,
                        .scalar = scalar,
                        .vector = vector,
                        .out = out,
                        .outer = words[0],
                        .rows = words[1],
                        .columns = words[2],
                        .scalar_outer = words[3],
                        .scalar_row = words[4],
                        .vector_outer = words[5],
                        .vector_column = words[6],
                        .bits = words[7],
                        .capacity = words[8],
                        .widen = widen,
                        .zero = zero,
                        .found = found,
                        .count = &count,
                        .isa = (enum isa)isa};
    parallel(threads, c.outer * c.rows * c.columns, THREAD_WORK / 4, round_range, (void *)&c);
    return count;
}
