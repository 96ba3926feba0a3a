// mm and bmm of bf16 in the mode tc16 on sm_90a. One warpgroup copies slices of 64 k to shared memory,
// STAGES ahead; the others multiply: each has 64 rows of a tile. Blocks stay, and take tile after tile.
//
//     total = -0;   for each chunk of k (512, or the rest):
//         for each slice of 64 k, in four blocks of 16:   acc = block(a, b; acc), the first from +0
//         total = total + acc                             or, with split-K, the workspace's [chunk] = acc
//
// Numbers beyond the tensors are copied as zeros, which are no terms (tc16_gemm.cuh). In memory rows of A are
// m, those of B are k if ROWS_ARE_K, else n.
//
// C[m, n] is at batch * batch_step + m * row_step + n / inner.d * outer_step + n % inner.d.

#include "hopper.cuh"
#include "tc16_gemm.cuh"

constexpr int SLICE = 64; // k
constexpr int WORKERS = 2, WG_THREADS = (WORKERS + 1) * WARPGROUP;
constexpr int ALL_REGISTERS = 232, COPIER_REGISTERS = 40; // of a thread; together no more than at the start

struct WgProduct {
    TensorMap a, b; // boxes of 64 k and BM rows; of 64 columns and 64 k, or of 64 k and BN columns
    Grid grid;
    i64 k, batches, batch_step, row_step, outer_step;
    Divisor inner;
    i64 a_batches, unused[6]; // 1 if all batches have the same A. The struct fills its alignment
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

template <class T, bool ROWS_ARE_K>
DEVICE void copy_slices(const WgProduct &p, i64 tiles, WgMemory<T> &memory) {
    Stages<T> stage;
    for (i64 t = block_index(); t < tiles; t += grid_blocks()) {
        const Share s = share_of<T>(p.grid, t);
        const int end = (int)min_i64(s.end_chunk * CHUNK, p.k);
        for (int k = (int)s.first_chunk * CHUNK; k < end; k += SLICE, stage.next()) {
            Barrier *full = &memory.full[stage.at];
            barrier_wait(&memory.empty[stage.at], stage.odd ^ 1); // nothing, the first time
            barrier_arrive_and_expect(full, T::BYTES);
            copy_box(p.a, memory.a[stage.at], full, k, (int)s.row, p.a_batches > 1 ? (int)s.batch : 0);
            if (!ROWS_ARE_K) {
                copy_box(p.b, memory.b[stage.at], full, k, (int)s.column, (int)s.batch);
                continue;
            }
#pragma unroll
            for (int panel = 0; panel < T::BN / BOX_WIDTH; panel++)
                copy_box(p.b, memory.b[stage.at] + panel * BOX_WIDTH * SLICE, full,
                         (int)s.column + panel * BOX_WIDTH, k, (int)s.batch);
        }
    }
}

// Exchange within a pair of lanes, `distance` apart: the lower one gets the first word of both, the other one
// the second.
DEVICE void exchange(u32 &first, u32 &second, int distance) {
    const int lane = thread_index() % WARP;
    const bool upper = lane & distance;
    const u32 got = from_lane(upper ? first : second, lane ^ distance);
    (upper ? first : second) = got;
}

// Write a tile, 16 bytes at once: four lanes that have two columns each of four, or of two, groups of eight
// columns, exchange them, so that each has neighbours. PIECES: all columns are there eight at a time,
// aligned.
template <class T, class E, bool PIECES>
DEVICE void put_tile(const WgProduct &p, const Share &s, E *out, const float (&d)[T::SUMS]) {
    constexpr int GROUPS = sizeof(E) == sizeof(bf16) ? 4 : 2;
    const int lane = thread_index() % WARP, q = lane % 4;
    const i64 row = s.row + thread_index() / WARP * 16 + lane / 4, below = 8 * p.row_step;
    const bool upper = row < p.grid.m, lower = row + 8 < p.grid.m;
    const i64 start = s.batch * p.batch_step + row * p.row_step, more = p.outer_step - p.inner.d;
    if constexpr (PIECES) {
        // With bf16 lane q has group q; with f32 half of group q % 2.
        const int shift = GROUPS == 4 ? 8 * q : 8 * (q & 1) + 4 * (q / 2);
#pragma unroll
        for (int j = 0; j < T::SUMS / 4; j += GROUPS) {
            const int column = (int)s.column + 8 * j + shift;
            const bool there = column < p.grid.n;
            const i64 to = start + column + near_quotient((u32)column, p.inner) * more;
#pragma unroll
            for (int half = 0; half < 4; half += 2) {
                const auto at = [&](int i) { return d[4 * j + half + i]; };
                u32 w[4];
                if constexpr (GROUPS == 4) {
#pragma unroll
                    for (int g = 0; g < 4; g++) w[g] = (u32)to_bf16(at(4 * g + 1)) << 16 | to_bf16(at(4 * g));
                    exchange(w[0], w[1], 1), exchange(w[2], w[3], 1);
                    exchange(w[0], w[2], 2), exchange(w[1], w[3], 2);
                } else {
#pragma unroll
                    for (int i = 0; i < 4; i++) w[i] = (u32)bits_of(at(i / 2 * 4 + i % 2));
                    exchange(w[0], w[2], 1), exchange(w[1], w[3], 1);
                }
                if (there && (half ? lower : upper))
                    *(Pack<u32, 4> *)(out + to + (half ? below : 0)) = {w[0], w[1], w[2], w[3]};
            }
        }
    } else {
        i64 first =
            s.column + 2 * q; // NOTE: opaque, or the compiler keeps all places in registers and spills
#pragma unroll
        for (int j = 0; j < T::SUMS / 4; j++, first = opaque(first + 8))
#pragma unroll
            for (int v = 0; v < 2; v++) {
                const i64 column = first + v,
                          to = start + column + near_quotient((u32)column, p.inner) * more;
                if (column >= p.grid.n) continue;
                if (upper) out[to] = narrowed<E>(d[4 * j + v]);
                if (lower) out[to + below] = narrowed<E>(d[4 * j + v + 2]);
            }
    }
}

template <class T, bool ROWS_ARE_K, bool PIECES>
DEVICE void multiply_slices(const WgProduct &p, i64 tiles, WgMemory<T> &memory) {
    const Grid &g = p.grid;
    const int part = thread_index() / WARPGROUP; // 64 rows of a tile
    const bool first_thread = thread_index() % WARPGROUP == 0;
    Stages<T> stage;
    int before = 0;
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
                    multiply_64x16<ROWS_ARE_K>(acc, a + k, b + (ROWS_ARE_K ? k * BOX_WIDTH : k),
                                               i > 0 || k > 0);
                products_end_group();
                if (i > 0) { // those of the slice before have been made
                    products_wait_but_one(acc);
                    if (first_thread) barrier_arrive(&memory.empty[before]);
                }
                before = stage.at;
            }
            products_wait(acc);
            if (first_thread) barrier_arrive(&memory.empty[before]);
#pragma unroll
            for (int i = 0; i < T::SUMS; i++) total[i] = add_rn(total[i], acc[i]);
            if (!g.partial && chunk + 1 < s.end_chunk) continue;
            if (g.partial || g.total)
                put_tile<T, float, PIECES>(p, s, g.partial ? g.partial + chunk * g.out_elements : g.total,
                                           total);
            else
                put_tile<T, bf16, PIECES>(p, s, (bf16 *)g.out, total);
#pragma unroll
            for (int i = 0; i < T::SUMS; i++) total[i] = minus_zero();
        }
    }
}

template <class T, bool ROWS_ARE_K, bool PIECES> DEVICE void multiply_by_warpgroups(const WgProduct &p) {
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
        if (thread_index() == WORKERS * WARPGROUP) copy_slices<T, ROWS_ARE_K>(p, tiles, memory);
    } else {
        take_registers<ALL_REGISTERS>();
        multiply_slices<T, ROWS_ARE_K, PIECES>(p, tiles, memory);
    }
}

#define PRODUCT_OF_WARPGROUPS(name, T, ROWS_ARE_K)                                                           \
    KERNEL(tc16_warpgroup_##name, WgProduct, WG_THREADS, 1) {                                                \
        multiply_by_warpgroups<T, ROWS_ARE_K, true>(p);                                                      \
    }                                                                                                        \
    KERNEL(tc16_warpgroup_##name##_single, WgProduct, WG_THREADS, 1) {                                       \
        multiply_by_warpgroups<T, ROWS_ARE_K, false>(p);                                                     \
    }

PRODUCT_OF_WARPGROUPS(wide, WideTile, true)
PRODUCT_OF_WARPGROUPS(square, SquareTile, true)
PRODUCT_OF_WARPGROUPS(wide_turned, WideTile, false)
PRODUCT_OF_WARPGROUPS(square_turned, SquareTile, false)
