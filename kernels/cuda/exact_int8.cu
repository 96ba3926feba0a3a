// mm and bmm of bf16 in the mode exact by products of bytes (exact_int8.cuh has the scheme and its bound).
//
//     1. measure, cut: planes of bytes, and facts of the lines
//     2. multiply: sums on integer tensor cores; the result, or OPEN
//        with split-K the sums of the runs of chunks go to a workspace, and `finish` adds and decides
//     3. by exact_matmul_bf16.cu: multiply tiles of which many elements are open by sums of f64; resolve

#include "exact_matmul.cuh"
#include "exact_int8_cut.cuh"

constexpr int BYTES_DEEP = 32;  // k of a stage, and of a product on tensor cores
constexpr int BYTES_PITCH = 12; // words. INVARIANT: 4 words of 8 rows, 12 words apart, share no bank
constexpr int SUMS = 4;         // of products of the same weight

// 2 x 2 warps of 32 x 32 results: 2 x 4 products of 16 x 8.
struct ByteTile {
    static constexpr int WARPS_N = 2, BM = 64, BN = 64, THREADS = 4 * WARP;
};

struct Int8Matmul {
    Matmul of;
    i64 batches, pitch;
    const u8 *a, *b; // planes, as in Lines
    const LineFacts *rows, *columns;
    i64 *sums; // [split][element of C]; null without split-K
};

struct alignas(16) ByteStage {
    u32 a[PLANES][ByteTile::BM][BYTES_PITCH], b[PLANES][ByteTile::BN][BYTES_PITCH];
};
struct alignas(16) ByteMemory {
    ByteStage stage[2];
    LineBound row[ByteTile::BM], column[ByteTile::BN];
};

// A thread's part of a stage: 16 bytes of each plane, of one row and of one column.
struct ByteSource {
    const u8 *a, *b;
    i64 plane_a, plane_b; // distances

    DEVICE_MEMBER ByteSource(const Int8Matmul &p, const Share &s) {
        const Grid &g = p.of.grid;
        // NOTE: a line beyond the matrix is its last one; products with it are not stored.
        const i64 row = min_i64(s.row + thread_index() / 2, g.m - 1);
        const i64 column = min_i64(s.column + thread_index() / 2, g.n - 1);
        a = p.a + (s.batch * g.m + row) * p.pitch + thread_index() % 2 * 16;
        b = p.b + (s.batch * g.n + column) * p.pitch + thread_index() % 2 * 16;
        plane_a = p.batches * g.m * p.pitch, plane_b = p.batches * g.n * p.pitch;
    }
    DEVICE_MEMBER void load(ByteStage &stage, i64 k) const {
        const int line = thread_index() / 2, word = thread_index() % 2 * 4;
#pragma unroll
        for (int i = 0; i < PLANES; i++) {
            copy_async<16>(&stage.a[i][line][word], a + i * plane_a + k);
            copy_async<16>(&stage.b[i][line][word], b + i * plane_b + k);
        }
    }
};

// Results of a lane: rows y + 16 i + (0, 8) and columns x + 8 j + (0, 1) of the tile; four sums of each.
struct ByteSums {
    int at[SUMS][2][4][4];
    DEVICE_MEMBER i64 total(int i, int j, int v) const {
        const i64 high = (i64)at[0][i][j][v] * 256 + at[1][i][j][v];
        const i64 low = (i64)at[2][i][j][v] * 256 + at[3][i][j][v];
        return (high * 65536 + low) * 256;
    }
};
DEVICE int byte_row() {
    return thread_index() / WARP / ByteTile::WARPS_N * 32 + thread_index() % WARP / 4;
}
DEVICE int byte_column() {
    return thread_index() / WARP % ByteTile::WARPS_N * 32;
}

DEVICE void multiply_stage(const ByteStage &s, ByteSums &sums) {
    const int word = thread_index() % 4, row = byte_row(), column = byte_column() + thread_index() % WARP / 4;
    u32 a[PLANES][2][4];
#pragma unroll
    for (int x = 0; x < PLANES; x++)
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int v = 0; v < 4; v++) a[x][i][v] = s.a[x][row + 16 * i + v % 2 * 8][word + v / 2 * 4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
        u32 b[PLANES][2];
#pragma unroll
        for (int y = 0; y < PLANES; y++)
#pragma unroll
            for (int v = 0; v < 2; v++) b[y][v] = s.b[y][column + 8 * j][word + 4 * v];
#pragma unroll
        for (int x = 0; x < PLANES; x++)
#pragma unroll
            for (int y = 0; y < PLANES; y++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    if (x + y < SUMS) multiply_16x8x32(sums.at[x + y][i][j], a[x][i], b[y]);
    }
}

DEVICE void put_decided(const Int8Matmul &p, i64 place, i64 sum, const LineBound &row,
                        const LineBound &column) {
    ((Bits<bf16>::Word *)p.of.grid.out)[place] = decided<bf16>(sum, row, column);
}

KERNEL(exact_int8_measure, Cutting, CUT_THREADS, 4) {
    measure_lines(p);
}

KERNEL(exact_int8_cut, Cutting, CUT_THREADS, 4) {
    cut_lines(p);
}

KERNEL(exact_int8_multiply, Int8Matmul, ByteTile::THREADS, 2) {
    SHARED(ByteMemory, memory);
    const Grid &g = p.of.grid;
    const Share share = share_of<ByteTile>(g);
    const ByteSource source(p, share);
    const i64 begin = share.first_chunk * CHUNK, end = min_i64(share.end_chunk * CHUNK, p.pitch);
    ByteSums sums = {};
    for (i64 k = begin - BYTES_DEEP; k < end; k += BYTES_DEEP) { // as in gemm.cuh
        const int now = (int)(k - begin) / BYTES_DEEP & 1;
        copies_wait();
        sync_block();
        if (k + BYTES_DEEP < end) source.load(memory.stage[now ^ 1], k + BYTES_DEEP);
        if (k >= begin) multiply_stage(memory.stage[now], sums);
    }
    const int t = thread_index();
    if (t < ByteTile::BM)
        memory.row[t] = bound_of(p.rows[share.batch * g.m + min_i64(share.row + t, g.m - 1)]);
    else
        memory.column[t - ByteTile::BM] =
            bound_of(p.columns[share.batch * g.n + min_i64(share.column + t - ByteTile::BM, g.n - 1)]);
    sync_block();
    const i64 split = share.first_chunk / max_i64(1, (g.chunks + g.splits - 1) / g.splits);
    const i64 start = share.batch * g.m * g.n;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int v = 0; v < 4; v++) {
                const int row = byte_row() + 16 * i + v / 2 * 8;
                const int column = byte_column() + t % 4 * 2 + 8 * j + v % 2;
                if (share.row + row >= g.m || share.column + column >= g.n) continue;
                const i64 place = start + (share.row + row) * g.n + share.column + column;
                if (g.splits > 1)
                    p.sums[split * g.out_elements + place] = sums.total(i, j, v);
                else
                    put_decided(p, place, sums.total(i, j, v), memory.row[row], memory.column[column]);
            }
}

// Add the sums of all splits, and decide.
KERNEL(exact_int8_finish, Int8Matmul, 256, 2) {
    const Grid &g = p.of.grid;
    for (i64 i = global_thread(); i < g.out_elements; i += global_threads()) {
        const Position at = MatmulPositions{p.of}.of(i);
        i64 sum = 0;
        for (i64 s = 0; s < g.splits; s++) sum += p.sums[s * g.out_elements + i];
        put_decided(p, i, sum, bound_of(p.rows[at.batch * g.m + at.m]),
                    bound_of(p.columns[at.batch * g.n + at.n]));
    }
}
