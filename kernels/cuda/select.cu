// Operators that choose by comparing: argmax and max_pool2d. Both use the total order of bits.h and keep the
// first of equal elements.

#include "common.cuh"

constexpr int THREADS = 256, WARPS = THREADS / WARP;

// x is [outer, n, inner]; out is [outer, inner].
struct Arg {
    i64 outer, n, inner;
    const void *x;
    i64 *out;
};

template <class Key> struct Candidate {
    Key key;
    i64 index;
    DEVICE_MEMBER void consider(Key other, i64 at) {
        if (other > key || (other == key && at < index)) key = other, index = at;
    }
};

// inner = 1: a block reduces a row.
template <class T, class Key> DEVICE void argmax_rows(const Arg &p) {
    struct Best {
        Key key[WARPS];
        i64 index[WARPS];
    };
    SHARED(Best, best);
    const int lane = thread_index() % WARP, warp = thread_index() / WARP;
    for (i64 row = block_index(); row < p.outer; row += grid_blocks()) {
        const T *x = (const T *)p.x + row * p.n;
        Candidate<Key> mine = {order_key(x[0]), 0};
#pragma unroll 4
        for (i64 i = thread_index(); i < p.n; i += THREADS) mine.consider(order_key(x[i]), i);
#pragma unroll
        for (int half = WARP / 2; half; half /= 2) {
            const Key key = from_lane_above(mine.key, half);
            mine.consider(key, from_lane_above(mine.index, half));
        }
        sync_block(); // the last row has been read
        if (lane == 0) best.key[warp] = mine.key, best.index[warp] = mine.index;
        sync_block();
        if (thread_index() == 0) {
            for (int w = 1; w < WARPS; w++) mine.consider(best.key[w], best.index[w]);
            p.out[row] = mine.index;
        }
    }
}

// A thread computes one result, its neighbours the neighbouring ones.
template <class T, class Key> DEVICE void argmax_columns(const Arg &p) {
    for (i64 at = global_thread(); at < p.outer * p.inner; at += global_threads()) {
        const T *x = (const T *)p.x + at / p.inner * p.n * p.inner + at % p.inner;
        Candidate<Key> best = {order_key(x[0]), 0};
#pragma unroll 4
        for (i64 i = 1; i < p.n; i++) best.consider(order_key(x[i * p.inner]), i);
        p.out[at] = best.index;
    }
}

KERNEL(argmax_f32_rows, Arg, THREADS, 4) {
    argmax_rows<float, int>(p);
}
KERNEL(argmax_i64_rows, Arg, THREADS, 4) {
    argmax_rows<i64, i64>(p);
}
KERNEL(argmax_f32_columns, Arg, THREADS, 4) {
    argmax_columns<float, int>(p);
}
KERNEL(argmax_i64_columns, Arg, THREADS, 4) {
    argmax_columns<i64, i64>(p);
}

// ----------------------------------------------------------------------------------------------- max_pool2d

struct Pool {
    i64 results;
    i64 in[2], out[2], kernel[2], stride[2], padding[2], dilation[2]; // height first
    const float *x;
    float *values;
    i64 *indices;
};

// Return the first tap that is not before the plane, for a window that begins at `from`: see layout/select.c.
DEVICE i64 first_tap(i64 from, i64 dilation) {
    return from < 0 ? (dilation - 1 - from) / dilation : 0;
}

KERNEL(max_pool2d, Pool, THREADS, 4) {
    for (i64 at = global_thread(); at < p.results; at += global_threads()) { // (plane, y, x)
        const i64 line = at / p.out[1];
        const float *plane = p.x + line / p.out[0] * p.in[0] * p.in[1];
        const i64 top = line % p.out[0] * p.stride[0] - p.padding[0];
        const i64 left = at % p.out[1] * p.stride[1] - p.padding[1];
        i64 best = -1, best_key = I64_MIN; // a window without any element
        const i64 upper = first_tap(top, p.dilation[0]), first = first_tap(left, p.dilation[1]);
        for (i64 r = upper; r < p.kernel[0]; r++) {
            const i64 h = top + r * p.dilation[0];
            if (h >= p.in[0]) break;
            for (i64 s = first; s < p.kernel[1]; s++) {
                const i64 w = left + s * p.dilation[1];
                if (w >= p.in[1]) break;
                const i64 key = order_key(plane[h * p.in[1] + w]);
                if (key > best_key) best_key = key, best = h * p.in[1] + w;
            }
        }
        p.values[at] = best < 0 ? f32_of((int)0xFF800000u) : plane[best];
        p.indices[at] = best;
    }
}
