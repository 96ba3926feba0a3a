// The contraction of the mode tc16 (docs/opset.md, section 2): a block computes one tile of C on tensor
// cores.
//
//     total = -0;   for each chunk of k (512, or the rest):
//         acc = +0;   for each slice of 32 k, in two blocks of 16:   acc = block(a, b; acc)
//         total = total + acc                           or, with split-K, the workspace's [chunk] = acc
//
// A slice is in shared memory as bf16. Copies are two slices ahead; a chunk's end does not stop them. Numbers
// that are not there are zeros, which are no terms: where both factors of a term are absent, or the other is
// finite, nothing changes. A Source (tc16_matmul.cu, tc16_conv.cuh) provides
//     begin(c)                    the first k of chunk c, which ends where the next begins; K >= 1
//     load(stage, k, end)         copies a slice, all threads together; zeros from `end` on
//     start_of_c() + m row_step() + column_place(n)
//                                 the place of C[m, n]; the last is negative without a column n
//     pairs                       with a column of even number the next one is there, too, its neighbour, and
//                                 they are aligned for being written at once
//
// NOTE: the running totals begin at -0, which is neutral, rather than with the first chunk, for which the
// compiler would keep two versions of the loop, and spill.

#ifndef REPOPS_TC16_GEMM_CUH
#define REPOPS_TC16_GEMM_CUH

#include "gemm.cuh"

constexpr int CORE_DEPTH = 32, STAGES = 3;
constexpr int PIECE = 8; // neighbours that are copied and read at once: 16 bytes

// WARPS_M x WARPS_N warps, each with TM x TN products of 16 rows and 8 columns.
template <int WARPS_M_, int WARPS_N_, int TM_, int TN_> struct CoreTile {
    static constexpr int TM = TM_, TN = TN_, WARPS_N = WARPS_N_, WARP_M = 16 * TM, WARP_N = 8 * TN;
    static constexpr int BM = WARPS_M_ * WARP_M, BN = WARPS_N * WARP_N, THREADS = WARPS_M_ * WARPS_N * WARP;
};
typedef CoreTile<2, 4, 4, 4> LargeCores; // 128 x 128, 256 threads
typedef CoreTile<2, 2, 2, 4> SmallCores; // 64 x 64, 128 threads

// INVARIANT: the places of eight rows' pieces of one k (A), or of eight k's pieces of some columns (B), which
// a warp reads at once, share no bank: pieces are exchanged within groups.
template <class T> struct alignas(16) CoreStage {
    bf16 a[T::BM * CORE_DEPTH], b[CORE_DEPTH * T::BN];

    DEVICE_MEMBER bf16 *piece_of_a(int row, int piece) {
        return a + row * CORE_DEPTH + (piece ^ (row / 2 & 3)) * PIECE;
    }
    DEVICE_MEMBER bf16 *piece_of_b(int k, int piece) { return b + k * T::BN + (piece ^ (k & 7)) * PIECE; }
};
template <class T> struct CoreMemory {
    CoreStage<T> stage[STAGES];
};

template <class T> struct CoreSums {
    float at[T::TM][T::TN][4];

    DEVICE_MEMBER void fill(float x) {
#pragma unroll
        for (int i = 0; i < T::TM; i++)
#pragma unroll
            for (int j = 0; j < T::TN; j++)
#pragma unroll
                for (int v = 0; v < 4; v++) at[i][j][v] = x;
    }
    DEVICE_MEMBER void add(const CoreSums &other) {
#pragma unroll
        for (int i = 0; i < T::TM; i++)
#pragma unroll
            for (int j = 0; j < T::TN; j++)
#pragma unroll
                for (int v = 0; v < 4; v++) at[i][j][v] = add_rn(at[i][j][v], other.at[i][j][v]);
    }
};

template <class T> DEVICE int warp_row() {
    return thread_index() / WARP / T::WARPS_N * T::WARP_M;
}
template <class T> DEVICE int warp_column() {
    return thread_index() / WARP % T::WARPS_N * T::WARP_N;
}

template <class T> DEVICE void multiply_slice(CoreStage<T> &s, CoreSums<T> &acc) {
    const int lane = thread_index() % WARP, row = lane % 8 + lane / 8 % 2 * 8, half = lane / 16;
#pragma unroll
    for (int k = 0; k < CORE_DEPTH; k += TC16_TERMS) {
        u32 a[T::TM][4], b[T::TN / 2][4];
#pragma unroll
        for (int i = 0; i < T::TM; i++)
            load_8x8x4<false>(a[i], s.piece_of_a(warp_row<T>() + 16 * i + row, k / PIECE + half));
#pragma unroll
        for (int j = 0; j < T::TN / 2; j++) // two products side by side
            load_8x8x4<true>(b[j], s.piece_of_b(k + row, warp_column<T>() / PIECE + 2 * j + half));
#pragma unroll
        for (int i = 0; i < T::TM; i++)
#pragma unroll
            for (int j = 0; j < T::TN; j++) {
                const u32 of_b[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
                multiply_16x8x16(acc.at[i][j], a[i], of_b);
            }
    }
}

// Write results to `out`, of bf16 if `narrow`, else of f32.
template <class T, class Source>
DEVICE void put_sums(const Source &source, const Share &share, i64 m, const CoreSums<T> &sums, void *out,
                     bool narrow) {
    const int lane = thread_index() % WARP;
    const i64 row = share.row + warp_row<T>() + lane / 4;
    const i64 start = source.start_of_c() + row * source.row_step(), step = opaque(8 * source.row_step());
    const int rest = (int)min_i64(m - row, T::BM);
#pragma unroll
    for (int j = 0; j < T::TN; j++) {
        const i64 column = share.column + warp_column<T>() + 8 * j + lane % 4 * 2;
        const i64 left = source.column_place(column);
        const i64 right = source.column_place(column + 1);
        i64 to = start;
#pragma unroll
        for (int i = 0; i < 2 * T::TM; i++, to += step) {
            if (8 * i >= rest) continue;
            const float x = sums.at[i / 2][j][i % 2 * 2], y = sums.at[i / 2][j][i % 2 * 2 + 1];
            if (source.pairs) {
                if (left < 0) continue;
                if (narrow)
                    *(Pack<bf16, 2> *)((bf16 *)out + to + left) = {to_bf16(x), to_bf16(y)};
                else
                    *(Pack<float, 2> *)((float *)out + to + left) = {x, y};
            } else if (narrow) {
                if (left >= 0) ((bf16 *)out)[to + left] = to_bf16(x);
                if (right >= 0) ((bf16 *)out)[to + right] = to_bf16(y);
            } else {
                if (left >= 0) ((float *)out)[to + left] = x;
                if (right >= 0) ((float *)out)[to + right] = y;
            }
        }
    }
}

// A slice's place: k of a chunk. A chunk without terms has one slice.
struct Position {
    i64 chunk, k, end;

    template <class Source>
    DEVICE_MEMBER Position(const Source &source, i64 first)
        : chunk(first), k(source.begin(first)), end(source.begin(first + 1)) {}
    DEVICE_MEMBER bool ends_chunk() const { return k + CORE_DEPTH >= end; }
    template <class Source> DEVICE_MEMBER void next(const Source &source) {
        if (!ends_chunk())
            k += CORE_DEPTH;
        else
            k = end, end = source.begin(++chunk + 1);
    }
};

template <class T, class Source>
DEVICE void contract_on_cores(const Grid &g, const Share &share, const Source &source,
                              CoreMemory<T> &memory) {
    CoreSums<T> acc, total;
    acc.fill(0.0f), total.fill(minus_zero());
    Position now(source, share.first_chunk), ahead = now;
    const auto load = [&](int stage) {
        if (ahead.chunk < share.end_chunk) {
            source.load(memory.stage[stage], ahead.k, ahead.end);
            ahead.next(source);
        }
        copies_end_group(); // also of nothing, so that their number is that of slices
    };
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) load(stage);
#pragma unroll 1
    for (int stage = 0; now.chunk < share.end_chunk; now.next(source)) {
        copies_wait_but<STAGES - 2>();
        sync_block(); // the slice is there, and no thread reads the stage that is loaded next
        load(stage ? stage - 1 : STAGES - 1);
        multiply_slice<T>(memory.stage[stage], acc);
        stage = stage + 1 < STAGES ? stage + 1 : 0;
        if (!now.ends_chunk()) continue;
        total.add(acc);
        acc.fill(0.0f);
        if (!g.partial && now.chunk + 1 < share.end_chunk) continue;
        void *out = g.partial ? g.partial + now.chunk * g.out_elements : g.total ? (void *)g.total : g.out;
        put_sums<T>(source, share, g.m, total, out, !g.partial && !g.total);
        total.fill(minus_zero());
    }
    copies_wait();
}

#endif
