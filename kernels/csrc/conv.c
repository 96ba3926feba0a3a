// conv2d and its two gradients: the contraction of gemm.h, whose B is an image.
//
// Letters: N images, G groups, C input channels of a group, F filters of a group, (H, W) input, (Y, X)
// output, (R, S) kernel; s stride, p padding, d dilation.
//
//               rows   columns     taps        A    B at (column, tap)
//     forward   f      (n, y, x)   (c, r, s)   w    x[n, c, y s - p + r d, ...]
//     input     c      (n, h, w)   (f, r, s)   w    dy[n, f, (h + p - r d) / s, ...]
//     weight    f      (c, r, s)   (n, y, x)   dy   x[n, c, y s - p + r d, ...]
//
// The batch of the contraction is the groups.

#include "gemm.h"

typedef struct {
    int64_t n, g, c, f; // c and f of one group
    int64_t h, w, y, x, r, s;
    int64_t stride[2], padding[2], dilation[2];
} convolution;

// Attributes are stride, padding, dilation, groups, each pair preceded by its count.
static convolution convolution_of(const signature *sig, const tensor *x, const tensor *w, const tensor *y) {
    const int64_t *attr = attributes(sig);
    return (convolution){
        .n = x->dim[0],
        .g = attr[9],
        .c = w->dim[1],
        .f = w->dim[0] / attr[9],
        .h = x->dim[2],
        .w = x->dim[3],
        .y = y->dim[2],
        .x = y->dim[3],
        .r = w->dim[2],
        .s = w->dim[3],
        .stride = {attr[1], attr[2]},
        .padding = {attr[4], attr[5]},
        .dilation = {attr[7], attr[8]},
    };
}

// The lowest and the highest value of at(column) + at(tap).
typedef struct {
    int64_t low, high;
} extent;

static extent extent_of(const gemm *g, const linear *column, const linear *tap) {
    extent e = {column->start + tap->start, column->start + tap->start};
    for (int i = 0; i < LOOPS; i++) {
        const int64_t ends[2] = {(g->columns.size[i] - 1) * column->stride[i],
                                 (g->taps.size[i] - 1) * tap->stride[i]};
        for (int j = 0; j < 2; j++) {
            e.low += min_i64(ends[j], 0);
            e.high += max_i64(ends[j], 0);
        }
    }
    return e;
}

// NOTE: unsigned, because far from the image (gemm.h) it wraps around.
static int64_t place(int64_t y, int64_t wide, int64_t x) {
    return (int64_t)((uint64_t)y * (uint64_t)wide + (uint64_t)x);
}

// B[column, tap] is row y(column) + y(tap), column x(column) + x(tap) of a plane; b_column and b_tap come
// with the place of the plane.
static int run(gemm *g, int64_t high, int64_t wide, call c) {
    g->high = high, g->wide = wide;
    g->b_column.start = place(g->y_column.start, wide, g->x_column.start);
    for (int i = 0; i < LOOPS; i++) {
        g->b_column.stride[i] += place(g->y_column.stride[i], wide, g->x_column.stride[i]);
        g->b_tap.stride[i] += place(g->y_tap.stride[i], wide, g->x_tap.stride[i]);
    }
    const extent y = extent_of(g, &g->y_column, &g->y_tap), x = extent_of(g, &g->x_column, &g->x_tap);
    g->image = y.low < 0 || y.high >= high || x.low < 0 || x.high >= wide;
    g->far = (double)max_i64(-y.low, y.high) * (double)wide > 0x1p61;
    return gemm_run(g, c.threads, c.isa);
}

OPERATOR(conv2d) {
    const convolution v = convolution_of(sig, input(sig, 0), input(sig, 1), output(sig, 0));
    const int64_t window = v.r * v.s, in = v.h * v.w, out = v.y * v.x;
    gemm g = {
        .batch = v.g,
        .rows = v.f,
        .columns = {{v.n, v.y, v.x}},
        .taps = {{v.c, v.r, v.s}},
        .a = data[1],
        .a_batch = v.f * v.c * window,
        .a_row = v.c * window,
        .a_tap = {0, {window, v.s, 1}},
        .number = {0, {window, v.s, 1}},
        .b = data[0],
        .b_batch = v.c * in,
        .b_column = {0, {v.g * v.c * in, 0, 0}},
        .b_tap = {0, {in, 0, 0}},
        .b_size = v.n * v.g * v.c * in,
        .y_column = {-v.padding[0], {0, v.stride[0], 0}},
        .x_column = {-v.padding[1], {0, 0, v.stride[1]}},
        .y_tap = {0, {0, v.dilation[0], 0}},
        .x_tap = {0, {0, 0, v.dilation[1]}},
        .c = data[2],
        .c_batch = v.f * out,
        .c_row = out,
        .c_column = {0, {v.g * v.f * out, v.x, 1}},
    };
    return run(&g, v.h, v.w, CALL);
}

OPERATOR(conv2d_weight_grad) {
    const convolution v = convolution_of(sig, input(sig, 1), output(sig, 0), input(sig, 0));
    const int64_t window = v.r * v.s, in = v.h * v.w, out = v.y * v.x;
    gemm g = {
        .batch = v.g,
        .rows = v.f,
        .columns = {{v.c, v.r, v.s}},
        .taps = {{v.n, v.y, v.x}},
        .a = data[0],
        .a_batch = v.f * out,
        .a_row = out,
        .a_tap = {0, {v.g * v.f * out, v.x, 1}},
        .number = {0, {out, v.x, 1}},
        .b = data[1],
        .b_batch = v.c * in,
        .b_column = {0, {in, 0, 0}},
        .b_tap = {0, {v.g * v.c * in, 0, 0}},
        .b_size = v.n * v.g * v.c * in,
        .y_column = {-v.padding[0], {0, v.dilation[0], 0}},
        .x_column = {-v.padding[1], {0, 0, v.dilation[1]}},
        .y_tap = {0, {0, v.stride[0], 0}},
        .x_tap = {0, {0, 0, v.stride[1]}},
        .c = data[2],
        .c_batch = v.f * v.c * window,
        .c_row = v.c * window,
        .c_column = {0, {window, v.s, 1}},
    };
    return run(&g, v.h, v.w, CALL);
}

// ------------------------------------------------------------------------------------------- input gradient

// Along one axis, the positions phase, phase + stride, ... of the input, and the taps that exist for them,
// first, first + step, ...: tap i of position j reads output (j + start) - i * turn.
typedef struct {
    int64_t phase, positions, taps, first, step, start, turn;
} class;

static class class_of(int64_t phase, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                      int64_t dilation) {
    int64_t first = 0, step = 1;
    while (first < kernel && (phase + padding - first * dilation) % stride) first++;
    while (step < kernel && step * dilation % stride) step++;
    return (class){
        .phase = phase,
        .positions = ceil_div(size - phase, stride),
        .taps = first < kernel ? (kernel - 1 - first) / step + 1 : 0,
        .first = first,
        .step = step,
        .start = (phase + padding - first * dilation) / stride,
        .turn = step * dilation / stride,
    };
}

// With a stride, an input position is read by a part of the taps only, the same for all positions that lie a
// multiple of the stride apart.
static int input_grad_of(const convolution *v, const class *y, const class *x, call c) {
    const int64_t window = v->r * v->s, in = v->h * v->w, out = v->y * v->x;
    gemm g = {
        .batch = v->g,
        .rows = v->c,
        .columns = {{v->n, y->positions, x->positions}},
        .taps = {{v->f, y->taps, x->taps}},
        .a = c.data[1],
        .a_batch = v->f * v->c * window,
        .a_row = window,
        .a_tap = {y->first * v->s + x->first, {v->c * window, y->step * v->s, x->step}},
        .number = {y->first * v->s + x->first, {window, y->step * v->s, x->step}},
        .b = c.data[0],
        .b_batch = v->f * out,
        .b_column = {0, {v->g * v->f * out, 0, 0}},
        .b_tap = {0, {out, 0, 0}},
        .b_size = v->n * v->g * v->f * out,
        .y_column = {y->start, {0, 1, 0}},
        .x_column = {x->start, {0, 0, 1}},
        .y_tap = {0, {0, -y->turn, 0}},
        .x_tap = {0, {0, 0, -x->turn}},
        .c = c.data[2],
        .c_batch = v->c * in,
        .c_row = in,
        .c_column = {y->phase * v->w + x->phase, {v->g * v->c * in, v->stride[0] * v->w, v->stride[1]}},
    };
    return run(&g, v->y, v->x, c);
}

OPERATOR(conv2d_input_grad) {
    const convolution v = convolution_of(sig, output(sig, 0), input(sig, 1), input(sig, 0));
    int failed = 0;
    for (int64_t i = 0; i < min_i64(v.stride[0], v.h); i++)
        for (int64_t j = 0; j < min_i64(v.stride[1], v.w); j++) {
            const class y = class_of(i, v.h, v.r, v.stride[0], v.padding[0], v.dilation[0]);
            const class x = class_of(j, v.w, v.s, v.stride[1], v.padding[1], v.dilation[1]);
            failed |= input_grad_of(&v, &y, &x, CALL);
        }
    return failed;
}
