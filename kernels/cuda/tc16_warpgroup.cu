// mm and bmm of bf16 in the mode tc16 on sm_90a. One warpgroup copies slices of 64 k to shared memory,
// STAGES ahead; the others multiply: each has 64 rows of a tile. Blocks stay, and take tile after tile.
//
//     total = -0;   for each chunk of k (512, or the rest):
//         for each slice of 64 k, in four blocks of 16:   acc = block(a, b; acc), the first from +0
//         total = total + acc                             or, with split-K, the workspace's [chunk] = acc
//
// Numbers beyond the tensors are copied as zeros, which are no terms (tc16_gemm.cuh). A and B are read in
// place: rows of A are m, those of B are k.
//
// C[m, n] is at batch * m * n + m * row_step + n / inner.d * outer_step + n % inner.d.

#include "hopper.cuh"
#include "tc16_gemm.cuh"

constexpr int SLICE = 64; // k
constexpr int WORKERS = 2, WG_THREADS = (WORKERS + 1) * WARPGROUP;
constexpr int ALL_REGISTERS = 232, COPIER_REGISTERS = 40; // of a thread; together no more than at the start

struct WgProduct {
    TensorMap a, b; // boxes of 64 k and BM rows, and of 64 columns and 64 k
    Grid grid;
    i64 k, batches, row_step, outer_step;
    Divisor inner;
};
struct WgTileBase {
    static constexpr int BM = 64 * WORKERS;
};
template <int BN_, int STAGES_> struct WgTile : WgTileBase {
    static constexpr int BN = BN_, DEPTH_IN_STAGES = STAGES_, SUMS = BN / 2;
    static constexpr int BYTES = (BM + BN) * SLICE * (int)sizeof(bf16); // of a stage
};
typedef WgTile<192, 5> WideTile;
typedef WgTile<128, 6> SquareTile;

template <class T> struct alignas(1024) WgMemory {
    bf16 a[T::DEPTH_IN_STAGES][T::BM * SLICE], b[T::DEPTH_IN_STAGES][T::BN * SLICE];
    Barrier full[T::DEPTH_IN_STAGES], empty[T::DEPTH_IN_STAGES];
};

// Where a warpgroup is in the circle of stages. `odd`: the phase of the barriers there.
template <class T> struct Stages {
    int at = 0, odd = 0;
    DEVICE_MEMBER void next() {
        if (++at == T::DEPTH_IN_STAGES) at = 0, odd ^= 1;
    }
};

template <class T> DEVICE void copy_slices(const WgProduct &p, i64 tiles, WgMemory<T> &memory) {
    Stages<T> stage;
    for (i64 t = block_index(); t < tiles; t += grid_blocks()) {
        const Share s = share_of<T>(p.grid, t);
        const int end = (int)min_i64(s.end_chunk * CHUNK, p.k);
        for (int k = (int)s.first_chunk * CHUNK; k < end; k += SLICE, stage.next()) {
            Barrier *full = &memory.full[stage.at];
            barrier_wait(&memory.empty[stage.at], stage.odd ^ 1); // nothing, the first time
            barrier_arrive_and_expect(full, T::BYTES);
            copy_box(p.a, memory.a[stage.at], full, k, (int)s.row, (int)s.batch);
#pragma unroll
            for (int panel = 0; panel < T::BN / BOX_WIDTH; panel++)
                copy_box(p.b, memory.b[stage.at] + panel * BOX_WIDTH * SLICE, full,
                         (int)s.column + panel * BOX_WIDTH, k, (int)s.batch);
        }
    }
}

// Write two neighbours of a row, as bf16 if `narrow`, else as f32; the second is at `right`, if it is there.
DEVICE void put_pair(void *out, bool narrow, bool pairs, i64 to, i64 right, float x, float y) {
    if (pairs && narrow) {
        *(Pack<bf16, 2> *)((bf16 *)out + to) = {to_bf16(x), to_bf16(y)};
    } else if (pairs) {
        *(Pack<float, 2> *)((float *)out + to) = {x, y};
    } else if (narrow) {
        ((bf16 *)out)[to] = to_bf16(x);
        if (right >= 0) ((bf16 *)out)[right] = to_bf16(y);
    } else {
        ((float *)out)[to] = x;
        if (right >= 0) ((float *)out)[right] = y;
    }
}
template <class T>
DEVICE void put_tile(const WgProduct &p, const Share &s, void *out, bool narrow, const float (&d)[T::SUMS]) {
    const int lane = thread_index() % WARP;
    const i64 row = s.row + thread_index() / WARP * 16 + lane / 4, rows = p.grid.m - row;
    const i64 below = 8 * p.row_step, more = p.outer_step - p.inner.d;
    const bool pairs = p.inner.d % 2 == 0 && p.outer_step % 2 == 0 && p.row_step % 2 == 0 &&
                       p.grid.m * p.grid.n % 2 == 0 && aligned(out, 2 * sizeof(float));
    i64 column = s.column + lane % 4 * 2, start = s.batch * p.grid.m * p.grid.n + row * p.row_step + column;
#pragma unroll
    for (int j = 0; j < T::SUMS / 4; j++, column = opaque(column + 8), start = opaque(start + 8)) {
        if (column >= p.grid.n) continue;
        const i64 to = start + near_quotient((u32)column, p.inner) * more;
        const i64 right = column + 1 < p.grid.n ? start + 1 + near_quotient((u32)column + 1, p.inner) * more : -1;
        if (rows > 0) put_pair(out, narrow, pairs, to, right, d[4 * j], d[4 * j + 1]);
        if (rows > 8)
            put_pair(out, narrow, pairs, to + below, right < 0 ? right : right + below, d[4 * j + 2],
                     d[4 * j + 3]);
    }
}

template <class T> DEVICE void multiply_slices(const WgProduct &p, i64 tiles, WgMemory<T> &memory) {
    const Grid &g = p.grid;
    const int part = thread_index() / WARPGROUP; // 64 rows of a tile
    Stages<T> stage;
    for (i64 t = block_index(); t < tiles; t += grid_blocks()) {
        const Share s = share_of<T>(g, t);
        float acc[T::SUMS], total[T::SUMS];
#pragma unroll
        for (int i = 0; i < T::SUMS; i++) total[i] = minus_zero();
#pragma unroll 1
        for (i64 chunk = s.first_chunk; chunk < s.end_chunk; chunk++) {
            const int slices = (int)(min_i64(p.k - chunk * CHUNK, CHUNK) + SLICE - 1) / SLICE;
#pragma unroll 1
            for (int i = 0; i < slices; i++, stage.next()) {
                barrier_wait(&memory.full[stage.at], stage.odd);
                const bf16 *a = memory.a[stage.at] + part * 64 * SLICE, *b = memory.b[stage.at];
                products_begin();
#pragma unroll
                for (int k = 0; k < SLICE; k += TC16_TERMS)
                    multiply_64x16(acc, a + k, b + k * BOX_WIDTH, i > 0 || k > 0);
                products_wait(acc);
                if (thread_index() % WARPGROUP == 0) barrier_arrive(&memory.empty[stage.at]);
            }
#pragma unroll
            for (int i = 0; i < T::SUMS; i++) total[i] = add_rn(total[i], acc[i]);
            if (!g.partial && chunk + 1 < s.end_chunk) continue;
            void *out = g.partial ? g.partial + chunk * g.out_elements : g.total ? (void *)g.total : g.out;
            put_tile<T>(p, s, out, !g.partial && !g.total, total);
#pragma unroll
            for (int i = 0; i < T::SUMS; i++) total[i] = minus_zero();
        }
    }
}

template <class T> DEVICE void multiply_by_warpgroups(const WgProduct &p) {
    typedef WgMemory<T> All;
    SHARED_LARGE(All, memory);
    const i64 tiles = p.grid.tiles_m * p.grid.tiles_n * p.grid.splits * p.batches;
    if (thread_index() == 0) {
        for (int i = 0; i < T::DEPTH_IN_STAGES; i++) {
            barrier_begin(&memory.full[i], 1);
            barrier_begin(&memory.empty[i], WORKERS);
        }
        barriers_have_begun();
    }
    sync_block();
    if (thread_index() / WARPGROUP == WORKERS) {
        leave_registers<COPIER_REGISTERS>();
        if (thread_index() == WORKERS * WARPGROUP) copy_slices<T>(p, tiles, memory);
    } else {
        take_registers<ALL_REGISTERS>();
        multiply_slices<T>(p, tiles, memory);
    }
}

KERNEL(tc16_warpgroup_wide, WgProduct, WG_THREADS, 1) {
    multiply_by_warpgroups<WideTile>(p);
}
KERNEL(tc16_warpgroup_square, WgProduct, WG_THREADS, 1) {
    multiply_by_warpgroups<SquareTile>(p);
}
