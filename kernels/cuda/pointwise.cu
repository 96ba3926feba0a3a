// Elementwise operators: one kernel an operator and dtype, over operands that broadcast.

#include "common.cuh"
#include "elementary.h"

constexpr int THREADS = 256;

// The output's dimensions with as many as possible merged, innermost last; a stride is 0 where an operand is
// broadcast. INVARIANT: along the last dimension every stride is 0 or 1.
struct Broadcast {
    i64 n;
    Axes axes; // its strides are those of the first operand
    i64 stride_b[MAX_RANK], stride_c[MAX_RANK];
    const void *a, *b, *c;
    void *out;
};

struct None {}; // the type of an operand that there is not
template <class T> constexpr int SIZE = sizeof(T);
template <> constexpr int SIZE<None> = 0;
template <int A, int B> constexpr int LARGER = A > B ? A : B;

template <class T, int V> DEVICE Pack<T, V> load(const void *base, i64 offset, i64 step) {
    Pack<T, V> values = {};
    if constexpr (SIZE<T> > 0) {
        const T *from = (const T *)base + offset;
        if (step == 1) return *(const Pack<T, V> *)from;
        const T same = *from;
#pragma unroll
        for (int i = 0; i < V; i++) values.at[i] = same;
    }
    return values;
}

// V neighbouring elements of the output, of one row.
template <int V, class Out, class A, class B, class C, class F>
DEVICE void apply(const Broadcast &p, i64 at, F f) {
    const int last = (int)p.axes.rank - 1;
    i64 a = 0, b = 0, c = 0, index = at;
#pragma unroll 1
    for (int d = last; d >= 0; d--) {
        const i64 rest = d ? quotient(index, p.axes.dim[d]) : 0, place = index - rest * p.axes.dim[d].d;
        a += place * p.axes.stride[d];
        if constexpr (SIZE<B> > 0) b += place * p.stride_b[d];
        if constexpr (SIZE<C> > 0) c += place * p.stride_c[d];
        index = rest;
    }
    const Pack<A, V> x = load<A, V>(p.a, a, p.axes.stride[last]);
    const Pack<B, V> y = load<B, V>(p.b, b, p.stride_b[last]);
    const Pack<C, V> z = load<C, V>(p.c, c, p.stride_c[last]);
    Pack<Out, V> out;
#pragma unroll
    for (int i = 0; i < V; i++) out.at[i] = f(x.at[i], y.at[i], z.at[i]);
    *(Pack<Out, V> *)((Out *)p.out + at) = out;
}

template <class T, int V> DEVICE bool can_load(const void *base, i64 step) {
    return SIZE<T> == 0 || step == 0 || aligned(base, SIZE<T> * V);
}

template <class Out, class A, class B, class C, class F> DEVICE void elementwise(const Broadcast &p, F f) {
    constexpr int V = 16 / LARGER<LARGER<SIZE<Out>, SIZE<A>>, LARGER<SIZE<B>, SIZE<C>>>;
    const int last = (int)p.axes.rank - 1;
    const bool wide = (last == 0 || p.axes.dim[last].d % V == 0) && aligned(p.out, SIZE<Out> * V) &&
                      can_load<A, V>(p.a, p.axes.stride[last]) && can_load<B, V>(p.b, p.stride_b[last]) &&
                      can_load<C, V>(p.c, p.stride_c[last]);
    const i64 packs = wide ? p.n / V : 0;
#pragma unroll 1
    for (i64 i = global_thread(); i < packs; i += global_threads()) apply<V, Out, A, B, C>(p, i * V, f);
#pragma unroll 1
    for (i64 i = packs * V + global_thread(); i < p.n; i += global_threads()) apply<1, Out, A, B, C>(p, i, f);
}

#define OPERATOR(name, Out, A, B, C, result)                                                                 \
    struct name##_of {                                                                                       \
        DEVICE_MEMBER Out operator()(A a, B b, C c) const { return result; }                                 \
    };                                                                                                       \
    KERNEL(name, Broadcast, THREADS, 4) {                                                                    \
        elementwise<Out, A, B, C>(p, name##_of());                                                           \
    }
// NOTE: called, not inlined four times over: they are long.
#define ELEMENTARY(name)                                                                                     \
    struct name##_of {                                                                                       \
        DEVICE_CALL float operator()(float a, None, None) const { return name##_f32(a); }                    \
    };                                                                                                       \
    KERNEL(map_##name##_f32, Broadcast, THREADS, 2) {                                                        \
        elementwise<float, float, None, None>(p, name##_of());                                               \
    }
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

struct pow_of {
    DEVICE_CALL float operator()(float a, float b, None) const { return pow_f32(a, b); }
};
KERNEL(map_pow_f32, Broadcast, THREADS, 2) {
    elementwise<float, float, float, None>(p, pow_of());
}

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

// NOTE: where and a cast to the same dtype move elements; only their size matters.
OPERATOR(where_1, u8, u8, u8, u8, a ? b : c)
OPERATOR(where_4, u32, u8, u32, u32, a ? b : c)
OPERATOR(where_8, u64, u8, u64, u64, a ? b : c)

UNARY(cast_f32_f32, u32, u32, a)
UNARY(cast_f32_i64, i64, float, truncated(a))
UNARY(cast_f32_bool, u8, float, a != 0.0f)
UNARY(cast_i64_f32, float, i64, f32_from_i64(a))
UNARY(cast_i64_i64, i64, i64, a)
UNARY(cast_i64_bool, u8, i64, a != 0)
UNARY(cast_bool_f32, float, u8, a ? 1.0f : 0.0f)
UNARY(cast_bool_i64, i64, u8, a)
UNARY(cast_bool_bool, u8, u8, a)
