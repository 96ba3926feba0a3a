// The contraction behind every matrix product and convolution: a block computes one tile of C, chunk by
// chunk.
//
//     for each chunk of k (512, or the rest):
//         for each slice of 16 k:      A [BM x 16] and B [16 x BN] to shared memory (slice.cuh), one ahead
//             acc[i][j] = fma(a, b, acc[i][j])        TM x TN chains in registers, k ascending, from -0
//         C = acc (first chunk)  or  C = C + acc      by the same thread, so C itself holds the running total
//
// If C is bf16, a workspace holds the running total until the last chunk, whose sum is rounded to C.
//
// With split-K each block takes a run of chunks and leaves every chunk's result in a workspace; `add_chunks`
// then adds them in ascending order. In both cases the order is that of docs/opset.md, section 2.
//
// A Source (matmul.cu, conv.cu) provides A and B:
//     MASKED, Table, Element                 can a single (k, column) be absent? its data in shared memory;
//                                            what A, B and C consist of
//     FOURS                                  four columns of C, from a multiple of 4 on, are neighbours
//                                            and as aligned as four elements can be
//     Slice                                  how it copies
//     begin(c)                               the first k of chunk c, which ends where the next begins
//     prepare(table, begin, end)             called by all threads before the slices of a chunk
//     load(slice, table, begin, k, end)      copies a slice; from `end` on, a = -0 and b = +0: no trace
//     start_of_c() + m row_step() + column_place(n)
//                                            the place of C[m, n]; the last is negative without a column n

#ifndef REPOPS_GEMM_CUH
#define REPOPS_GEMM_CUH

#include "slice.cuh"

constexpr int CHUNK = 512;

// WARPS_M x WARPS_N warps of 8 x 4 lanes, each lane with TM x TN results. Lane (y, x) of a warp has rows y +
// 8 i and columns 4 x + 16 j + (0..3), so a warp's reads of A and B have no bank conflicts.
template <int WARPS_M, int WARPS_N_, int TM_, int TN_> struct Tile {
    static constexpr int TM = TM_, TN = TN_, WARPS_N = WARPS_N_, WARP_N = 4 * TN;
    static constexpr int BM = WARPS_M * 8 * TM, BN = WARPS_N * WARP_N, THREADS = WARPS_M * WARPS_N * WARP;
};
typedef Tile<2, 4, 8, 8> Large;  // 128 x 128, 256 threads
typedef Tile<2, 4, 4, 4> Medium; // 64 x 64, 256 threads
typedef Tile<1, 2, 4, 4> Small;  // 32 x 32, 64 threads

// The division of the work: block -> (tile of rows, tile of columns, split, batch), the first varying
// fastest.
struct Grid {
    i64 m, n; // of one batch
    i64 tiles_m, tiles_n, splits;
    i64 chunks; // of K; each split does ceil(chunks / splits)
    i64 out_elements;
    void *out;
    float *total;   // running totals; C itself if it is f32
    float *partial; // [chunk][element of out]; null without split-K
};
struct Share {
    i64 row, column, first_chunk, end_chunk, batch;
};
template <class T> DEVICE Share share_of(const Grid &g, i64 at) {
    Share s;
    s.row = at % g.tiles_m * T::BM;
    at /= g.tiles_m;
    s.column = at % g.tiles_n * T::BN;
    at /= g.tiles_n;
    const i64 chunks = (g.chunks + g.splits - 1) / g.splits;
    s.first_chunk = at % g.splits * chunks;
    s.end_chunk = min_i64(s.first_chunk + chunks, g.chunks);
    s.batch = at / g.splits;
    return s;
}

// This thread's first row and column in the tile.
template <class T> DEVICE int own_row() {
    return thread_index() / WARP / T::WARPS_N * 8 * T::TM + thread_index() % WARP / 4;
}
template <class T> DEVICE int own_column() {
    return thread_index() / WARP % T::WARPS_N * T::WARP_N + thread_index() % 4 * 4;
}

typedef Pack<float, 4> Four;

// One k: acc += a column of A times a row of B. Bit j % 4 + 16 (j / 4) of `exists`: column j exists. An
// absent term is skipped, which is equivalent to (-0, +0).
template <class T, bool MASKED>
DEVICE void multiply(const Four (&a)[T::TM], int k, const float *b_row, u32 exists,
                     float (&acc)[T::TM][T::TN]) {
    Four b[T::TN / 4];
#pragma unroll
    for (int j = 0; j < T::TN / 4; j++) b[j] = *(const Four *)(b_row + 16 * j);
#pragma unroll
    for (int j = 0; j < T::TN; j++) {
        if (MASKED && !(exists >> (j % 4 + 16 * (j / 4)) & 1)) continue;
#pragma unroll
        for (int i = 0; i < T::TM; i++) acc[i][j] = fma_rn(a[i].at[k], b[j / 4].at[j % 4], acc[i][j]);
    }
}

template <class T, bool MASKED> DEVICE void multiply_slice(const Stage<T> &s, float (&acc)[T::TM][T::TN]) {
    const int row = own_row<T>(), column = own_column<T>();
#pragma unroll 1
    for (int k = 0; k < DEPTH; k += 4) {
        Four a[T::TM];
#pragma unroll
        for (int i = 0; i < T::TM; i++) a[i] = *(const Four *)&s.a[row + 8 * i][k];
        if constexpr (MASKED) {
            u32 exists[4];
#pragma unroll
            for (int d = 0; d < 4; d++) exists[d] = s.exists[k + d][column / WARP];
            if ((exists[0] & exists[1] & exists[2] & exists[3]) !=
                ALL) { // the same for all lanes of the warp
#pragma unroll
                for (int d = 0; d < 4; d++)
                    multiply<T, true>(a, d, &s.b[k + d][column], exists[d] >> column % WARP, acc);
                continue;
            }
        }
#pragma unroll
        for (int d = 0; d < 4; d++) multiply<T, false>(a, d, &s.b[k + d][column], ALL, acc);
    }
}

// out = acc, or out = before + acc, through shared memory: one of the TM rows of each lane at a time, so that
// a thread has one column of C and a warp neighbouring ones.
template <class T> struct Rows {
    static constexpr int COUNT = T::BM / T::TM, PITCH = T::BN + 16; // 8 rows of each warp
    float at[COUNT][PITCH];
};
template <class T, class Out, class Source>
DEVICE void put(const Source &source, const Share &share, i64 m, const float *before, Out *out, Rows<T> &rows,
                const float (&acc)[T::TM][T::TN]) {
    constexpr int STEP = T::THREADS / T::BN;
    const int column = thread_index() % T::BN, first = thread_index() / T::BN;
    const int y = thread_index() / WARP / T::WARPS_N * 8 + thread_index() % WARP / 4;
    const i64 place = source.column_place(share.column + column);
    const int rest = (int)min_i64(m - share.row, T::BM);
    const i64 start = source.start_of_c() + share.row * source.row_step() + place;
#pragma unroll
    for (int i = 0; i < T::TM; i++) {
        // NOTE: opaque, or the compiler keeps the multiples of the row length in registers and spills.
        const i64 step = opaque(source.row_step());
        sync_block(); // the rows before have been read
#pragma unroll
        for (int j = 0; j < T::TN; j += 4)
            *(Four *)&rows.at[y][own_column<T>() + 4 * j] = {acc[i][j], acc[i][j + 1], acc[i][j + 2],
                                                             acc[i][j + 3]};
        sync_block();
#pragma unroll 4
        for (int at = first; at < Rows<T>::COUNT; at += STEP) {
            const int row = at / 8 * 8 * T::TM + at % 8 + 8 * i;
            if (place < 0 || row >= rest) continue;
            const i64 to = start + row * step;
            out[to] = narrowed<Out>(
                add_rn(before ? before[to] : minus_zero(), rows.at[at][column])); // -0 + acc is acc
        }
    }
}

// The same straight from registers, four columns at once; first all loads of AHEAD rows, then their stores.
template <class T, class Out, class Source>
DEVICE void put_fours(const Source &source, const Share &share, i64 m, const float *before, Out *out,
                      const float (&acc)[T::TM][T::TN]) {
    constexpr int AHEAD = 2, FOURS = T::TN / 4;
    const i64 column = share.column + own_column<T>(), row = share.row + own_row<T>();
    const i64 step = opaque(8 * source.row_step());
    const int rest = (int)min_i64(m - row, T::BM);
    bool there[FOURS];
#pragma unroll
    for (int j = 0; j < FOURS; j++) there[j] = source.column_place(column + 16 * j) >= 0;
    i64 to = source.start_of_c() + row * source.row_step() + column;
#pragma unroll
    for (int i = 0; i < T::TM; i += AHEAD, to += AHEAD * step) {
        Four old[AHEAD][FOURS];
#pragma unroll
        for (int d = 0; d < AHEAD; d++)
#pragma unroll
            for (int j = 0; j < FOURS; j++) {
                old[d][j] = splat<4>(minus_zero());
                if (before && there[j] && 8 * (i + d) < rest)
                    old[d][j] = *(const Four *)(before + to + d * step + 16 * j);
            }
#pragma unroll
        for (int d = 0; d < AHEAD; d++)
#pragma unroll
            for (int j = 0; j < FOURS; j++) {
                Pack<Out, 4> sum;
#pragma unroll
                for (int v = 0; v < 4; v++)
                    sum.at[v] = narrowed<Out>(add_rn(old[d][j].at[v], acc[i + d][4 * j + v]));
                if (there[j] && 8 * (i + d) < rest) *(Pack<Out, 4> *)(out + to + d * step + 16 * j) = sum;
            }
    }
}
template <class T, class Out, class Source>
DEVICE void put_either(const Source &source, const Share &share, i64 m, const float *before, Out *out,
                       Rows<T> &rows, const float (&acc)[T::TM][T::TN]) {
    if constexpr (Source::FOURS)
        put_fours<T>(source, share, m, before, out, acc);
    else
        put<T>(source, share, m, before, out, rows, acc);
}

template <class T, class Table> struct alignas(16) Memory {
    union {
        Stage<T> stage[2];
        Rows<T> rows;
    };
    Table table;
};

template <class T, class Source>
DEVICE void contract(const Grid &g, const Share &share, const Source &source,
                     Memory<T, typename Source::Table> &memory) {
    typedef typename Source::Element Element;
    float acc[T::TM][T::TN];
    typename Source::Slice slice;
    for (i64 c = share.first_chunk; c < share.end_chunk; c++) {
#pragma unroll
        for (int i = 0; i < T::TM; i++)
#pragma unroll
            for (int j = 0; j < T::TN; j++) acc[i][j] = minus_zero();
        const i64 begin = source.begin(c), end = source.begin(c + 1);
        source.prepare(memory.table, begin, end);
        for (i64 k = begin - DEPTH; k < end;
             k += DEPTH) { // the slice at k + DEPTH is loaded, that at k multiplied
            const int now = (int)(k - begin) / DEPTH & 1;
            copies_wait();
            sync_block(); // the slice is there, and no thread reads the stage that is loaded next
            const bool more = k + DEPTH < end;
            if (more) {
                slice.begin(memory.stage[now ^ 1]);
                source.load(slice, memory.table, begin, k + DEPTH, end);
            }
            if (k >= begin) multiply_slice<T, Source::MASKED>(memory.stage[now], acc);
            if (more) slice.end();
        }
        const float *before = !g.partial && c > 0 ? g.total : nullptr;
        float *to = g.partial ? g.partial + c * g.out_elements : g.total;
        if (sizeof(Element) == sizeof(float) || g.partial || c + 1 < share.end_chunk)
            put_either<T>(source, share, g.m, before, to, memory.rows, acc);
        else
            put_either<T>(source, share, g.m, before, (Element *)g.out, memory.rows, acc);
        sync_block(); // before the next chunk writes to shared memory
    }
}

#endif
