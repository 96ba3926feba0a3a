// mm and bmm of bf16 in the mode tc16, and single blocks, by which a device is compared with the rule.

#include "tc16_gemm.cuh"

// Rows of A and B are so many elements apart: as many as they have, or more, of which those of A are zeros.
struct CoreMatmul {
    Grid grid;
    i64 k;
    const void *a, *b;
    i64 pitch_a, pitch_b;
};

// WIDE: all rows of A and B start at multiples of eight elements.
template <class T, bool WIDE> struct CoreMatrices {
    static constexpr int OF_A = CORE_DEPTH / PIECE, OF_B = T::BN / PIECE; // pieces of a row
    static constexpr int A_ROWS = T::THREADS / OF_A, B_ROWS = T::THREADS / OF_B;
    static constexpr int UNROLLED =
        WIDE ? CORE_DEPTH : 1; // single elements take registers enough for a piece

    const CoreMatmul &p;
    i64 batch, row, column; // of this thread's first pieces
    int k_of_a, k_of_b;
    bool pairs;
    const bf16 *a, *b; // those of k 0

    DEVICE_MEMBER CoreMatrices(const CoreMatmul &p_, const Share &s) : p(p_), batch(s.batch) {
        row = s.row + thread_index() / OF_A, k_of_a = thread_index() % OF_A * PIECE;
        column = s.column + thread_index() % OF_B * PIECE, k_of_b = thread_index() / OF_B;
        const void *out = p.grid.total ? (void *)p.grid.total : p.grid.out;
        pairs = p.grid.n % 2 == 0 && aligned(out, 2 * sizeof(float));
        a = (const bf16 *)p.a + (batch * p.grid.m + row) * p.pitch_a + k_of_a;
        b = (const bf16 *)p.b + (batch * p.k + k_of_b) * p.pitch_b + column;
    }
    DEVICE_MEMBER i64 begin(i64 chunk) const { return min_i64(chunk * CHUNK, p.k); }
    DEVICE_MEMBER i64 start_of_c() const { return batch * p.grid.m * p.grid.n; }
    DEVICE_MEMBER i64 row_step() const { return p.grid.n; }
    DEVICE_MEMBER i64 column_place(i64 c) const { return c < p.grid.n ? c : -1; }

    DEVICE_MEMBER void load(CoreStage<T> &stage, i64 k0, i64 end) const {
        const i64 step_a = opaque(A_ROWS * p.pitch_a), step_b = opaque(B_ROWS * p.pitch_b); // see matmul.cuh
        const bf16 *from = a + k0;
        const int of_k = (int)(end - k0) - k_of_a, of_n = (int)min_i64(p.grid.n - column, PIECE);
#pragma unroll(UNROLLED)
        for (int i = 0; i < T::BM / A_ROWS; i++, from += step_a) {
            const int there = row + i * A_ROWS < p.grid.m ? of_k : 0;
            copy(stage.piece_of_a(thread_index() / OF_A + i * A_ROWS, thread_index() % OF_A), from, there);
        }
        from = b + k0 * p.pitch_b;
#pragma unroll(UNROLLED)
        for (int i = 0; i < CORE_DEPTH / B_ROWS; i++, from += step_b) {
            const int k = k_of_b + i * B_ROWS;
            copy(stage.piece_of_b(k, thread_index() % OF_B), from, k0 + k < end ? of_n : 0);
        }
    }
    // Copy a piece of which `there` elements exist, or none.
    static DEVICE_MEMBER void copy(bf16 *to, const bf16 *from, int there) {
        if (WIDE && there > 0) {
            copy_async<PIECE * sizeof(bf16)>(to, from);
            return;
        }
        Pack<bf16, PIECE> piece;
#pragma unroll
        for (int v = 0; v < PIECE; v++) piece.at[v] = !WIDE && v < there ? from[v] : 0;
        *(Pack<bf16, PIECE> *)to = piece;
    }
};

template <class T> DEVICE void matmul_on_cores(const CoreMatmul &p) {
    typedef CoreMemory<T> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.grid, block_index());
    constexpr int BYTES = PIECE * (int)sizeof(bf16);
    if (p.pitch_a % PIECE == 0 && p.pitch_b % PIECE == 0 && aligned(p.a, BYTES) && aligned(p.b, BYTES)) {
        const CoreMatrices<T, true> source(p, share);
        contract_on_cores<T>(p.grid, share, source, memory);
    } else {
        const CoreMatrices<T, false> source(p, share);
        contract_on_cores<T>(p.grid, share, source, memory);
    }
}

KERNEL(tc16_matmul_large, CoreMatmul, LargeCores::THREADS, 1) {
    matmul_on_cores<LargeCores>(p);
}
KERNEL(tc16_matmul_small, CoreMatmul, SmallCores::THREADS, 3) {
    matmul_on_cores<SmallCores>(p);
}

// Copy rows to others that are a multiple of eight elements long, with zeros at their ends.
struct Padding {
    i64 rows, width, pitch;
    const bf16 *from;
    bf16 *to;
};
KERNEL(tc16_pad, Padding, 256, 4) {
    const i64 pieces = p.pitch / PIECE;
    for (i64 i = global_thread(); i < p.rows * pieces; i += global_threads()) {
        const i64 row = i / pieces, first = (i - row * pieces) * PIECE;
        Pack<bf16, PIECE> piece;
#pragma unroll
        for (int v = 0; v < PIECE; v++)
            piece.at[v] = first + v < p.width ? p.from[row * p.width + first + v] : 0;
        *(Pack<bf16, PIECE> *)(p.to + row * p.pitch + first) = piece;
    }
}

// d[i] = c[i] + the sum of a[i][k] b[i][k] over k < 16. A warp has eight of them, each on the diagonal of a
// product of matrices whose other elements are not used.
struct Blocks {
    i64 count;
    const bf16 *a, *b;
    const float *c;
    float *d;
};
constexpr int BLOCKS_THREADS = 128, BLOCKS_AT_ONCE = 8;

KERNEL(tc16_blocks, Blocks, BLOCKS_THREADS, 1) {
    const int lane = thread_index() % WARP, q = lane % 4;
    const i64 first = global_thread() / WARP * BLOCKS_AT_ONCE, i = first + lane / 4;
    if (first >= p.count) return;
    u32 a[4] = {0, 0, 0, 0}, b[2] = {0, 0};
    if (i < p.count)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const i64 k = i * TC16_TERMS + 8 * half + 2 * q;
            a[2 * half] = (u32)p.a[k + 1] << 16 | p.a[k];
            b[half] = (u32)p.b[k + 1] << 16 | p.b[k];
        }
    const bool own = lane / 8 == q && i < p.count, odd = lane / 4 % 2;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    if (own) (odd ? c[1] : c[0]) = p.c[i];
    multiply_16x8x16(c, a, b);
    if (own) p.d[i] = odd ? c[1] : c[0];
}
