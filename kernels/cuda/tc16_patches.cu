// The matrices of a convolution of bf16 in the mode tc16, for tc16_warpgroup.cu: a copy of the image's patches
// and one of the other operand, in the order of the mode (docs/opset.md, section 2). See conv.cuh for letters.
//
//                 matrix (rows m)                      patches
//     FORWARD     w[f, c, r, s], columns (r, s, c)     x, rows (r, s, c), columns (image, y, x)
//     INPUT       w[f, c, r, s], columns (r, s, f)     dy, rows (r, s, f), columns (image, h, w)
//     WEIGHT      dy[f], columns (image, y, x)         x, rows (c, r, s), columns (image, y, x)
//
// For FORWARD and INPUT each tap's channels are padded to `width`, a multiple of 16. Numbers that do not exist
// are zeros. All rows begin at multiples of eight numbers.

#include "tc16_gemm.cuh"

enum Mode { FORWARD, INPUT, WEIGHT };
constexpr int PATCH_THREADS = 256;

struct Patches {
    i64 groups, rows, pitch, columns;
    i64 channels; // of one group
    Divisor width, taps, taps_of_line;
    i64 size[2];         // of a plane of `from`
    Divisor plane, line; // positions of an image, and of one of its lines
    i64 stride[2], padding[2], dilation[2];
    const bf16 *from;
    bf16 *to;
};

// The place in a plane's axis that a position's tap meets; negative if there is none.
template <int MODE> DEVICE int place_on_axis(const Patches &p, int axis, int position, int tap) {
    const int by = (int)p.stride[axis], from = (int)p.padding[axis], every = (int)p.dilation[axis];
    int at;
    if (MODE == INPUT) {
        at = position + from - tap * every;
        if (at < 0 || at % by) return -1;
        at /= by;
    } else {
        at = position * by - from + tap * every;
    }
    return at < p.size[axis] ? at : -1;
}

template <int MODE> DEVICE void copy_patches(const Patches &p) {
    const i64 pieces = p.pitch / PIECE;
    for (i64 i = global_thread(); i < p.groups * p.rows * pieces; i += global_threads()) {
        const i64 line = i / pieces, group = line / p.rows;
        const u32 row = (u32)(line - group * p.rows), first = (u32)(i - line * pieces) * PIECE;
        const u32 by = near_quotient(row, MODE == WEIGHT ? p.taps : p.width);
        const u32 rest = row - by * (u32)(MODE == WEIGHT ? p.taps.d : p.width.d);
        const int channel = (int)(MODE == WEIGHT ? by : rest), tap = (int)(MODE == WEIGHT ? rest : by);
        const int r = (int)near_quotient((u32)tap, p.taps_of_line), s = tap - r * (int)p.taps_of_line.d;
        u32 image = near_quotient(first, p.plane);
        const u32 position = first - image * (u32)p.plane.d;
        int y = (int)near_quotient(position, p.line), x = (int)position - y * (int)p.line.d;
        const i64 plane = p.size[0] * p.size[1];
        Pack<bf16, PIECE> piece;
#pragma unroll
        for (int v = 0; v < PIECE; v++) {
            const int h = place_on_axis<MODE>(p, 0, y, r), w = place_on_axis<MODE>(p, 1, x, s);
            const bool there = first + v < p.columns && channel < p.channels && h >= 0 && w >= 0;
            const i64 of = (image * p.groups + group) * p.channels + channel;
            piece.at[v] = there ? p.from[of * plane + h * p.size[1] + w] : 0;
            if (++x < p.line.d) continue;
            x = 0;
            if (++y * p.line.d < p.plane.d) continue;
            y = 0, image++;
        }
        *(Pack<bf16, PIECE> *)(p.to + line * p.pitch + first) = piece;
    }
}

// Number (group, row, (a, b)), b < inner.d, is at group * group_step + row * row_step + a * a_step + b * b_step, if
// b < there.
struct Rearranged {
    i64 groups, rows, pitch, columns;
    Divisor inner;
    i64 there, group_step, row_step, a_step, b_step;
    const bf16 *from;
    bf16 *to;
};
KERNEL(tc16_rearranged, Rearranged, PATCH_THREADS, 1) {
    const i64 pieces = p.pitch / PIECE;
    for (i64 i = global_thread(); i < p.groups * p.rows * pieces; i += global_threads()) {
        const i64 line = i / pieces, group = line / p.rows, row = line - group * p.rows;
        const u32 first = (u32)(i - line * pieces) * PIECE;
        Pack<bf16, PIECE> piece;
#pragma unroll
        for (int v = 0; v < PIECE; v++) {
            const u32 column = first + v, a = near_quotient(column, p.inner), b = column - a * (u32)p.inner.d;
            const i64 at = group * p.group_step + row * p.row_step + a * p.a_step + b * p.b_step;
            piece.at[v] = column < p.columns && b < p.there ? p.from[at] : 0;
        }
        *(Pack<bf16, PIECE> *)(p.to + line * p.pitch + first) = piece;
    }
}

KERNEL(tc16_patches_conv2d, Patches, PATCH_THREADS, 1) {
    copy_patches<FORWARD>(p);
}
KERNEL(tc16_patches_conv2d_input_grad, Patches, PATCH_THREADS, 1) {
    copy_patches<INPUT>(p);
}
KERNEL(tc16_patches_conv2d_weight_grad, Patches, PATCH_THREADS, 1) {
    copy_patches<WEIGHT>(p);
}
