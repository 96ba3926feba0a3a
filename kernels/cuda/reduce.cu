// sum and amax in the order of docs/opset.md: blocks of 4096, 32 lanes in turn, folds 16, 8, 4, 2, 1. A
// launch does one level: every block of every result. The blocks of a result form a row of the next level.

#include "order.cuh"

constexpr int THREADS = 256, WARPS = THREADS / WARP;

// x is [outer, n, width]: `kept` maps an outer index to its place, `reduced` those of the n elements; width
// neighbouring results (1 if the innermost dimension is reduced). out[(outer * width + column) * blocks +
// block].
struct Reduction {
    i64 outer, n, width, blocks;
    Axes kept, reduced;
    const void *x;
    void *out;
};

// Results one by one: a warp reduces a block of a result, with the lanes of the specification.
template <class Op, class T> DEVICE void reduce_rows(const Reduction &p) {
    const int lane = thread_index() % WARP;
    const bool contiguous = p.reduced.rank == 0 || (p.reduced.rank == 1 && p.reduced.stride[0] == 1);
    for (i64 at = global_thread() / WARP; at < p.outer * p.blocks; at += global_threads() / WARP) {
        const i64 outer = at / p.blocks, first = at % p.blocks * BLOCK;
        const int count = (int)min_i64(BLOCK, p.n - first);
        const T *x = (const T *)p.x + axes_offset(p.kept, outer);
        T acc = Op::identity(T());
        if (contiguous) {
            x += first;
#pragma unroll 8
            for (int i = lane; i < count; i += LANES) acc = Op::of(acc, x[i]);
        } else {
            constexpr int AHEAD = 8; // loads in flight
            int i = lane;
#pragma unroll 1
            for (; i + (AHEAD - 1) * LANES < count; i += AHEAD * LANES) {
                T next[AHEAD];
#pragma unroll
                for (int j = 0; j < AHEAD; j++) next[j] = x[axes_offset(p.reduced, first + i + j * LANES)];
#pragma unroll
                for (int j = 0; j < AHEAD; j++) acc = Op::of(acc, next[j]);
            }
#pragma unroll 1
            for (; i < count; i += LANES) acc = Op::of(acc, x[axes_offset(p.reduced, first + i)]);
        }
        acc = fold<Op>(acc);
        if (lane == 0) ((T *)p.out)[at] = acc;
    }
}

// 32 neighbouring results: warp w of the block has the lanes w, w + 8, w + 16, w + 24 of each, so it reads 32
// neighbours at once. LINEAR: the elements of a result have equal distances.
template <class T> struct ColumnLanes {
    T at[LANES][WARP];
};
template <class Op, bool LINEAR, class T>
DEVICE void reduce_columns(const Reduction &p, ColumnLanes<T> &lanes) {
    constexpr int MINE = LANES / WARPS;
    const int warp = thread_index() / WARP, x = thread_index() % WARP;
    const i64 strips = (p.width + WARP - 1) / WARP, items = p.outer * p.blocks * strips;
    for (i64 item = block_index(); item < items; item += grid_blocks()) {
        const i64 column = item % strips * WARP + x, rest = item / strips;
        const i64 outer = rest / p.blocks, block = rest % p.blocks, first = block * BLOCK;
        const int count = (int)min_i64(BLOCK, p.n - first);
        const T *from = (const T *)p.x + axes_offset(p.kept, outer) + column;
        T acc[MINE];
#pragma unroll
        for (int j = 0; j < MINE; j++) acc[j] = Op::identity(T());
        if (column < p.width) {
            const i64 step = p.reduced.stride[0];
            const auto offset = [&](i64 row) { return LINEAR ? row * step : axes_offset(p.reduced, row); };
            int i = 0;
            if constexpr (LINEAR) {
                const T *at = from + offset(first + warp);
#pragma unroll 4
                for (; i + LANES <= count; i += LANES, at += LANES * step)
#pragma unroll
                    for (int j = 0; j < MINE; j++) acc[j] = Op::of(acc[j], at[j * WARPS * step]);
            }
#pragma unroll 2
            for (; i < count; i += LANES)
#pragma unroll
                for (int j = 0; j < MINE; j++) {
                    const int row = i + j * WARPS + warp;
                    if (row < count) acc[j] = Op::of(acc[j], from[offset(first + row)]);
                }
        }
#pragma unroll
        for (int j = 0; j < MINE; j++) lanes.at[warp + j * WARPS][x] = acc[j];
        for (int half = LANES / 2; half; half /= 2) {
            sync_block();
            for (int j = warp; j < half; j += WARPS)
                lanes.at[j][x] = Op::of(lanes.at[j][x], lanes.at[j + half][x]);
        }
        if (warp == 0 && column < p.width)
            ((T *)p.out)[(outer * p.width + column) * p.blocks + block] = lanes.at[0][x];
        sync_block(); // before the next item writes
    }
}

template <class Op, int HALF, class T> DEVICE void fold_own(T (&lane)[LANES]) {
#pragma unroll
    for (int i = 0; i < HALF; i++) lane[i] = Op::of(lane[i], lane[i + HALF]);
    if constexpr (HALF > 1) fold_own<Op, HALF / 2>(lane);
}

// Neighbouring results of at most 32 elements each: a thread computes a result, and every element is a lane.
template <class Op, class T> DEVICE void reduce_short_columns(const Reduction &p) {
    for (i64 at = global_thread(); at < p.outer * p.width; at += global_threads()) {
        const T *from = (const T *)p.x + axes_offset(p.kept, at / p.width) + at % p.width;
        T lane[LANES];
#pragma unroll
        for (int i = 0; i < LANES; i++)
            lane[i] = i < p.n ? from[axes_offset(p.reduced, i)] : Op::identity(T());
        fold_own<Op, LANES / 2>(lane);
        ((T *)p.out)[at] = lane[0];
    }
}

#define REDUCTION(name, Op, T)                                                                               \
    KERNEL(name##_rows, Reduction, THREADS, 4) {                                                             \
        reduce_rows<Op, T>(p);                                                                               \
    }                                                                                                        \
    KERNEL(name##_columns, Reduction, THREADS, 4) {                                                          \
        SHARED(ColumnLanes<T>, lanes);                                                                       \
        if (p.reduced.rank <= 1)                                                                             \
            reduce_columns<Op, true>(p, lanes);                                                              \
        else                                                                                                 \
            reduce_columns<Op, false>(p, lanes);                                                             \
    }                                                                                                        \
    KERNEL(name##_short_columns, Reduction, THREADS, 2) {                                                    \
        reduce_short_columns<Op, T>(p);                                                                      \
    }

REDUCTION(sum_f32, Sum, float)
REDUCTION(sum_i64, Sum, i64)
REDUCTION(amax_f32, Largest, float)
REDUCTION(amax_i64, Largest, i64)
