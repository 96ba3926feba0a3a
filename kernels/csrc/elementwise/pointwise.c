// Operators whose output element depends on one element of each (broadcast) input.
//
// Each operator is one line: a name, the operand and result types, and an expression in a, b.

#include "runtime/repops.h"
#include "shared/bits.h"
#include "runtime/broadcast.h"
#include "runtime/rows.h"
#include <math.h>

#define GRAIN (THREAD_WORK / 2)

typedef struct {
    broadcast walk;
    row_kernel *kernel;
    char *out;
    const char *operand[2];
    int64_t out_size, size[2]; // of an item
} job;

static void job_row(void *context, int64_t count, int64_t out, const int64_t *operand) {
    const job *j = context;
    const int64_t last = j->walk.rank - 1;
    j->kernel(count, j->out + out * j->out_size, j->operand[0] + operand[0] * j->size[0],
              j->walk.stride[0][last], j->operand[1] + operand[1] * j->size[1], j->walk.stride[1][last]);
}

static void job_range(void *context, int64_t begin, int64_t end) {
    broadcast_walk(&((job *)context)->walk, begin, end, job_row, context);
}

static int run(call c, row_kernel *kernel) {
    const signature *sig = c.sig;
    job j = {.walk = broadcast_plan(sig), .kernel = kernel, .out = c.data[sig->inputs]};
    j.operand[0] = c.data[0];
    j.operand[1] = c.data[sig->inputs - 1]; // a unary operator reads its operand twice
    if (sig->inputs == 1) memcpy(j.walk.stride[1], j.walk.stride[0], sizeof j.walk.stride[0]);
    if (sig->inputs == 1) j.walk.operands = 2;
    j.size[0] = item_size(input(sig, 0)->dtype);
    j.size[1] = item_size(input(sig, sig->inputs - 1)->dtype);
    j.out_size = item_size(output(sig, 0)->dtype);
    parallel(c.threads, elements(output(sig, 0)), GRAIN, job_range, &j);
    return 0;
}

// Along a row each operand runs (stride 1) or stands (stride 0); a loop for each case lets the compiler
// vectorise. The result may be exactly an operand's memory (fused.c), but must not overlap it otherwise.
#define ROW_KERNEL_OF_TWO(name, T, U, R, expression)                                                         \
    BODY name##_body(int64_t n, void *out, const void *pa, int64_t sa, const void *pb, int64_t sb) {         \
        R *o = out;                                                                                          \
        const T *x = pa;                                                                                     \
        const U *y = pb;                                                                                     \
        if (sa && sb) {                                                                                      \
            NO_DEPENDENCE for (int64_t i = 0; i < n; i++) {                                                  \
                const T a = x[i];                                                                            \
                const U b = y[i];                                                                            \
                (void)b;                                                                                     \
                o[i] = (R)(expression);                                                                      \
            }                                                                                                \
        } else if (sa) {                                                                                     \
            const U b = *y;                                                                                  \
            (void)b;                                                                                         \
            NO_DEPENDENCE for (int64_t i = 0; i < n; i++) {                                                  \
                const T a = x[i];                                                                            \
                o[i] = (R)(expression);                                                                      \
            }                                                                                                \
        } else {                                                                                             \
            const T a = *x;                                                                                  \
            NO_DEPENDENCE for (int64_t i = 0; i < n; i++) {                                                  \
                const U b = y[i];                                                                            \
                (void)b;                                                                                     \
                o[i] = (R)(expression);                                                                      \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    VARIANTS(name, (int64_t n, void *out, const void *pa, int64_t sa, const void *pb, int64_t sb),           \
             (n, out, pa, sa, pb, sb))

#define ROW_KERNEL(name, T, R, expression) ROW_KERNEL_OF_TWO(name, T, T, R, expression)

#define POINTWISE_F32(name, R, expression)                                                                   \
    ROW_KERNEL(name##_f32, float, R, expression)                                                             \
    OPERATOR(name) {                                                                                         \
        return run(CALL, name##_f32[isa]);                                                                   \
    }

#define POINTWISE_BOTH(name, T_i64, R_f32, R_i64, expression)                                                \
    ROW_KERNEL(name##_f32, float, R_f32, expression)                                                         \
    ROW_KERNEL(name##_i64, T_i64, R_i64, expression)                                                         \
    OPERATOR(name) {                                                                                         \
        return run(CALL, input(sig, 0)->dtype == F32 ? name##_f32[isa] : name##_i64[isa]);                   \
    }

#define POINTWISE_BOOL(name, expression)                                                                     \
    ROW_KERNEL(name##_bool, uint8_t, uint8_t, expression)                                                    \
    OPERATOR(name) {                                                                                         \
        return run(CALL, name##_bool[isa]);                                                                  \
    }

// NOTE: i64 arithmetic is done unsigned, where C defines the wrap-around.
POINTWISE_BOTH(add, uint64_t, float, uint64_t, a + b)
POINTWISE_BOTH(sub, uint64_t, float, uint64_t, a - b)
POINTWISE_BOTH(mul, uint64_t, float, uint64_t, a *b)
POINTWISE_BOTH(neg, uint64_t, float, uint64_t, -a)

POINTWISE_F32(div, float, a / b)
POINTWISE_F32(maximum, float, larger(a, b))
POINTWISE_F32(minimum, float, -larger(-a, -b))
POINTWISE_F32(sqrt, float, sqrtf(a))
POINTWISE_F32(rsqrt, float, 1.0f / sqrtf(a))

POINTWISE_BOTH(eq, int64_t, uint8_t, uint8_t, a == b)
POINTWISE_BOTH(ne, int64_t, uint8_t, uint8_t, a != b)
POINTWISE_BOTH(lt, int64_t, uint8_t, uint8_t, a < b)
POINTWISE_BOTH(le, int64_t, uint8_t, uint8_t, a <= b)
POINTWISE_BOTH(gt, int64_t, uint8_t, uint8_t, a > b)
POINTWISE_BOTH(ge, int64_t, uint8_t, uint8_t, a >= b)

POINTWISE_BOOL(logical_and, a &&b)
POINTWISE_BOOL(logical_or, a || b)
POINTWISE_BOOL(logical_not, !a)

// cast: f32 -> i64 truncates, NaN gives 0, values out of range saturate. 2^63 is a float, 2^63 - 1 is not.
static inline int64_t truncate(float a) {
    if (a != a) return 0;
    if (a >= 0x1p63f) return INT64_MAX;
    if (a < -0x1p63f) return INT64_MIN;
    return (int64_t)a;
}

#define CAST_FROM(name, T, to_f32, to_i64)                                                                   \
    ROW_KERNEL(name##_to_f32, T, float, to_f32)                                                              \
    ROW_KERNEL(name##_to_i64, T, int64_t, to_i64)                                                            \
    ROW_KERNEL(name##_to_bool, T, uint8_t, a != 0)                                                           \
    static row_kernel *name(int64_t to, int isa) {                                                           \
        return to == F32 ? name##_to_f32[isa] : to == I64 ? name##_to_i64[isa] : name##_to_bool[isa];        \
    }

CAST_FROM(cast_f32, float, a, truncate(a))
CAST_FROM(cast_i64, int64_t, a, a)
CAST_FROM(cast_bool, uint8_t, a != 0, a != 0)

// bf16 is cast from and to f32 only.
ROW_KERNEL(cast_f32_to_bf16, float, uint16_t, to_bf16(a))
ROW_KERNEL(cast_bf16_to_f32, uint16_t, float, from_bf16(a))
ROW_KERNEL(cast_bf16_to_bf16, uint16_t, uint16_t, a)

// Several operators at once (repops/fuse/phases.py): casts to bf16 and back, after arithmetic or alone; and
// arithmetic with an operand of bf16, which comes first.
ROW_KERNEL(round_bf16, float, float, rounded_bf16(a))
#define WITH_BF16(name, expression)                                                                          \
    ROW_KERNEL(name##_to_bf16, float, uint16_t, to_bf16(expression))                                         \
    ROW_KERNEL(name##_round_bf16, float, float, rounded_bf16(expression))
WITH_BF16(add, a + b)
WITH_BF16(sub, a - b)
WITH_BF16(mul, a *b)
ROW_KERNEL_OF_TWO(add_bf16_f32, uint16_t, float, float, from_bf16(a) + b)
ROW_KERNEL_OF_TWO(mul_bf16_f32, uint16_t, float, float, from_bf16(a) * b)

OPERATOR(cast) {
    const int64_t from = input(sig, 0)->dtype, to = output(sig, 0)->dtype;
    row_kernel *kernel;
    if (from == BF16)
        kernel = to == F32 ? cast_bf16_to_f32[isa] : cast_bf16_to_bf16[isa];
    else if (to == BF16)
        kernel = cast_f32_to_bf16[isa];
    else
        kernel = from == F32 ? cast_f32(to, isa) : from == I64 ? cast_i64(to, isa) : cast_bool(to, isa);
    return run(CALL, kernel);
}

ROW_KERNEL_OF_TWO(cast_stochastic_f32, float, uint64_t, uint16_t, to_bf16_stochastic(a, b))

OPERATOR(cast_stochastic) {
    return run(CALL, cast_stochastic_f32[isa]);
}

const named_row named_rows[] = {
    {"add_f32", add_f32},
    {"add_i64", add_i64},
    {"sub_f32", sub_f32},
    {"sub_i64", sub_i64},
    {"mul_f32", mul_f32},
    {"mul_i64", mul_i64},
    {"neg_f32", neg_f32},
    {"neg_i64", neg_i64},
    {"div_f32", div_f32},
    {"maximum_f32", maximum_f32},
    {"minimum_f32", minimum_f32},
    {"sqrt_f32", sqrt_f32},
    {"rsqrt_f32", rsqrt_f32},
    {"eq_f32", eq_f32},
    {"eq_i64", eq_i64},
    {"ne_f32", ne_f32},
    {"ne_i64", ne_i64},
    {"lt_f32", lt_f32},
    {"lt_i64", lt_i64},
    {"le_f32", le_f32},
    {"le_i64", le_i64},
    {"gt_f32", gt_f32},
    {"gt_i64", gt_i64},
    {"ge_f32", ge_f32},
    {"ge_i64", ge_i64},
    {"logical_and_bool", logical_and_bool},
    {"logical_or_bool", logical_or_bool},
    {"logical_not_bool", logical_not_bool},
    {"cast_f32_f32", cast_f32_to_f32},
    {"cast_f32_i64", cast_f32_to_i64},
    {"cast_f32_bool", cast_f32_to_bool},
    {"cast_f32_bf16", cast_f32_to_bf16},
    {"cast_bf16_f32", cast_bf16_to_f32},
    {"cast_bf16_bf16", cast_bf16_to_bf16},
    {"round_bf16", round_bf16},
    {"add_to_bf16", add_to_bf16},
    {"sub_to_bf16", sub_to_bf16},
    {"mul_to_bf16", mul_to_bf16},
    {"add_round_bf16", add_round_bf16},
    {"sub_round_bf16", sub_round_bf16},
    {"mul_round_bf16", mul_round_bf16},
    {"add_bf16_f32", add_bf16_f32},
    {"mul_bf16_f32", mul_bf16_f32},
    {"cast_stochastic_f32", cast_stochastic_f32},
    {"cast_i64_f32", cast_i64_to_f32},
    {"cast_i64_i64", cast_i64_to_i64},
    {"cast_i64_bool", cast_i64_to_bool},
    {"cast_bool_f32", cast_bool_to_f32},
    {"cast_bool_i64", cast_bool_to_i64},
    {"cast_bool_bool", cast_bool_to_bool},
    {NULL, NULL},
};
