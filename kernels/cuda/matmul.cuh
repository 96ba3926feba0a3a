// mm and bmm of one dtype: tiles for matrices, other kernels for a single row or column, and the second half
// of split-K.

#ifndef REPOPS_MATMUL_CUH
#define REPOPS_MATMUL_CUH

#include "gemm.cuh"

// C[b, m, n] = contraction of A[b, m, :] and B[b, :, n], all row-major.
struct Matmul {
    Grid grid;
    i64 k;
    const void *a, *b;
};

struct NoTable {};

// WIDE: all rows of A, B and C start at multiples of four elements.
template <class T, class E, bool WIDE, template <class, class, int> class SliceOf = Slice> struct Matrices {
    static constexpr bool MASKED = false, FOURS = WIDE;
    static constexpr int V = WIDE ? 4 : 1; // elements per copy
    typedef NoTable Table;
    typedef E Element;
    typedef SliceOf<T, E, V> Slice;
    typedef Slots<T, V> At;

    const Matmul &p;
    i64 batch;
    const E *a, *b; // this thread's first copy of the first slice
    int rows;       // rows of A from this thread's first row on
    bool inside;    // this thread's column of B exists
    bool full;      // the whole tile is inside

    DEVICE_MEMBER Matrices(const Matmul &p_, const Share &s) : p(p_), batch(s.batch) {
        const i64 row = s.row + At::ay(), column = s.column + At::bx();
        a = (const E *)p.a + (batch * p.grid.m + row) * p.k + At::ax();
        b = (const E *)p.b + (batch * p.k + At::by()) * p.grid.n + column;
        rows = (int)min_i64(p.grid.m - row, T::BM);
        inside = column < p.grid.n;
        full = s.row + T::BM <= p.grid.m && s.column + T::BN <= p.grid.n;
    }
    DEVICE_MEMBER i64 begin(i64 chunk) const { return min_i64(chunk * CHUNK, p.k); }
    DEVICE_MEMBER void prepare(Table &, i64, i64) const {}
    DEVICE_MEMBER i64 start_of_c() const { return batch * p.grid.m * p.grid.n; }
    DEVICE_MEMBER i64 row_step() const { return p.grid.n; }
    DEVICE_MEMBER i64 column_place(i64 c) const { return c < p.grid.n ? c : -1; }

    DEVICE_MEMBER void load(Slice &slice, const Table &, i64, i64 k0, i64 end) const {
        if (full && end - k0 >= DEPTH)
            fetch<true>(slice, k0, DEPTH);
        else
            fetch<false>(slice, k0, (int)min_i64(end - k0, DEPTH));
    }
    // NOTE: rows and columns beyond the matrix are not fetched; products with other data in their place are
    // not stored.
    template <bool ALL_THERE> DEVICE_MEMBER void fetch(Slice &slice, i64 k0, int left) const {
        // NOTE: opaque, or the compiler keeps the multiples of the row length in registers and spills.
        const i64 step_a = opaque(At::A_ROWS * p.k), step_b = opaque(At::B_ROWS * p.grid.n);
        const E *from = a + k0;
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++, from += step_a) {
            if (!ALL_THERE && At::ax() >= left)
                slice.no_a(i);
            else if (ALL_THERE || i * At::A_ROWS < rows)
                slice.a(i, from);
        }
        from = b + k0 * p.grid.n;
#pragma unroll
        for (int i = 0; i < At::B_COUNT; i++, from += step_b) {
            if (!ALL_THERE && At::by() + i * At::B_ROWS >= left)
                slice.no_b(i);
            else if (ALL_THERE || inside)
                slice.b(i, from);
        }
    }
};

template <class E> DEVICE bool wide(const Matmul &p) {
    constexpr int BYTES = 4 * (int)sizeof(E);
    return p.k % 4 == 0 && p.grid.n % 4 == 0 && aligned(p.a, BYTES) && aligned(p.b, BYTES) &&
           aligned(p.grid.out, BYTES);
}

template <class T, class E> DEVICE void matmul(const Matmul &p) {
    typedef Memory<T, NoTable> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.grid, block_index());
    if (wide<E>(p)) {
        const Matrices<T, E, true> source(p, share);
        contract<T>(p.grid, share, source, memory);
    } else {
        const Matrices<T, E, false> source(p, share);
        contract<T>(p.grid, share, source, memory);
    }
}

// ------------------------------------------------------------------------------------- one row or one column

// M = 1: a thread has one column and one chunk, a warp 32 neighbouring columns; B is read once.
// N = 1: a lane has one row and one chunk; a warp transposes 32 x 32 of A at a time in shared memory.
// In both cases a chunk's result goes to `out` if it is the only one, else to partial[chunk].
struct Vector {
    i64 batches, length, other, chunks; // `other` is N or M
    const void *a, *b;
    void *out;
};

constexpr int VECTOR_THREADS = 128;

// A chunk's result, rounded if it is the only one.
template <class E> DEVICE void put_chunk(const Vector &p, i64 place, float acc) {
    if (p.chunks == 1)
        ((E *)p.out)[place] = narrowed<E>(acc);
    else
        ((float *)p.out)[place] = acc;
}

template <class E> DEVICE void row_times_matrix(const Vector &p) {
    const i64 strips = (p.other + VECTOR_THREADS - 1) / VECTOR_THREADS;
    const i64 n = block_index() % strips * VECTOR_THREADS + thread_index();
    const i64 batch = block_index() / strips % p.batches, chunk = block_index() / strips / p.batches;
    if (n >= p.other) return;
    const i64 begin = chunk * CHUNK, end = min_i64(begin + CHUNK, p.length);
    const E *a = (const E *)p.a + batch * p.length, *b = (const E *)p.b + batch * p.length * p.other + n;
    float acc = minus_zero();
#pragma unroll 16
    for (i64 k = begin; k < end; k++) acc = fma_rn(widened(a[k]), widened(b[k * p.other]), acc);
    put_chunk<E>(p, (chunk * p.batches + batch) * p.other + n, acc);
}

template <class E> DEVICE void matrix_times_column(const Vector &p) {
    struct Turned {
        float a[VECTOR_THREADS / WARP][WARP][WARP + 1];
    };
    SHARED(Turned, turned);
    const int warp = thread_index() / WARP, lane = thread_index() % WARP;
    const i64 strips = (p.other + VECTOR_THREADS - 1) / VECTOR_THREADS;
    const i64 m0 = block_index() % strips * VECTOR_THREADS + warp * WARP;
    const i64 batch = block_index() / strips % p.batches, chunk = block_index() / strips / p.batches;
    const i64 begin = chunk * CHUNK, end = min_i64(begin + CHUNK, p.length);
    const E *a = (const E *)p.a + batch * p.other * p.length, *b = (const E *)p.b + batch * p.length;
    float acc = minus_zero();
    for (i64 k0 = begin; k0 < end; k0 += WARP) {
        sync_warp(); // the last tile has been read
#pragma unroll 8
        for (int i = 0; i < WARP; i++) // NOTE: reads beyond the last row or k are not used
            turned.a[warp][i][lane] =
                widened(a[min_i64(m0 + i, p.other - 1) * p.length + min_i64(k0 + lane, end - 1)]);
        sync_warp();
        const int count = (int)min_i64(WARP, end - k0);
#pragma unroll 8
        for (int i = 0; i < count; i++) acc = fma_rn(turned.a[warp][lane][i], widened(b[k0 + i]), acc);
    }
    if (m0 + lane < p.other) put_chunk<E>(p, (chunk * p.batches + batch) * p.other + m0 + lane, acc);
}

// --------------------------------------------------------------------------------------------------- split-K

// out = partial[0] + partial[1] + ..., from the left. Without chunks (K = 0) it is -0.
struct Chunks {
    i64 elements, chunks;
    const float *partial;
    void *out;
};

template <class E> DEVICE void add_chunks(const Chunks &p) {
    for (i64 i = global_thread(); i < p.elements; i += global_threads()) {
        float total = minus_zero(); // -0 + chunk 0 is chunk 0
#pragma unroll 4
        for (i64 c = 0; c < p.chunks; c++) total = add_rn(total, p.partial[c * p.elements + i]);
        ((E *)p.out)[i] = narrowed<E>(total);
    }
}

#define MATMUL(suffix, E)                                                                                    \
    KERNEL(matmul##suffix##_large, Matmul, Large::THREADS, 2) {                                              \
        matmul<Large, E>(p);                                                                                 \
    }                                                                                                        \
    KERNEL(matmul##suffix##_medium, Matmul, Medium::THREADS, 3) {                                            \
        matmul<Medium, E>(p);                                                                                \
    }                                                                                                        \
    KERNEL(matmul##suffix##_small, Matmul, Small::THREADS, 8) {                                              \
        matmul<Small, E>(p);                                                                                 \
    }                                                                                                        \
    KERNEL(row_times_matrix##suffix, Vector, VECTOR_THREADS, 8) {                                            \
        row_times_matrix<E>(p);                                                                              \
    }                                                                                                        \
    KERNEL(matrix_times_column##suffix, Vector, VECTOR_THREADS, 8) {                                         \
        matrix_times_column<E>(p);                                                                           \
    }                                                                                                        \
    KERNEL(add_chunks##suffix, Chunks, 256, 4) {                                                             \
        add_chunks<E>(p);                                                                                    \
    }

#endif
