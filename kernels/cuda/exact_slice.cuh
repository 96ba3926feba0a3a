// A slice of both factors in shared memory as f64, and what bounds a contraction's error: of each row of A
// and each column of B the norm, and a unit of which all its elements are multiples.

#ifndef REPOPS_EXACT_SLICE_CUH
#define REPOPS_EXACT_SLICE_CUH

#include "slice.cuh"
#include "exact_sum.cuh"

// INVARIANT: half a warp reads 4 rows of 4 k of A, or 4 k of 4 columns of B. Rows are 8 words modulo 32
// apart, so no two share a bank.
template <class T> struct alignas(16) WideStage {
    double a[T::BM][A_PITCH];
    double b[DEPTH][T::BN + 4];
};

// A bound of the Euclidean norm from above, and the norm in units of a power of two of which every element is
// a multiple.
struct Bound {
    double norm, in_units;
};

// What a bound follows from. Facts of parts join to those of the whole.
struct Facts {
    double squares;
    u32 set;   // bits that are set in any element
    u32 least; // the smallest magnitude of a nonzero element, as bits, less 1

    DEVICE_MEMBER void begin() { squares = 0, set = 0, least = ALL; }
    DEVICE_MEMBER void add(float x) {
        const u32 bits = (u32)bits_of(x), size = (bits & 0x7FFFFFFF) - 1; // of a zero the largest
        squares = fma_rn((double)x, (double)x, squares);
        set |= bits;
        least = size < least ? size : least;
    }
    DEVICE_MEMBER void join(const Facts &other) {
        squares = add_rn(squares, other.squares);
        set |= other.set;
        least = other.least < least ? other.least : least;
    }
    // INVARIANT: the sum of squares has fewer than 2^31 roundings, so the factor makes up for them and for
    // that of the root.
    //
    // A nonzero element is a multiple of its last place, so of that of the smallest element; and, in units of
    // its last place, of the lowest bit that is set in the significand of any element.
    DEVICE_MEMBER Bound bound() const {
        constexpr u32 HIDDEN = 1u << 23;
        const double norm = mul_rn(sqrt_rn(squares), 1 + 0x1p-20);
        if (least == ALL) return {norm, 0}; // only zeros
        const u32 exponent = (least + 1) >> 23, significand = (set & (HIDDEN - 1)) | HIDDEN;
        const int lowest = lowest_bit(significand);
        const int scale = 150 - (int)(exponent ? exponent : 1) - lowest;
        return {norm, mul_rn(norm, f64_of((i64)(1023 + scale) << 52))};
    }
};

// A thread's part of a slice on its way through registers (see slice.cuh), and the facts of what it carried.
template <class T, class E, int V> struct WideSlice {
    typedef Slots<T, V> At;
    WideStage<T> *to;
    Pack<E, V> of_a[At::A_COUNT], of_b[At::B_COUNT];
    Facts row[At::A_COUNT], column[V];

    DEVICE_MEMBER void begin_facts() {
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++) row[i].begin();
#pragma unroll
        for (int v = 0; v < V; v++) column[v].begin();
    }
    DEVICE_MEMBER void begin(WideStage<T> &stage) {
        to = &stage;
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++) no_a(i);
#pragma unroll
        for (int i = 0; i < At::B_COUNT; i++) no_b(i);
    }
    DEVICE_MEMBER void a(int i, const E *from) { of_a[i] = *(const Pack<E, V> *)from; }
    DEVICE_MEMBER void b(int i, const E *from) { of_b[i] = *(const Pack<E, V> *)from; }
    DEVICE_MEMBER void no_a(int i) { of_a[i] = {}; }
    DEVICE_MEMBER void no_b(int i) { of_b[i] = {}; }
    DEVICE_MEMBER void a_if(int i, bool wanted, const E *from) {
        if (wanted) a(i, from);
    }
    DEVICE_MEMBER void b_if(int i, bool wanted, const E *from) {
        if (wanted) b(i, from);
    }
    DEVICE_MEMBER void exists(int, bool) {} // zero in B: only with an infinite operand does it leave a trace
    DEVICE_MEMBER void end() {
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++)
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float x = widened(of_a[i].at[v]);
                to->a[At::ay() + i * At::A_ROWS][At::ax() + v] = x;
                row[i].add(x);
            }
#pragma unroll
        for (int i = 0; i < At::B_COUNT; i++)
#pragma unroll
            for (int v = 0; v < V; v++) {
                const float x = widened(of_b[i].at[v]);
                to->b[At::by() + i * At::B_ROWS][At::bx() + v] = x;
                column[v].add(x);
            }
    }
};

// The facts that the threads of a block found, by row and column of the tile.
template <class T> struct Found {
    Facts row[T::BM][DEPTH], column[T::BN][DEPTH];
};
template <class T, class E, int V>
DEVICE void gather_facts(const WideSlice<T, E, V> &slice, Found<T> &found) {
    typedef Slots<T, V> At;
#pragma unroll
    for (int i = 0; i < At::A_COUNT; i++) found.row[At::ay() + i * At::A_ROWS][At::ax() / V] = slice.row[i];
#pragma unroll
    for (int v = 0; v < V; v++) found.column[At::bx() + v][At::by()] = slice.column[v];
}
// Join the facts of one row or column.
DEVICE Facts joined(const Facts *parts, int count) {
    Facts all;
    all.begin();
    for (int i = 0; i < count; i++) all.join(parts[i]);
    return all;
}

#endif
