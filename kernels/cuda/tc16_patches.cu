// The matrices of a convolution of bf16 in the mode tc16, for tc16_warpgroup.cu: a copy of the image's
// patches and one of the other operand, in the order of the mode (docs/opset.md, section 2). See conv.cuh for
// letters.
//
//                 matrix (rows m)                      patches
//     FORWARD     w[f, c, r, s], columns (r, s, c)     x, rows (r, s, c), columns (image, y, x)
//     INPUT       w[f, c, r, s], columns (r, s, f)     dy, rows (r, s, f), columns (image, h, w)
//     WEIGHT      dy[f], columns (image, y, x)         x, rows (c, r, s), columns (image, y, x)
//
// For FORWARD and INPUT each tap's channels are padded to `width`, a multiple of 16. Numbers that do not
// exist are zeros. All rows begin at multiples of eight numbers.

#include "tc16_gemm.cuh"

enum Mode { FORWARD, INPUT, WEIGHT };
constexpr int PATCH_THREADS = 256;

// Rows of all groups in a row, each of so many pieces of eight numbers; below 2^31 pieces in all.
struct Pieces {
    i64 count;
    Divisor of_row, rows;
};
struct Place {
    u32 line, group, row, first; // line: of all groups; first: column of the piece
};
DEVICE Place place_of(const Pieces &p, i64 at) {
    const u32 line = near_quotient((u32)at, p.of_row), group = near_quotient(line, p.rows);
    return {line, group, line - group * (u32)p.rows.d, ((u32)at - line * (u32)p.of_row.d) * PIECE};
}

struct Patches {
    Pieces pieces;
    i64 groups, columns;
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
    const i64 plane = p.size[0] * p.size[1];
    for (i64 i = global_thread(); i < p.pieces.count; i += global_threads()) {
        const Place at = place_of(p.pieces, i);
        const u32 by = near_quotient(at.row, MODE == WEIGHT ? p.taps : p.width);
        const u32 rest = at.row - by * (u32)(MODE == WEIGHT ? p.taps.d : p.width.d);
        const int channel = (int)(MODE == WEIGHT ? by : rest), tap = (int)(MODE == WEIGHT ? rest : by);
        const int r = (int)near_quotient((u32)tap, p.taps_of_line), s = tap - r * (int)p.taps_of_line.d;
        const u32 image = near_quotient(at.first, p.plane), position = at.first - image * (u32)p.plane.d;
        int y = (int)near_quotient(position, p.line), x = (int)position - y * (int)p.line.d;
        int left = channel < p.channels ? (int)(p.columns - at.first) : 0; // columns that exist
        int h = place_on_axis<MODE>(p, 0, y, r);
        const bf16 *from = p.from + ((image * p.groups + at.group) * p.channels + channel) * plane;
        Pack<bf16, PIECE> piece;
#pragma unroll
        for (int v = 0; v < PIECE; v++, left--) {
            const int w = place_on_axis<MODE>(p, 1, x, s);
            piece.at[v] = left > 0 && h >= 0 && w >= 0 ? from[h * p.size[1] + w] : 0;
            if (++x < p.line.d) continue;
            x = 0, y++;
            if (y * p.line.d >= p.plane.d) y = 0, from += p.groups * p.channels * plane;
            h = place_on_axis<MODE>(p, 0, y, r);
        }
        *(Pack<bf16, PIECE> *)(p.to + (i64)PIECE * i) = piece;
    }
}

// Number (group, row, (a, b)), b < inner.d, is at group * group_step + row * row_step + a * a_step + b *
// b_step, if b < there.
struct Rearranged {
    Pieces pieces;
    i64 columns;
    Divisor inner;
    i64 there, group_step, row_step, a_step, b_step;
    const bf16 *from;
    bf16 *to;
};
KERNEL(tc16_rearranged, Rearranged, PATCH_THREADS, 1) {
    for (i64 i = global_thread(); i < p.pieces.count; i += global_threads()) {
        const Place at = place_of(p.pieces, i);
        const bf16 *from = p.from + at.group * p.group_step + at.row * p.row_step;
        Pack<bf16, PIECE> piece;
#pragma unroll
        for (int v = 0; v < PIECE; v++) {
            const u32 column = at.first + v, a = near_quotient(column, p.inner),
                      b = column - a * (u32)p.inner.d;
            piece.at[v] = column < p.columns && b < p.there ? from[a * p.a_step + b * p.b_step] : 0;
        }
        *(Pack<bf16, PIECE> *)(p.to + (i64)PIECE * i) = piece;
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
