// The operators exp, log, erf, tanh, sin, cos, log1p and pow. They are correctly rounded, so the three
// instruction sets may compute in different ways (see unary.h) and still give the same bits.

#include "unary.h"
#include "runtime/broadcast.h"

#define GRAIN (THREAD_WORK / 4)
#define POW_GRAIN (THREAD_WORK / 10)

#if defined(__x86_64__)
#define BY_ISA(name) {name##_portable, name##_avx2, name##_avx512}
#else
#define BY_ISA(name) {name##_portable, name##_portable, name##_portable}
#endif

typedef struct {
    map *body;
    float *out;
    const float *in;
} job;

static void range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    j->body(j->out + begin, j->in + begin, end - begin);
}

#define UNARY(name)                                                                                          \
    map *const name##_map[ISA_COUNT] = BY_ISA(name);                                                         \
    OPERATOR(name) {                                                                                         \
        job j = {name##_map[isa], data[1], data[0]};                                                         \
        parallel(threads, elements(output(sig, 0)), GRAIN, range, &j);                                       \
        return 0;                                                                                            \
    }

UNARY(exp)
UNARY(log)
UNARY(erf)
UNARY(tanh)
UNARY(sin)
UNARY(cos)
UNARY(log1p)

row_kernel *const pow_rows[ISA_COUNT] = BY_ISA(pow);
row_kernel *const exp_sub_rows[ISA_COUNT] = BY_ISA(exp_sub);

typedef struct {
    broadcast walk;
    row_kernel *kernel;
    float *out;
    const float *operand[2];
} pow_job;

static void pow_row(void *context, int64_t count, int64_t out, const int64_t *operand) {
    const pow_job *j = context;
    const int64_t last = j->walk.rank - 1;
    j->kernel(count, j->out + out, j->operand[0] + operand[0], j->walk.stride[0][last],
              j->operand[1] + operand[1], j->walk.stride[1][last]);
}

static void pow_range(void *context, int64_t begin, int64_t end) {
    broadcast_walk(&((pow_job *)context)->walk, begin, end, pow_row, context);
}

OPERATOR(pow) {
    pow_job j = {broadcast_plan(sig), pow_rows[isa], data[2], {data[0], data[1]}};
    parallel(threads, elements(output(sig, 0)), POW_GRAIN, pow_range, &j);
    return 0;
}
