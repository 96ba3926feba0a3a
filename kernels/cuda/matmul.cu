// mm and bmm: tiles for matrices, other kernels for a single row or column, and the second half of split-K.

#include "gemm.cuh"

// C[b, m, n] = contraction of A[b, m, :] and B[b, :, n], all row-major.
struct Matmul {
    Grid grid;
    i64 k;
    const float *a, *b;
};

struct NoTable {};

// WIDE: all rows of A and B start at multiples of 16 bytes.
template <class T, bool WIDE> struct Matrices {
    static constexpr bool MASKED = false;
    typedef NoTable Table;
    // Floats per copy; copies per row of A's slice, and of B's; rows that all threads fetch at once.
    static constexpr int V = WIDE ? 4 : 1, A_COPIES = DEPTH / V, B_COPIES = T::BN / V;
    static constexpr int A_ROWS = T::THREADS / A_COPIES, B_ROWS = T::THREADS / B_COPIES;

    const Matmul &p;
    i64 batch;
    const float *a, *b; // this thread's first copy of the first slice
    int rows;           // rows of A from this thread's first row on
    bool inside;        // this thread's column of B exists
    bool full;          // the whole tile is inside

    DEVICE_MEMBER Matrices(const Matmul &p_, const Share &s) : p(p_), batch(s.batch) {
        const int t = thread_index();
        const i64 row = s.row + t / A_COPIES, column = s.column + t % B_COPIES * V;
        a = p.a + (batch * p.grid.m + row) * p.k + t % A_COPIES * V;
        b = p.b + (batch * p.k + t / B_COPIES) * p.grid.n + column;
        rows = (int)min_i64(p.grid.m - row, T::BM);
        inside = column < p.grid.n;
        full = s.row + T::BM <= p.grid.m && s.column + T::BN <= p.grid.n;
    }
    DEVICE_MEMBER i64 begin(i64 chunk) const { return min_i64(chunk * CHUNK, p.k); }
    DEVICE_MEMBER void prepare(Table &, i64, i64) const {}
    DEVICE_MEMBER i64 start_of_c() const { return batch * p.grid.m * p.grid.n; }
    DEVICE_MEMBER i64 row_step() const { return p.grid.n; }
    DEVICE_MEMBER i64 column_place(i64 c) const { return c < p.grid.n ? c : -1; }

    DEVICE_MEMBER void load(Stage<T> &stage, const Table &, i64, i64 k0, i64 end) const {
        if (full && end - k0 >= DEPTH)
            fetch<true>(stage, k0, DEPTH);
        else
            fetch<false>(stage, k0, (int)min_i64(end - k0, DEPTH));
    }
    // NOTE: rows and columns beyond the matrix are not fetched; products with other data in their place are
    // not stored.
    template <bool ALL_THERE> DEVICE_MEMBER void fetch(Stage<T> &stage, i64 k0, int left) const {
        const u32 t = (u32)thread_index(); // unsigned: the divisions are shifts
        const int ay = (int)(t / A_COPIES), ax = (int)(t % A_COPIES) * V;
        const int by = (int)(t / B_COPIES), bx = (int)(t % B_COPIES) * V;
        const Pack<float, V> absent_a = splat<V>(minus_zero()), absent_b = splat<V>(0.0f);
        // NOTE: opaque, or the compiler keeps the multiples of the row length in registers and spills.
        const i64 step_a = opaque(A_ROWS * p.k), step_b = opaque(B_ROWS * p.grid.n);
        const float *from = a + k0;
#pragma unroll
        for (int y = 0; y < T::BM; y += A_ROWS, from += step_a) {
            float *to = &stage.a[ay + y][ax];
            if (!ALL_THERE && ax >= left)
                *(Pack<float, V> *)to = absent_a;
            else if (ALL_THERE || y < rows)
                copy_async<4 * V>(to, from);
        }
        from = b + k0 * p.grid.n;
#pragma unroll
        for (int y = 0; y < DEPTH; y += B_ROWS, from += step_b) {
            float *to = &stage.b[by + y][bx];
            if (!ALL_THERE && by + y >= left)
                *(Pack<float, V> *)to = absent_b;
            else if (ALL_THERE || inside)
                copy_async<4 * V>(to, from);
        }
    }
};

template <class T> DEVICE void matmul(const Matmul &p) {
    typedef Memory<T, NoTable> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.grid);
    if (p.k % 4 == 0 && p.grid.n % 4 == 0 && aligned(p.a, 16) && aligned(p.b, 16)) {
        const Matrices<T, true> source(p, share);
        contract<T>(p.grid, share, source, memory);
    } else {
        const Matrices<T, false> source(p, share);
        contract<T>(p.grid, share, source, memory);
    }
}

KERNEL(matmul_large, Matmul, Large::THREADS, 2) {
    matmul<Large>(p);
}
KERNEL(matmul_medium, Matmul, Medium::THREADS, 3) {
    matmul<Medium>(p);
}
KERNEL(matmul_small, Matmul, Small::THREADS, 8) {
    matmul<Small>(p);
}

// ------------------------------------------------------------------------------------- one row or one column

// M = 1: a thread has one column and one chunk, a warp 32 neighbouring columns; B is read once.
// N = 1: a lane has one row and one chunk; a warp transposes 32 x 32 of A at a time in shared memory.
// In both cases a chunk's result goes to `out` if it is the only one, else to partial[chunk].
struct Vector {
    i64 batches, length, other, chunks; // `other` is N or M
    const float *a, *b;
    float *out;
};

constexpr int VECTOR_THREADS = 128;

KERNEL(row_times_matrix, Vector, VECTOR_THREADS, 8) {
    const i64 strips = (p.other + VECTOR_THREADS - 1) / VECTOR_THREADS;
    const i64 n = block_index() % strips * VECTOR_THREADS + thread_index();
    const i64 batch = block_index() / strips % p.batches, chunk = block_index() / strips / p.batches;
    if (n >= p.other) return;
    const i64 begin = chunk * CHUNK, end = min_i64(begin + CHUNK, p.length);
    const float *a = p.a + batch * p.length, *b = p.b + batch * p.length * p.other + n;
    float acc = minus_zero();
#pragma unroll 16
    for (i64 k = begin; k < end; k++) acc = fma_rn(a[k], b[k * p.other], acc);
    p.out[(chunk * p.batches + batch) * p.other + n] = acc;
}

KERNEL(matrix_times_column, Vector, VECTOR_THREADS, 8) {
    struct Turned {
        float a[VECTOR_THREADS / WARP][WARP][WARP + 1];
    };
    SHARED(Turned, turned);
    const int warp = thread_index() / WARP, lane = thread_index() % WARP;
    const i64 strips = (p.other + VECTOR_THREADS - 1) / VECTOR_THREADS;
    const i64 m0 = block_index() % strips * VECTOR_THREADS + warp * WARP;
    const i64 batch = block_index() / strips % p.batches, chunk = block_index() / strips / p.batches;
    const i64 begin = chunk * CHUNK, end = min_i64(begin + CHUNK, p.length);
    const float *a = p.a + batch * p.other * p.length, *b = p.b + batch * p.length;
    float acc = minus_zero();
    for (i64 k0 = begin; k0 < end; k0 += WARP) {
        sync_warp(); // the last tile has been read
#pragma unroll 8
        for (int i = 0; i < WARP; i++) // NOTE: reads beyond the last row or k are not used
            turned.a[warp][i][lane] =
                a[min_i64(m0 + i, p.other - 1) * p.length + min_i64(k0 + lane, end - 1)];
        sync_warp();
        const int count = (int)min_i64(WARP, end - k0);
#pragma unroll 8
        for (int i = 0; i < count; i++) acc = fma_rn(turned.a[warp][lane][i], b[k0 + i], acc);
    }
    if (m0 + lane < p.other) p.out[(chunk * p.batches + batch) * p.other + m0 + lane] = acc;
}

// --------------------------------------------------------------------------------------------------- split-K

// out = partial[0] + partial[1] + ..., from the left. Without chunks (K = 0) it is -0.
struct Chunks {
    i64 elements, chunks;
    const float *partial;
    float *out;
};

KERNEL(add_chunks, Chunks, 256, 4) {
    for (i64 i = global_thread(); i < p.elements; i += global_threads()) {
        float total = minus_zero(); // -0 + chunk 0 is chunk 0
#pragma unroll 4
        for (i64 c = 0; c < p.chunks; c++) total = add_rn(total, p.partial[c * p.elements + i]);
        p.out[i] = total;
    }
}
