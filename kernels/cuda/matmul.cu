// mm and bmm: tiles for matrices, other kernels for a single row or column; and the second half of every split-K.

#include "gemm.cuh"

// C[b, m, n] = contraction of A[b, m, :] and B[b, :, n], all row-major.
struct Matmul {
    Grid grid;
    i64 k;
    const float *a, *b;
};

template <class T> struct Matrices {
    static constexpr bool MASKED = false;
    struct Table {};
    const float *a, *b; // of this batch
    i64 m, n, k, row, column, batch;
    bool wide_a, wide_b; // rows start at multiples of 16 bytes

    DEVICE_MEMBER Matrices(const Matmul &p, const Share &s)
        : a(p.a + s.batch * p.grid.m * p.k), b(p.b + s.batch * p.k * p.grid.n), m(p.grid.m), n(p.grid.n),
          k(p.k), row(s.row), column(s.column), batch(s.batch) {
        wide_a = k % 4 == 0 && aligned(a, 16);
        wide_b = n % 4 == 0 && aligned(b, 16);
    }
    DEVICE_MEMBER i64 begin(i64 chunk) const { return min_i64(chunk * CHUNK, k); }
    DEVICE_MEMBER void prepare(Table &, i64, i64) const {}
    DEVICE_MEMBER i64 row_place(i64 r) const { return (batch * m + r) * n; }
    DEVICE_MEMBER i64 column_place(i64 c) const { return c < n ? c : -1; }

    // NOTE: rows and columns beyond the matrix read its last ones instead; their results are not stored.
    DEVICE_MEMBER void load(Stage<T> &stage, const Table &, i64, i64 k0, i64 end) const {
        const int t = thread_index();
        if (wide_a) {
#pragma unroll
            for (int i = t; i < T::BM * DEPTH / 4; i += T::THREADS) {
                const int y = i / (DEPTH / 4), x = i % (DEPTH / 4) * 4;
                if (k0 + x < end)
                    copy_async<16>(&stage.a[y][x], a + min_i64(row + y, m - 1) * k + k0 + x);
                else
                    *(Four *)&stage.a[y][x] = {minus_zero(), minus_zero(), minus_zero(), minus_zero()};
            }
        } else {
            const int x = t % DEPTH;
#pragma unroll
            for (int y = t / DEPTH; y < T::BM; y += T::THREADS / DEPTH) {
                if (k0 + x < end)
                    copy_async<4>(&stage.a[y][x], a + min_i64(row + y, m - 1) * k + k0 + x);
                else
                    stage.a[y][x] = minus_zero();
            }
        }
        if (wide_b) {
#pragma unroll
            for (int i = t; i < T::BN * DEPTH / 4; i += T::THREADS) {
                const int y = i / (T::BN / 4), x = i % (T::BN / 4) * 4;
                if (k0 + y < end)
                    copy_async<16>(&stage.b[y][x], b + (k0 + y) * n + min_i64(column + x, n - 4));
                else
                    *(Four *)&stage.b[y][x] = {0.0f, 0.0f, 0.0f, 0.0f};
            }
        } else {
            const int x = t % T::BN;
#pragma unroll
            for (int y = t / T::BN; y < DEPTH; y += T::THREADS / T::BN) {
                if (k0 + y < end)
                    copy_async<4>(&stage.b[y][x], b + (k0 + y) * n + min_i64(column + x, n - 1));
                else
                    stage.b[y][x] = 0.0f;
            }
        }
    }
};

template <class T> DEVICE void matmul(const Matmul &p) {
    const Share share = share_of<T>(p.grid);
    Matrices<T> source(p, share);
    contract<T>(p.grid, share, source);
}

KERNEL(matmul_large, Matmul, Large::THREADS, 2) { matmul<Large>(p); }
KERNEL(matmul_medium, Matmul, Medium::THREADS, 4) { matmul<Medium>(p); }
KERNEL(matmul_small, Matmul, Small::THREADS, 8) { matmul<Small>(p); }

// ---------------------------------------------------------------------------------------- one row or one column

// M = 1: a thread has one column and one chunk, a warp 32 neighbouring columns; B is read once.
// N = 1: a lane has one row and one chunk; a warp reads 32 x 32 of A at a time and turns it in shared memory.
// Either way every chunk's result goes to `out` if it is the only one, else to partial[chunk].
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
        for (int i = 0; i < WARP; i++) // NOTE: beyond the last row or k, what is read is not used
            turned.a[warp][i][lane] = a[min_i64(m0 + i, p.other - 1) * p.length + min_i64(k0 + lane, end - 1)];
        sync_warp();
        const int count = (int)min_i64(WARP, end - k0);
#pragma unroll 8
        for (int i = 0; i < count; i++) acc = fma_rn(turned.a[warp][lane][i], b[k0 + i], acc);
    }
    if (m0 + lane < p.other) p.out[(chunk * p.batches + batch) * p.other + m0 + lane] = acc;
}

// --------------------------------------------------------------------------------------------------- split-K

// out = partial[0] + partial[1] + ..., from the left. No chunks at all (K = 0) is -0.
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
