// A slice of 16 k of both factors in shared memory, and how it gets there: f32 by asynchronous copies, bf16
// through registers, where it is widened.

#ifndef REPOPS_SLICE_CUH
#define REPOPS_SLICE_CUH

#include "common.cuh"

constexpr int DEPTH = 16;          // k of a slice
constexpr int A_PITCH = DEPTH + 4; // INVARIANT: 16 bytes of 8 rows, 80 bytes apart, share no bank

constexpr u32 ALL = 0xFFFFFFFFu;

template <class T> struct alignas(16) Stage {
    float a[T::BM][A_PITCH];
    float b[DEPTH][T::BN];
    u32 exists[DEPTH][T::BN / WARP]; // bit n: column n exists at this k (used if a term can be absent)
};

// The part of a slice that a thread copies, V neighbours at a time: rows ay() + i A_ROWS of A from k ax() on,
// and rows by() + i B_ROWS of B from column bx() on.
template <class T, int V> struct Slots {
    static constexpr int A_COPIES = DEPTH / V, A_ROWS = T::THREADS / A_COPIES, A_COUNT = T::BM / A_ROWS;
    static constexpr int B_COPIES = T::BN / V, B_ROWS = T::THREADS / B_COPIES, B_COUNT = DEPTH / B_ROWS;
    // NOTE: unsigned, so that the divisions are shifts.
    static DEVICE_MEMBER int ax() { return (int)((u32)thread_index() % A_COPIES) * V; }
    static DEVICE_MEMBER int ay() { return (int)((u32)thread_index() / A_COPIES); }
    static DEVICE_MEMBER int bx() { return (int)((u32)thread_index() % B_COPIES) * V; }
    static DEVICE_MEMBER int by() { return (int)((u32)thread_index() / B_COPIES); }
};

// A thread's part on its way. Between begin and end, a source names the place of each piece: a(i, place), or
// no_a(i) for a = -0, and b(i, place), or no_b(i) for b = +0; with _if, only if `wanted`. A piece that is not
// named has any value. `exists` says of a piece of B whether its column exists at that k.
template <class T, class E, int V> struct Slice;

template <class T, int V> struct Slice<T, float, V> {
    typedef Slots<T, V> At;
    Stage<T> *to;

    DEVICE_MEMBER void begin(Stage<T> &stage) { to = &stage; }
    DEVICE_MEMBER float *a_slot(int i) { return &to->a[At::ay() + i * At::A_ROWS][At::ax()]; }
    DEVICE_MEMBER float *b_slot(int i) { return &to->b[At::by() + i * At::B_ROWS][At::bx()]; }
    DEVICE_MEMBER void a(int i, const float *from) { copy_async<4 * V>(a_slot(i), from); }
    DEVICE_MEMBER void b(int i, const float *from) { copy_async<4 * V>(b_slot(i), from); }
    DEVICE_MEMBER void no_a(int i) { *(Pack<float, V> *)a_slot(i) = splat<V>(minus_zero()); }
    DEVICE_MEMBER void no_b(int i) { *(Pack<float, V> *)b_slot(i) = splat<V>(0.0f); }
    DEVICE_MEMBER void a_if(int i, bool wanted, const float *from) { copy_async_if(wanted, a_slot(i), from); }
    DEVICE_MEMBER void b_if(int i, bool wanted, const float *from) { copy_async_if(wanted, b_slot(i), from); }
    DEVICE_MEMBER void exists(int i, bool there) {
        const u32 all = lanes_where(there);
        if (thread_index() % WARP == 0) to->exists[At::by() + i * At::B_ROWS][At::bx() / WARP] = all;
    }
    DEVICE_MEMBER void end() {}
};

constexpr bf16 MINUS_ZERO_BF16 = 0x8000;

template <class T, int V> struct Slice<T, bf16, V> {
    typedef Slots<T, V> At;
    Stage<T> *to;
    Pack<bf16, V> of_a[At::A_COUNT], of_b[At::B_COUNT];

    DEVICE_MEMBER void begin(Stage<T> &stage) {
        to = &stage;
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++) no_a(i);
#pragma unroll
        for (int i = 0; i < At::B_COUNT; i++) no_b(i);
    }
    DEVICE_MEMBER void a(int i, const bf16 *from) { of_a[i] = *(const Pack<bf16, V> *)from; }
    DEVICE_MEMBER void b(int i, const bf16 *from) { of_b[i] = *(const Pack<bf16, V> *)from; }
    DEVICE_MEMBER void no_a(int i) { fill(of_a[i], MINUS_ZERO_BF16); }
    DEVICE_MEMBER void no_b(int i) { fill(of_b[i], 0); }
    DEVICE_MEMBER void a_if(int i, bool wanted, const bf16 *from) {
        if (wanted) a(i, from);
    }
    DEVICE_MEMBER void b_if(int i, bool wanted, const bf16 *from) {
        if (wanted) b(i, from);
    }
    DEVICE_MEMBER void exists(int i, bool there) {
        const u32 all = lanes_where(there);
        if (thread_index() % WARP == 0) to->exists[At::by() + i * At::B_ROWS][At::bx() / WARP] = all;
    }
    // Called when the slice before has been multiplied, so that the loads have had that time.
    DEVICE_MEMBER void end() {
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++) widen(&to->a[At::ay() + i * At::A_ROWS][At::ax()], of_a[i]);
#pragma unroll
        for (int i = 0; i < At::B_COUNT; i++) widen(&to->b[At::by() + i * At::B_ROWS][At::bx()], of_b[i]);
    }
    static DEVICE_MEMBER void fill(Pack<bf16, V> &pack, bf16 value) {
#pragma unroll
        for (int v = 0; v < V; v++) pack.at[v] = value;
    }
    static DEVICE_MEMBER void widen(float *slot, const Pack<bf16, V> &pack) {
        Pack<float, V> wide;
#pragma unroll
        for (int v = 0; v < V; v++) wide.at[v] = from_bf16(pack.at[v]);
        *(Pack<float, V> *)slot = wide;
    }
};

#endif
