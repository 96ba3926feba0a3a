// One IEEE-754 operation on binary32 operands in binary64, rounded to grid(b): what the mode rounded-f64
// makes of arithmetic below 32 bits. Wide values never leave the cache.

#include "rounding.h"
#include <math.h>

#define PIECE 1024 // wide values that are held at once

enum operation { ADD, SUB, MUL, DIV, SQRT, OPERATIONS };

typedef struct {
    enum operation operation;
    const float *a, *b;
    const int64_t *first_a, *first_b; // where each row begins
    float *out;
    int64_t columns, step_a, step_b, bits;
    enum isa isa;
} single;

#define EACH(expression)                                                                                     \
    do {                                                                                                     \
        NO_DEPENDENCE                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const double x = a[i * step_a], y = b[i * step_b];                                               \
            (void)y;                                                                                         \
            out[i] = (expression);                                                                           \
        }                                                                                                    \
    } while (0)

BODY apply_body(enum operation operation, const float *a, int64_t step_a, const float *b, int64_t step_b,
                int64_t n, double *out) {
    switch (operation) {
    case ADD:
        EACH(x + y);
        break;
    case SUB:
        EACH(x - y);
        break;
    case MUL:
        EACH(x * y);
        break;
    case DIV:
        EACH(x / y);
        break;
    default:
        EACH(sqrt(x));
        break;
    }
}

// NOTE: steps are 0 or 1, and known to the compiler, or nothing would be vectorised.
#define KERNEL(name, target)                                                                                 \
    target static void name(enum operation operation, const float *a, int64_t step_a, const float *b,        \
                            int64_t step_b, int64_t n, double *out) {                                        \
        if (step_a && step_b)                                                                                \
            apply_body(operation, a, 1, b, 1, n, out);                                                       \
        else if (step_a)                                                                                     \
            apply_body(operation, a, 1, b, 0, n, out);                                                       \
        else if (step_b)                                                                                     \
            apply_body(operation, a, 0, b, 1, n, out);                                                       \
        else                                                                                                 \
            apply_body(operation, a, 0, b, 0, n, out);                                                       \
    }
KERNEL(apply_portable, )
#if defined(__x86_64__)
KERNEL(apply_avx2, TARGET_AVX2)
KERNEL(apply_avx512, TARGET_AVX512)
#else
#define apply_avx2 apply_portable
#define apply_avx512 apply_portable
#endif

typedef void apply_kernel(enum operation, const float *, int64_t, const float *, int64_t, int64_t, double *);
static apply_kernel *const APPLY[ISA_COUNT] = {apply_portable, apply_avx2, apply_avx512};

static void single_range(void *context, int64_t begin, int64_t end) {
    const single *c = context;
    double wide[PIECE];
    for (int64_t at = begin; at < end;) {
        const int64_t row = at / c->columns, column = at % c->columns;
        const int64_t n = min_i64(min_i64(c->columns - column, end - at), PIECE);
        const float *a = c->a + c->first_a[row] + column * c->step_a;
        const float *b = c->b + c->first_b[row] + column * c->step_b;
        APPLY[c->isa](c->operation, a, c->step_a, b, c->step_b, n, wide);
        round_plain(wide, n, (int)c->bits, c->out + at, c->isa);
        at += n;
    }
}

// out[rows][columns] = a operation b; row r of an operand begins at first[r], its elements are step (0 or 1)
// apart.
REPOPS_EXPORT void repops_single(int operation, int64_t rows, int64_t columns, const float *a,
                                 const int64_t *first_a, int64_t step_a, const float *b,
                                 const int64_t *first_b, int64_t step_b, int64_t bits, float *out,
                                 int threads, int isa) {
    single c = {.operation = (enum operation)operation,
                .a = a,
                .b = b,
                .first_a = first_a,
                .first_b = first_b,
                .out = out,
                .columns = columns,
                .step_a = step_a,
                .step_b = step_b,
                .bits = bits,
                .isa = (enum isa)isa};
    parallel(threads, rows * columns, THREAD_WORK / 8, single_range, &c);
}
