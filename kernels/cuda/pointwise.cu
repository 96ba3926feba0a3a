// Elementwise operators: one kernel for each operator and dtype, over operands that broadcast.

#include "common.cuh"

constexpr int THREADS = 256;

// The output's dimensions, merged where possible, innermost last; a stride is 0 where an operand is
// broadcast. INVARIANT: along the last dimension every stride is 0 or 1.
struct Broadcast {
    i64 n;
    Axes axes; // its strides are those of the first operand
    i64 stride_b[MAX_RANK], stride_c[MAX_RANK];
    const void *a, *b, *c;
    void *out;
};

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

// Compute V neighbouring elements of one row of the output.
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

#define OPERATOR_KERNEL(name, Out, A, B, C, blocks)                                                          \
    KERNEL(name, Broadcast, THREADS, blocks) {                                                               \
        elementwise<Out, A, B, C>(p, name##_of());                                                           \
    }
#include "operators.cuh"
