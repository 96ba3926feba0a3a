// One IEEE-754 operation on binary32 operands in binary64, rounded to grid(b), of arrays that broadcast: the
// arithmetic of the mode rounded-f64 below 32 bits, operator by operator.

#include "grid.h"

typedef struct {
    grid_kernel *kernel;
    const float *a, *b;
    const int64_t *first_a, *first_b; // the beginning of each row
    float *out;
    int64_t columns, step_a, step_b, bits;
} single;

static void single_range(void *context, int64_t begin, int64_t end) {
    const single *c = context;
    for (int64_t at = begin; at < end;) {
        const int64_t row = at / c->columns, column = at % c->columns;
        const int64_t n = min_i64(c->columns - column, end - at);
        const float *a = c->a + c->first_a[row] + column * c->step_a;
        const float *b = c->b + c->first_b[row] + column * c->step_b;
        int doubt; // arithmetic has no doubt
        c->kernel(n, c->out + at, a, c->step_a, b, c->step_b, (int)c->bits, &doubt);
        at += n;
    }
}

// out[rows][columns] = a operation b. Row r of an operand begins at first[r]; its elements are step (0 or 1)
// apart. The operation is an index into named_grid_kernels.
REPOPS_EXPORT void repops_single(int operation, int64_t rows, int64_t columns, const float *a,
                                 const int64_t *first_a, int64_t step_a, const float *b,
                                 const int64_t *first_b, int64_t step_b, int64_t bits, float *out,
                                 int threads, int isa) {
    single c = {.kernel = named_grid_kernels[operation].kernel[isa],
                .a = a,
                .b = b,
                .first_a = first_a,
                .first_b = first_b,
                .out = out,
                .columns = columns,
                .step_a = step_a,
                .step_b = step_b,
                .bits = bits};
    parallel(threads, rows * columns, THREAD_WORK / 8, single_range, &c);
}
