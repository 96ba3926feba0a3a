// Binary32 operands converted to binary64 for libraries that use it, with the sums that error bounds need.
//
// NOTE: the order of these sums is not defined, unlike that of operators. Results are used with a bound on
// their error and may differ between instruction sets.

#include "runtime/repops.h"
#include <math.h>
#include <string.h>

#define GROUP 8 // independent sums computed side by side

// ------------------------------------------------------------------------------------------------- matrices

typedef struct {
    const float *x;
    const int64_t *first; // the beginning of each matrix
    double *out, *rows, *columns;
    int64_t m, n, stride; // stride of a row
    enum isa isa;
} matrices;

// Convert one row, sum its squares, and add them to the columns' sums.
BODY to_f64_body(const float *x, int64_t n, double *out, double *row, double *columns) {
    double lanes[GROUP] = {0};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        NO_DEPENDENCE
        for (int64_t j = 0; j < GROUP; j++) {
            const double v = x[i + j];
            out[i + j] = v;
            lanes[j] += v * v;
            columns[i + j] += v * v;
        }
    }
    for (; i < n; i++) {
        const double v = x[i];
        out[i] = v;
        lanes[0] += v * v;
        columns[i] += v * v;
    }
    double sum = 0;
    for (int64_t j = 0; j < GROUP; j++) sum += lanes[j];
    *row = sum;
}

static void to_f64_portable(const float *x, int64_t n, double *out, double *row, double *columns) {
    to_f64_body(x, n, out, row, columns);
}
#if defined(__x86_64__)
TARGET_AVX2 static void to_f64_avx2(const float *x, int64_t n, double *out, double *row, double *columns) {
    to_f64_body(x, n, out, row, columns);
}
TARGET_AVX512 static void to_f64_avx512(const float *x, int64_t n, double *out, double *row,
                                        double *columns) {
    to_f64_body(x, n, out, row, columns);
}
#else
#define to_f64_avx2 to_f64_portable
#define to_f64_avx512 to_f64_portable
#endif

typedef void to_f64_kernel(const float *, int64_t, double *, double *, double *);
static to_f64_kernel *const TO_F64[ISA_COUNT] = {to_f64_portable, to_f64_avx2, to_f64_avx512};

static void to_f64_range(void *context, int64_t begin, int64_t end) {
    const matrices *c = context;
    for (int64_t batch = begin; batch < end; batch++) {
        double *columns = c->columns + batch * c->n;
        memset(columns, 0, (size_t)c->n * sizeof *columns);
        for (int64_t r = 0; r < c->m; r++) {
            const int64_t row = batch * c->m + r;
            TO_F64[c->isa](c->x + c->first[batch] + r * c->stride, c->n, c->out + row * c->n, c->rows + row,
                           columns);
        }
        for (int64_t r = 0; r < c->m; r++) c->rows[batch * c->m + r] = sqrt(c->rows[batch * c->m + r]);
        for (int64_t i = 0; i < c->n; i++) columns[i] = sqrt(columns[i]);
    }
}

// Convert matrices x + first[batch], of m rows `stride` apart, to binary64 [batch][m][n]; also compute the
// norms of their rows [batch][m] and columns [batch][n].
REPOPS_EXPORT void repops_to_f64(int64_t batch, int64_t m, int64_t n, int64_t stride, const int64_t *first,
                                 const float *x, double *out, double *rows, double *columns, int threads,
                                 int isa) {
    matrices c = {x, first, out, rows, columns, m, n, stride, (enum isa)isa};
    parallel(threads, batch, max_i64(1, THREAD_WORK / 4 / max_i64(1, m * n)), to_f64_range, &c);
}

// ----------------------------------------------------------------------------------------------------- sums

typedef struct {
    const float *x;
    double *sum, *magnitude;
    int64_t n, inner;
    enum isa isa;
} sums;

BODY row_body(const float *x, int64_t n, double *sum, double *magnitude) {
    double s[GROUP] = {0}, m[GROUP] = {0};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        NO_DEPENDENCE
        for (int64_t j = 0; j < GROUP; j++) {
            const double v = x[i + j];
            s[j] += v;
            m[j] += fabs(v);
        }
    }
    for (; i < n; i++) s[0] += x[i], m[0] += fabs((double)x[i]);
    for (int64_t j = 1; j < GROUP; j++) s[0] += s[j], m[0] += m[j];
    *sum = s[0];
    *magnitude = m[0];
}

BODY columns_body(const float *x, int64_t n, int64_t inner, double *sum, double *magnitude) {
    for (int64_t i = 0; i < inner; i++) sum[i] = magnitude[i] = 0;
    for (int64_t k = 0; k < n; k++) {
        NO_DEPENDENCE
        for (int64_t i = 0; i < inner; i++) {
            const double v = x[k * inner + i];
            sum[i] += v;
            magnitude[i] += fabs(v);
        }
    }
}

#define SUMS(name, target)                                                                                   \
    target static void name(const float *x, int64_t n, int64_t inner, double *sum, double *magnitude) {      \
        if (inner == 1)                                                                                      \
            row_body(x, n, sum, magnitude);                                                                  \
        else                                                                                                 \
            columns_body(x, n, inner, sum, magnitude);                                                       \
    }
SUMS(sums_portable, )
#if defined(__x86_64__)
SUMS(sums_avx2, TARGET_AVX2)
SUMS(sums_avx512, TARGET_AVX512)
#else
#define sums_avx2 sums_portable
#define sums_avx512 sums_portable
#endif

typedef void sums_kernel(const float *, int64_t, int64_t, double *, double *);
static sums_kernel *const SUM[ISA_COUNT] = {sums_portable, sums_avx2, sums_avx512};

static void sums_range(void *context, int64_t begin, int64_t end) {
    const sums *c = context;
    for (int64_t o = begin; o < end; o++)
        SUM[c->isa](c->x + o * c->n * c->inner, c->n, c->inner, c->sum + o * c->inner,
                    c->magnitude + o * c->inner);
}

// Sum x[outer][n][inner], and its magnitudes, over n: [outer][inner] both.
REPOPS_EXPORT void repops_f64_sum(int64_t outer, int64_t n, int64_t inner, const float *x, double *sum,
                                  double *magnitude, int threads, int isa) {
    sums c = {x, sum, magnitude, n, inner, (enum isa)isa};
    parallel(threads, outer, max_i64(1, THREAD_WORK / 4 / max_i64(1, n * inner)), sums_range, &c);
}

// -------------------------------------------------------------------------------------------------- squares

typedef struct {
    const float *x;
    double *sum;
    int64_t n, inner, blocks;
    enum isa isa;
} squares;

#define BLOCK 512 // sums that fit in the first-level cache

BODY squares_of_row_body(const float *x, int64_t n, double *sum) {
    double s[GROUP] = {0};
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP) {
        NO_DEPENDENCE
        for (int64_t j = 0; j < GROUP; j++) s[j] += (double)x[i + j] * x[i + j];
    }
    for (; i < n; i++) s[0] += (double)x[i] * x[i];
    for (int64_t j = 1; j < GROUP; j++) s[0] += s[j];
    *sum = s[0];
}
VARIANTS(squares_of_row, (const float *x, int64_t n, double *sum), (x, n, sum))

BODY squares_of_columns_body(const float *x, int64_t n, int64_t inner, int64_t columns, double *sum) {
    for (int64_t i = 0; i < columns; i++) sum[i] = 0;
    for (int64_t k = 0; k < n; k++) {
        NO_DEPENDENCE
        for (int64_t i = 0; i < columns; i++) sum[i] += (double)x[k * inner + i] * x[k * inner + i];
    }
}
VARIANTS(squares_of_columns, (const float *x, int64_t n, int64_t inner, int64_t columns, double *sum),
         (x, n, inner, columns, sum))

static void squares_range(void *context, int64_t begin, int64_t end) {
    const squares *c = context;
    for (int64_t i = begin; i < end; i++) {
        const int64_t outer = i / c->blocks, first = i % c->blocks * BLOCK;
        const float *x = c->x + outer * c->n * c->inner + first;
        double *sum = c->sum + outer * c->inner + first;
        if (c->inner == 1)
            squares_of_row[c->isa](x, c->n, sum);
        else
            squares_of_columns[c->isa](x, c->n, c->inner, min_i64(BLOCK, c->inner - first), sum);
    }
}

// Sum the squares of x[outer][n][inner] over n: [outer][inner].
REPOPS_EXPORT void repops_f64_squares(int64_t outer, int64_t n, int64_t inner, const float *x, double *sum,
                                      int threads, int isa) {
    squares c = {x, sum, n, inner, ceil_div(inner, BLOCK), (enum isa)isa};
    const int64_t work = n * min_i64(inner, BLOCK);
    parallel(threads, outer * c.blocks, max_i64(1, THREAD_WORK / 4 / max_i64(1, work)), squares_range, &c);
}
