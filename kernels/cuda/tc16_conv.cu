// conv2d and its gradients of bf16 in the mode tc16: the contraction of tc16_gemm.cuh, whose B is gathered
// from an image (conv.cuh), in another order: k is (r, s, c), and each tap's channels are padded to whole
// blocks. For conv2d_weight_grad it is (n, y, x).
//
// Terms that do not exist are zeros in B. Where they meet a factor of A that is not finite, the result is NaN
// instead of what it should be; so every NaN is computed again, by the rule, from the terms that exist.

#include "tc16_gemm.cuh"
#include "conv.cuh"

template <class T, int MODE, class I> struct Patches : Gather<T, bf16, MODE, I> {
    static constexpr bool pairs = false;
    typedef Gather<T, bf16, MODE, I> Base;
    using Base::p;

    const bf16 *matrix;   // row 0 of A
    i64 first_row, width; // of a tap, with its padding
    DEVICE_MEMBER Patches(const Convolution &p_, const Share &s) : Base(p_, s), first_row(s.row) {
        matrix = (const bf16 *)p.a + this->a_start();
        width = (channels() + TC16_TERMS - 1) / TC16_TERMS * TC16_TERMS;
    }
    DEVICE_MEMBER i64 channels() const { return MODE == FORWARD ? p.c : p.f; }

    // The numbers of an INPUT's class are those of its taps, one after the other; its chunks are still those
    // of all taps.
    DEVICE_MEMBER i64 begin(i64 chunk) const {
        if (MODE == WEIGHT) return min_i64(chunk * CHUNK, p.k);
        const i64 k = min_i64(chunk * CHUNK, this->window() * width);
        if (MODE == FORWARD) return k;
        const i64 place = k / width, before = this->taps_before(place);
        const bool own = place < this->window() && this->taps_before(place + 1) > before;
        return before * width + (own ? k % width : 0);
    }
    // Find term k; return whether it exists for some column.
    DEVICE_MEMBER bool find(i64 k, Tap<I> &tap) const {
        if (MODE == WEIGHT) {
            tap = this->tap(k);
            return true;
        }
        const I place = (I)k / (I)width, channel = (I)k - place * (I)width, i = place / (I)this->taps[1];
        if (channel >= channels()) return false;
        tap = this->tap_of(channel, i, place - i * (I)this->taps[1]);
        return true;
    }
    DEVICE_MEMBER bool is_inside(I y, I x) const {
        const auto &size = MODE == INPUT ? p.out : p.in;
        return inside(y, size[0]) && inside(x, size[1]);
    }

    // A lane finds one k. It has that of every row of A; for B, where it has a column, it is told of all.
    DEVICE_MEMBER void load(CoreStage<T> &stage, i64 k0, i64 end) const {
        constexpr int WARPS = T::THREADS / WARP, B_ROWS = T::THREADS / T::BN;
        const int lane = thread_index() % WARP;
        Tap<I> own = {0, 0, 0, 0};
        const bool there = k0 + lane < end && find(k0 + lane, own);
        const i64 rows = p.grid.m - first_row, step = this->a_step();
        const bf16 *from = matrix + first_row * step + own.a;
#pragma unroll 4
        for (int row = thread_index() / WARP; row < T::BM; row += WARPS)
            stage.piece_of_a(row, lane / PIECE)[lane % PIECE] = there && row < rows ? from[row * step] : 0;
        const u32 all = lanes_where(there);
        const int column = thread_index() % T::BN;
#pragma unroll 4
        for (int k = thread_index() / T::BN; k < CORE_DEPTH; k += B_ROWS) {
            const I at = from_lane(own.at, k), y = from_lane(own.h, k), x = from_lane(own.w, k);
            const bool exists = (all >> k & 1) && is_inside(y + this->h, x + this->w);
            stage.piece_of_b(k, column / PIECE)[column % PIECE] = exists ? this->b[at] : 0;
        }
    }

    // Compute the element of a row and this thread's column by the rule.
    DEVICE_MEMBER float again(i64 row) const {
        float total = minus_zero();
        for (i64 chunk = 0; chunk < p.grid.chunks; chunk++) {
            const i64 end = begin(chunk + 1);
            uint32_t acc = 0;
            for (i64 k = begin(chunk); k < end; k += TC16_TERMS) {
                tc16_sum sum;
                tc16_begin(&sum);
                for (i64 i = k; i < min_i64(k + TC16_TERMS, end); i++) {
                    Tap<I> tap;
                    if (find(i, tap) && is_inside(tap.h + this->h, tap.w + this->w))
                        tc16_add_product(&sum, matrix[row * this->a_step() + tap.a], this->b[tap.at]);
                }
                acc = tc16_end(&sum, acc);
                if (acc == TC16_NAN) return f32_of((int32_t)acc); // nothing makes a number of it again
            }
            total = add_rn(total, f32_of((int32_t)acc));
        }
        return total;
    }
};

template <class T, int MODE, class I> DEVICE void convolve_on_cores(const Convolution &p) {
    typedef CoreMemory<T> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.grid, block_index());
    const Patches<T, MODE, I> source(p, share);
    if (share.column >= source.columns()) return; // see conv.cuh
    contract_on_cores<T>(p.grid, share, source, memory);
}

constexpr int AGAIN_THREADS = 128;

// Where an element of the result is in the contraction: row, column, and batch of the grid.
template <int MODE> DEVICE Share place_of(const Convolution &p, i64 at) {
    Share s = {0, 0, 0, 0, 0};
    if (MODE == WEIGHT) {
        const i64 line = at / p.grid.n;
        s.column = at - line * p.grid.n, s.row = line % p.f, s.batch = line / p.f;
        return s;
    }
    const auto &size = MODE == FORWARD ? p.out : p.in;
    const i64 channels = MODE == FORWARD ? p.f : p.c;
    const i64 line = at / size[1], plane = line / size[0], image = plane / (p.groups * channels);
    const i64 place[2] = {line % size[0], at - line * size[1]};
    i64 kind = 0, positions[2], position[2];
    for (int axis = 0; axis < 2; axis++) { // INPUT: of its class
        const i64 step = MODE == INPUT ? p.stride[axis] : 1, first = place[axis] % step;
        kind = kind * p.classes[axis] + first;
        positions[axis] = (size[axis] - 1 - first) / step + 1;
        position[axis] = place[axis] / step;
    }
    s.row = plane % channels;
    s.column = (image * positions[0] + position[0]) * positions[1] + position[1];
    s.batch = kind * p.groups + plane / channels % p.groups;
    return s;
}

template <int MODE> DEVICE void compute_again(const Convolution &p) {
    const bool narrow = !p.grid.total;
    for (i64 at = global_thread(); at < p.grid.out_elements; at += global_threads()) {
        if (!is_nan(narrow ? from_bf16(((const bf16 *)p.grid.out)[at]) : p.grid.total[at])) continue;
        const Share s = place_of<MODE>(p, at);
        Patches<SmallCores, MODE, i64> source(p, {0, 0, 0, 0, s.batch});
        source.place_column(s.column);
        const float x = source.again(s.row);
        if (narrow)
            ((bf16 *)p.grid.out)[at] = to_bf16(x);
        else
            p.grid.total[at] = x;
    }
}

#define CONVOLUTION_ON_CORES(name, MODE)                                                                     \
    KERNEL(tc16_##name##_small, Convolution, SmallCores::THREADS, 2) {                                       \
        convolve_on_cores<SmallCores, MODE, int>(p);                                                         \
    }                                                                                                        \
    KERNEL(tc16_##name##_far, Convolution, SmallCores::THREADS, 2) {                                         \
        convolve_on_cores<SmallCores, MODE, i64>(p);                                                         \
    }                                                                                                        \
    KERNEL(tc16_##name##_again, Convolution, AGAIN_THREADS, 4) {                                             \
        compute_again<MODE>(p);                                                                              \
    }

CONVOLUTION_ON_CORES(conv2d, FORWARD)
CONVOLUTION_ON_CORES(conv2d_input_grad, INPUT)
CONVOLUTION_ON_CORES(conv2d_weight_grad, WEIGHT)
