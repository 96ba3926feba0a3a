// conv2d and its gradients, of one dtype: the contraction of gemm.cuh, whose B is gathered from an image
// without a copy of it.
//
// Letters: G groups; C input channels and F filters of a group; (H, W) input, (Y, X) output, (R, S) kernel.
//
//                 C[m, n]                      A[m, k]               B[k, n]
//     FORWARD     y[image, f, (y, x)]          w[f, (c, r, s)]       x[image, c, y sy - py + r dy, ...]
//     INPUT       dx[image, c, (h, w)]         w[f, c, (r, s)]       dy[image, f, (h + py - r dy) / sy, ...]
//     WEIGHT      dw[f, (c, r, s)]             dy[image, f, (y, x)]  x[image, c, y sy - py + r dy, ...]
//
// All indices separate: B[k, n] is at tap[k].at + column.at, and exists if tap[k].h + column.h and tap[k].w +
// column.w are inside the plane. The taps of a chunk are computed once, for all threads, in shared memory.
//
// INPUT with a stride: only the taps with (h + py - r dy) divisible by sy exist, which depends on h modulo
// sy. So positions are processed by class: class (a, b) has the positions (a + i sy, b + j sx) and, of every
// filter, the taps r = first, first + every, ... that exist for them. The chunks are still those of the full
// k = (f, r, s), so each chunk of a class has fewer terms.

#ifndef REPOPS_CONV_CUH
#define REPOPS_CONV_CUH

#include "gemm.cuh"

enum Mode { FORWARD, INPUT, WEIGHT };

struct Convolution {
    Grid grid;
    i64 groups, c, f;             // channels of one group
    i64 in[2], out[2], kernel[2]; // (H, W), (Y, X), (R, S)
    i64 stride[2], padding[2], dilation[2];
    i64 images, k;         // k of the full contraction
    i64 classes[2];        // 1 x 1, except for INPUT
    i64 every[2], turn[2]; // INPUT: stride and dilation over their greatest common divisor
    const void *a, *b;
};

// One k. The type of its numbers is int if everything is below 2^30, else i64.
template <class I> struct Tap {
    I a, at, h, w; // a: index in a row of A
};
template <class I> struct Taps {
    Tap<I> at[CHUNK];
};

// Return whether 0 <= x < size, with one comparison.
DEVICE bool inside(int x, i64 size) {
    return (u32)x < (u32)size;
}
DEVICE bool inside(i64 x, i64 size) {
    return (u64)x < (u64)size;
}

template <class T, class E, int MODE, class I, template <class, class, int> class SliceOf = Slice>
struct Gather {
    static constexpr bool MASKED = true, FOURS = false;
    typedef Taps<I> Table;
    typedef E Element;
    typedef SliceOf<T, E, 1> Slice;
    typedef Slots<T, 1> At;

    const Convolution &p;
    i64 group;
    i64 base[2], taps[2], first[2], start[2], positions[2]; // of this class: see prepare and the constructor
    const E *a, *b; // a: this thread's first row; b: this thread's column
    int rows;       // rows of A from this thread's first row on
    I h, w;         // of this thread's column

    DEVICE_MEMBER Gather(const Convolution &p_, const Share &s) : p(p_) {
        group = s.batch % p.groups;
        i64 kind = s.batch / p.groups;
        for (int axis = 1; axis >= 0; axis--) {
            start[axis] = kind % p.classes[axis];
            kind /= p.classes[axis];
            first[axis] = 0;
            taps[axis] = p.kernel[axis];
            base[axis] = -p.padding[axis];
            positions[axis] = p.out[axis];
            if (MODE == INPUT) find_taps(axis);
        }
        const i64 row = s.row + At::ay();
        rows = (int)min_i64(p.grid.m - row, T::BM);
        a = (const E *)p.a + a_start() + row * a_step();
        place_column(min_i64(s.column + At::bx(), columns() - 1));
    }

    // Find the taps that exist for positions start + i stride, and the input position that the first of them
    // meets for i = 0.
    DEVICE_MEMBER void find_taps(int axis) {
        const i64 stride = p.stride[axis], dilation = p.dilation[axis];
        const i64 reach = start[axis] + p.padding[axis];
        i64 r = 0;
        const i64 tried = min_i64(p.every[axis], p.kernel[axis]);
        while (r < tried && (reach - r * dilation) % stride) r++;
        first[axis] = r;
        taps[axis] = r < tried ? (p.kernel[axis] - 1 - r) / p.every[axis] + 1 : 0;
        base[axis] = (reach - r * dilation) / stride;
        positions[axis] = (p.in[axis] - 1 - start[axis]) / stride + 1;
    }

    DEVICE_MEMBER i64 window() const { return p.kernel[0] * p.kernel[1]; }
    DEVICE_MEMBER i64 plane(const i64 (&size)[2]) const { return size[0] * size[1]; }
    DEVICE_MEMBER i64 columns() const {
        return MODE == WEIGHT ? p.grid.n : p.images * positions[0] * positions[1];
    }

    // Beginning and distance of the rows of A.
    DEVICE_MEMBER i64 a_start() const {
        return group * p.f * (MODE == FORWARD ? p.k : MODE == INPUT ? p.c * window() : plane(p.out));
    }
    DEVICE_MEMBER i64 a_step() const {
        return MODE == FORWARD ? p.k : MODE == INPUT ? window() : plane(p.out);
    }

    // Place column n of B: (c, r, s) for WEIGHT, else (image, position).
    DEVICE_MEMBER void place_column(i64 n) {
        if (MODE == WEIGHT) {
            const i64 r = n / p.kernel[1] % p.kernel[0], s = n % p.kernel[1];
            h = (I)(r * p.dilation[0] - p.padding[0]);
            w = (I)(s * p.dilation[1] - p.padding[1]);
            b = (const E *)p.b + (group * p.c + n / window()) * plane(p.in) + (i64)h * p.in[1] + w;
        } else {
            const i64 line = n / positions[1], image = line / positions[0];
            h = (I)(line % positions[0] * (MODE == FORWARD ? p.stride[0] : 1));
            w = (I)(n % positions[1] * (MODE == FORWARD ? p.stride[1] : 1));
            const i64 channels = MODE == FORWARD ? p.c : p.f;
            const auto &size = MODE == FORWARD ? p.in : p.out;
            b = (const E *)p.b + (image * p.groups + group) * channels * plane(size) + (i64)h * size[1] + w;
        }
    }

    // Return the number of this class's taps before tap `end` of a filter's window.
    DEVICE_MEMBER i64 taps_before(i64 end) const {
        const i64 r = end / p.kernel[1], s = end % p.kernel[1];
        const i64 lines = before(0, r), rest = before(0, r + 1) > lines ? before(1, s) : 0;
        return lines * taps[1] + rest;
    }
    DEVICE_MEMBER i64 before(int axis, i64 end) const {
        if (end <= first[axis]) return 0;
        return min_i64((end - first[axis] + p.every[axis] - 1) / p.every[axis], taps[axis]);
    }

    DEVICE_MEMBER i64 begin(i64 chunk) const {
        const i64 k = min_i64(chunk * CHUNK, p.k);
        if (MODE != INPUT) return k;
        return k / window() * taps[0] * taps[1] + taps_before(k % window());
    }

    DEVICE_MEMBER void prepare(Table &table, i64 begin, i64 end) const {
        for (int i = thread_index(); i < end - begin; i += T::THREADS) table.at[i] = tap(begin + i);
        sync_block();
    }
    DEVICE_MEMBER Tap<I> tap(i64 k) const {
        if (MODE == WEIGHT) { // (image, y, x)
            const i64 line = k / p.out[1], image = line / p.out[0];
            const i64 y = line % p.out[0] * p.stride[0], x = k % p.out[1] * p.stride[1];
            return {(I)(image * p.groups * p.f * plane(p.out) + k % plane(p.out)),
                    (I)(image * p.groups * p.c * plane(p.in) + y * p.in[1] + x), (I)y, (I)x};
        }
        const i64 line = k / taps[1], channel = line / taps[0];
        return tap_of(channel, line - channel * taps[0], k - line * taps[1]);
    }
    // Tap (i, j) of a channel; for INPUT, of those of this class.
    DEVICE_MEMBER Tap<I> tap_of(i64 channel, i64 i, i64 j) const {
        if (MODE == FORWARD) { // (c, r, s)
            const i64 y = base[0] + i * p.dilation[0], x = base[1] + j * p.dilation[1];
            return {(I)(channel * window() + i * p.kernel[1] + j),
                    (I)(channel * plane(p.in) + y * p.in[1] + x), (I)y, (I)x};
        }
        const i64 r = first[0] + i * p.every[0], s = first[1] + j * p.every[1]; // of (f, r, s)
        const i64 y = base[0] - i * p.turn[0], x = base[1] - j * p.turn[1];
        return {(I)(channel * p.c * window() + r * p.kernel[1] + s),
                (I)(channel * plane(p.out) + y * p.out[1] + x), (I)y, (I)x};
    }

    DEVICE_MEMBER void load(Slice &slice, const Table &table, i64 begin, i64 k0, i64 end) const {
        if (end - k0 >= DEPTH)
            fetch<true>(slice, table.at + (k0 - begin), DEPTH);
        else
            fetch<false>(slice, table.at + (k0 - begin), (int)(end - k0));
    }
    // NOTE: rows beyond the matrix are not fetched; products with other data in their place are not stored.
    template <bool ALL_THERE> DEVICE_MEMBER void fetch(Slice &slice, const Tap<I> *taps, int left) const {
        const i64 step = opaque(At::A_ROWS * a_step()); // see matmul.cuh
        const E *from = ALL_THERE || At::ax() < left ? a + taps[At::ax()].a : a;
#pragma unroll
        for (int i = 0; i < At::A_COUNT; i++, from += step) {
            if (!ALL_THERE && At::ax() >= left)
                slice.no_a(i);
            else
                slice.a_if(i, i * At::A_ROWS < rows, from);
        }
        const auto &size = MODE == INPUT ? p.out : p.in;
#pragma unroll
        for (int i = 0; i < At::B_COUNT; i++) {
            const int at = At::by() + i * At::B_ROWS;
            bool exists = true;
            if (!ALL_THERE && at >= left) {
                slice.no_b(i);
            } else {
                const Tap<I> tap = taps[at];
                exists = inside(tap.h + h, size[0]) && inside(tap.w + w, size[1]);
                slice.b_if(i, exists, b + tap.at);
            }
            slice.exists(i, exists);
        }
    }

    // The place of C[m, n].
    DEVICE_MEMBER i64 start_of_c() const {
        return MODE == FORWARD ? group * p.f * plane(p.out)
               : MODE == INPUT ? group * p.c * plane(p.in) + start[0] * p.in[1] + start[1]
                               : group * p.f * p.grid.n;
    }
    DEVICE_MEMBER i64 row_step() const {
        return MODE == FORWARD ? plane(p.out) : MODE == INPUT ? plane(p.in) : p.grid.n;
    }
    DEVICE_MEMBER i64 column_place(i64 n) const {
        if (n >= columns()) return -1;
        if (MODE == WEIGHT) return n;
        const i64 line = n / positions[1], image = line / positions[0];
        const i64 y = line % positions[0], x = n % positions[1];
        if (MODE == FORWARD) return image * p.groups * p.f * plane(p.out) + y * p.out[1] + x;
        return image * p.groups * p.c * plane(p.in) + y * p.stride[0] * p.in[1] + x * p.stride[1];
    }
};

template <class T, class E, int MODE, class I> DEVICE void convolve(const Convolution &p) {
    typedef Memory<T, Taps<I>> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.grid, block_index());
    const Gather<T, E, MODE, I> source(p, share);
    if (share.column >= source.columns()) return; // classes differ in size: the smaller ones need fewer tiles
    contract<T>(p.grid, share, source, memory);
}

#define CONVOLUTION(name, MODE, E)                                                                           \
    KERNEL(name##_large, Convolution, Large::THREADS, 2) {                                                   \
        convolve<Large, E, MODE, int>(p);                                                                    \
    }                                                                                                        \
    KERNEL(name##_medium, Convolution, Medium::THREADS, 3) {                                                 \
        convolve<Medium, E, MODE, int>(p);                                                                   \
    }                                                                                                        \
    KERNEL(name##_small, Convolution, Small::THREADS, 8) {                                                   \
        convolve<Small, E, MODE, int>(p);                                                                    \
    }                                                                                                        \
    KERNEL(name##_far, Convolution, Small::THREADS, 8) {                                                     \
        convolve<Small, E, MODE, i64>(p);                                                                    \
    }

#define CONVOLUTIONS(suffix, E)                                                                              \
    CONVOLUTION(conv2d##suffix, FORWARD, E)                                                                  \
    CONVOLUTION(conv2d_input_grad##suffix, INPUT, E)                                                         \
    CONVOLUTION(conv2d_weight_grad##suffix, WEIGHT, E)

#endif
