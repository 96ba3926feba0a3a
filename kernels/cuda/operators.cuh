// The elementwise operators on one element: name_dtype_of()(a, b, c), with None for absent operands.

#ifndef REPOPS_OPERATORS_CUH
#define REPOPS_OPERATORS_CUH

#include "common.cuh"
#include "elementary.h"

// OPERATOR_KERNEL(name, Out, A, B, C, blocks): more code for each operator; in pointwise.cu, its kernel.
#ifndef OPERATOR_KERNEL
#define OPERATOR_KERNEL(name, Out, A, B, C, blocks)
#endif

#define OPERATOR(name, Out, A, B, C, result)                                                                 \
    struct name##_of {                                                                                       \
        DEVICE_MEMBER Out operator()(A a, B b, C c) const { return result; }                                 \
    };                                                                                                       \
    OPERATOR_KERNEL(name, Out, A, B, C, 4)
// NOTE: called, not inlined four times, because they are long. The prefix map_ distinguishes them from the
// functions of elementary.h.
#define ELEMENTARY(name)                                                                                     \
    struct map_##name##_f32_of {                                                                             \
        DEVICE_CALL float operator()(float a, None, None) const { return name##_f32(a); }                    \
    };                                                                                                       \
    OPERATOR_KERNEL(map_##name##_f32, float, float, None, None, 2)
#define UNARY(name, Out, A, result) OPERATOR(name, Out, A, None, None, result)
#define BINARY(name, Out, T, result) OPERATOR(name, Out, T, T, None, result)
#define COMPARISON(name, operation)                                                                          \
    BINARY(name##_f32, u8, float, a operation b)                                                             \
    BINARY(name##_i64, u8, i64, a operation b)

DEVICE float negated(float a) {
    return f32_of(bits_of(a) ^ MINUS_ZERO_BITS);
}
DEVICE i64 truncated(float a) {
    if (is_nan(a)) return 0;
    return a >= 0x1p63f ? I64_MAX : a < -0x1p63f ? I64_MIN : (i64)a;
}

BINARY(add_f32, float, float, add_rn(a, b))
BINARY(sub_f32, float, float, sub_rn(a, b))
BINARY(mul_f32, float, float, mul_rn(a, b))
BINARY(div_f32, float, float, div_rn(a, b))
BINARY(maximum_f32, float, float, larger(a, b))
BINARY(minimum_f32, float, float, negated(larger(negated(a), negated(b))))
UNARY(neg_f32, float, float, negated(a))
UNARY(sqrt_f32, float, float, sqrt_rn(a))
UNARY(rsqrt_f32, float, float, div_rn(1.0f, sqrt_rn(a)))

ELEMENTARY(exp)
ELEMENTARY(log)
ELEMENTARY(log1p)
ELEMENTARY(tanh)
ELEMENTARY(erf)
ELEMENTARY(sin)
ELEMENTARY(cos)

struct map_pow_f32_of {
    DEVICE_CALL float operator()(float a, float b, None) const { return pow_f32(a, b); }
};
OPERATOR_KERNEL(map_pow_f32, float, float, float, None, 2)

BINARY(add_i64, i64, i64, (i64)((u64)a + (u64)b))
BINARY(sub_i64, i64, i64, (i64)((u64)a - (u64)b))
BINARY(mul_i64, i64, i64, (i64)((u64)a * (u64)b))
UNARY(neg_i64, i64, i64, (i64)(0 - (u64)a))

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(gt, >)
COMPARISON(ge, >=)

BINARY(logical_and_bool, u8, u8, a &b)
BINARY(logical_or_bool, u8, u8, a | b)
UNARY(logical_not_bool, u8, u8, a ^ 1)

// NOTE: where, and a cast to the same dtype, move elements; only their size matters.
OPERATOR(where_1, u8, u8, u8, u8, a ? b : c)
OPERATOR(where_2, bf16, u8, bf16, bf16, a ? b : c)
OPERATOR(where_4, u32, u8, u32, u32, a ? b : c)
OPERATOR(where_8, u64, u8, u64, u64, a ? b : c)

UNARY(cast_f32_f32, u32, u32, a)
UNARY(cast_f32_i64, i64, float, truncated(a))
UNARY(cast_f32_bool, u8, float, a != 0.0f)
UNARY(cast_f32_bf16, bf16, float, to_bf16(a))
UNARY(cast_bf16_f32, float, bf16, from_bf16(a))
UNARY(cast_bf16_bf16, bf16, bf16, a)
UNARY(cast_i64_f32, float, i64, f32_from_i64(a))
UNARY(cast_i64_i64, i64, i64, a)
UNARY(cast_i64_bool, u8, i64, a != 0)
UNARY(cast_bool_f32, float, u8, a ? 1.0f : 0.0f)
UNARY(cast_bool_i64, i64, u8, a)
UNARY(cast_bool_bool, u8, u8, a)

OPERATOR(cast_stochastic_f32, bf16, float, i64, None, to_bf16_stochastic(a, (u64)b))

#endif
