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
    u64 *open; // elements of each tile of C
};

struct alignas(16) ByteStage {
    u32 a[PLANES][ByteTile::BM][BYTES_PITCH], b[PLANES][ByteTile::BN][BYTES_PITCH];
};
constexpr int OF_THREAD = ByteTile::BM * ByteTile::BN / ByteTile::THREADS; // results
struct alignas(16) ByteMemory {
    union {
        ByteStage stage[2];
        i64 later[OF_THREAD][ByteTile::THREADS]; // V of results that are not decided quickly
    };
    LineBound row[ByteTile::BM], column[ByteTile::BN];
    QuickBound quick_row[ByteTile::BM], quick_column[ByteTile::BN];
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

// Store a result, or OPEN, and count it then.
DEVICE void put_decided(const Int8Matmul &p, i64 place, i64 tile, i64 sum, const LineBound &row,
                        const LineBound &column) {
    const Bits<bf16>::Word result = decided<bf16>(sum, row, column);
    ((Bits<bf16>::Word *)p.of.grid.out)[place] = result;
    if (result == Bits<bf16>::OPEN) atomic_add(&p.open[tile], 1);
}

// A tile's results: first what can be decided quickly, then the rest one by one. Element v + 4 j + 16 i of
// the thread is that of ByteSums::at.
struct ByteResults {
    const Int8Matmul &p;
    const Share &share;
    ByteMemory &memory;

    static DEVICE_MEMBER int row_of(int i, int v) { return byte_row() + 16 * i + v / 2 * 8; }
    static DEVICE_MEMBER int column_of(int j, int v) {
        return byte_column() + thread_index() % 4 * 2 + 8 * j + v % 2;
    }
    DEVICE_MEMBER bool inside(int row, int column) const {
        return share.row + row < p.of.grid.m && share.column + column < p.of.grid.n;
    }
    DEVICE_MEMBER i64 place(int row, int column) const {
        const Grid &g = p.of.grid;
        return (share.batch * g.m + share.row + row) * g.n + share.column + column;
    }

    DEVICE_MEMBER void put(const ByteSums &sums) const {
        Bits<bf16>::Word *out = (Bits<bf16>::Word *)p.of.grid.out;
        const bool pairs = p.of.grid.n % 2 == 0 && aligned(out, 4);
        u32 later = 0;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int half = 0; half < 4; half += 2) { // two neighbours of a row
                    const int row = row_of(i, half), column = column_of(j, 0);
                    const QuickBound &of_row = memory.quick_row[row];
                    u32 result[2];
#pragma unroll
                    for (int v = 0; v < 2; v++) {
                        const i64 sum = sums.total(i, j, half + v);
                        if (decided_quickly(sum, of_row, memory.quick_column[column + v], result[v]) ||
                            !inside(row, column + v))
                            continue;
                        const int number = half + v + 4 * j + 16 * i;
                        memory.later[number][thread_index()] = sum;
                        later |= 1u << number;
                    }
                    Bits<bf16>::Word *to = out + place(row, column);
                    if (pairs && inside(row, column)) {
                        *(u32 *)to = (result[0] & 0xFFFF) | result[1] << 16;
                    } else {
                        if (inside(row, column)) to[0] = (Bits<bf16>::Word)result[0];
                        if (inside(row, column + 1)) to[1] = (Bits<bf16>::Word)result[1];
                    }
                }
        const Grid &g = p.of.grid;
        const i64 tile =
            (share.batch * g.tiles_n + share.column / ByteTile::BN) * g.tiles_m + share.row / ByteTile::BM;
        for (; later; later &= later - 1) {
            const int number = lowest_bit(later), v = number % 4;
            const int row = row_of(number / 16, v), column = column_of(number / 4 % 4, v);
            put_decided(p, place(row, column), tile, memory.later[number][thread_index()], memory.row[row],
                        memory.column[column]);
        }
    }
    DEVICE_MEMBER void put_sums(const ByteSums &sums, i64 *out) const {
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int v = 0; v < 4; v++)
                    if (inside(row_of(i, v), column_of(j, v)))
                        out[place(row_of(i, v), column_of(j, v))] = sums.total(i, j, v);
    }
};

KERNEL(exact_int8_measure, Cutting, CUT_THREADS, 4) {
    measure_lines(p);
}

KERNEL(exact_int8_cut, Cutting, CUT_THREADS, 4) {
    cut_lines(p);
}

KERNEL(exact_int8_multiply, Int8Matmul, ByteTile::THREADS, 2) {
    SHARED(ByteMemory, memory);
    const Grid &g = p.of.grid;
    const Share share = share_of<ByteTile>(g, block_index());
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
    const ByteResults results = {p, share, memory};
    if (g.splits > 1) {
        const i64 split = share.first_chunk / ((g.chunks + g.splits - 1) / g.splits);
        results.put_sums(sums, p.sums + split * g.out_elements);
        return;
    }
    const int t = thread_index(), line = t % ByteTile::BM;
    const bool is_row = t < ByteTile::BM;
    const LineBound bound =
        bound_of(is_row ? p.rows[share.batch * g.m + min_i64(share.row + line, g.m - 1)]
                        : p.columns[share.batch * g.n + min_i64(share.column + line, g.n - 1)]);
    (is_row ? memory.row : memory.column)[line] = bound;
    (is_row ? memory.quick_row : memory.quick_column)[line] = quick(bound);
    sync_block(); // the bounds are there, and no thread reads a stage
    results.put(sums);
}

// Add the sums of all splits, and decide.
KERNEL(exact_int8_finish, Int8Matmul, 256, 2) {
    const Grid &g = p.of.grid;
    for (i64 i = global_thread(); i < g.out_elements; i += global_threads()) {
        const Position at = MatmulPositions{p.of}.of(i);
        i64 sum = 0;
        for (i64 s = 0; s < g.splits; s++) sum += p.sums[s * g.out_elements + i];
        const i64 tile = (at.batch * g.tiles_n + at.n / ByteTile::BN) * g.tiles_m + at.m / ByteTile::BM;
        put_decided(p, i, tile, sum, bound_of(p.rows[at.batch * g.m + at.m]),
                    bound_of(p.columns[at.batch * g.n + at.n]));
    }
}
