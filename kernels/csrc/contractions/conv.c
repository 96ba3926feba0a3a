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

#include "depthwise.h"
#include "exact/exact_gemm.h"
#include "gemm/gemm.h"
#include "tensorcore/tc16_gemm.h"

// How products are summed.
typedef struct {
    contraction *run;
    int binary64;  // results are binary64
    int bf16;      // factors and results are bf16
    int64_t panel; // columns that are multiplied at once
} arithmetic;

static const arithmetic binary32 = {gemm_run, 0, 0, 32}, binary64 = {gemm_run, 1, 0, 16},
                        of_bf16 = {gemm_run, 0, 1, 32}, exactly = {exact_gemm_run, 0, 0, 16},
                        exactly_bf16 = {exact_gemm_run, 0, 1, 16}, by_blocks = {tc16_gemm_run, 0, 1, 64};

typedef struct {
    int64_t n, g, c, f; // c and f of one group
    int64_t h, w, y, x, r, s;
    int64_t stride[2], padding[2], dilation[2];
    const arithmetic *how;
} convolution;

// Attributes: stride, padding and dilation, each preceded by its count, then groups.
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

static extent extent_of(const part *p, const linear *column, const linear *tap) {
    extent e = {column->start + tap->start, column->start + tap->start};
    for (int i = 0; i < LOOPS; i++) {
        const int64_t ends[2] = {(p->columns.size[i] - 1) * column->stride[i],
                                 (p->taps.size[i] - 1) * tap->stride[i]};
        for (int j = 0; j < 2; j++) {
            e.low += min_i64(ends[j], 0);
            e.high += max_i64(ends[j], 0);
        }
    }
    return e;
}

// NOTE: the arithmetic is unsigned, because places far from the image (gemm.h) wrap around.
static int64_t place(int64_t y, int64_t wide, int64_t x) {
    return (int64_t)((uint64_t)y * (uint64_t)wide + (uint64_t)x);
}

// B[column, tap] is row y(column) + y(tap), column x(column) + x(tap) of a plane; b_column and b_tap contain
// the place of the plane.
static void place_in_image(part *p, int64_t high, int64_t wide) {
    p->b_column.start = place(p->y_column.start, wide, p->x_column.start);
    for (int i = 0; i < LOOPS; i++) {
        p->b_column.stride[i] += place(p->y_column.stride[i], wide, p->x_column.stride[i]);
        p->b_tap.stride[i] += place(p->y_tap.stride[i], wide, p->x_tap.stride[i]);
    }
    const extent y = extent_of(p, &p->y_column, &p->y_tap), x = extent_of(p, &p->x_column, &p->x_tap);
    p->image = y.low < 0 || y.high >= high || x.low < 0 || x.high >= wide;
    p->far = (double)max_i64(-y.low, y.high) * (double)wide > 0x1p61;
}

// Return how many images take turns, row by row, if rows are short. One row of all these images fills a
// panel; for such a panel, taps above and below the image do not exist at all.
static int64_t images_together(int64_t images, int64_t row, int64_t kernel, int64_t panel) {
    if (kernel == 1 || (4 * row > panel && 2 * row != panel)) return 1;
    int64_t together = max_i64(1, min_i64(images, panel / max_i64(row, 1)));
    while (images % together) together--;
    return together;
}

// With one channel and one filter in a group, sums in binary32 have an implementation of their own.
static int in_planes(const convolution *v, const arithmetic *how) {
    return v->c == 1 && v->f == 1 && v->r <= LONGEST && v->s <= LONGEST && how->run == gemm_run &&
           !how->binary64;
}

// Run a contraction with the terms of `all`, which is its part or, with several parts, all of them.
static int run(gemm *g, part *all, const arithmetic *how, call k) {
    g->number = all->number;
    if (how->run == tc16_gemm_run) tc16_turn(all), tc16_turn_rows(g);
    return how->run(g, k.threads, k.isa);
}

static int forward(call k, const arithmetic *how) {
    const convolution v = convolution_of(k.sig, input(k.sig, 0), input(k.sig, 1), output(k.sig, 0));
    if (in_planes(&v, how) && v.stride[0] == 1 && v.stride[1] == 1) {
        const depthwise d = {v.n,
                             v.g,
                             {v.h, v.w},
                             {v.y, v.x},
                             {v.r, v.s},
                             {1, 1},
                             {v.padding[0], v.padding[1]},
                             {v.dilation[0], v.dilation[1]},
                             how->bf16,
                             k.data[0],
                             k.data[1],
                             k.data[2]};
        if (depthwise_takes(&d, v.g * v.r * v.s, k)) return depthwise_planes(&d, 0, k);
    }
    const int64_t window = v.r * v.s, in = v.h * v.w, out = v.y * v.x;
    const int64_t together = images_together(v.n, v.x, v.r, how->panel);
    part all = {
        .columns = {{v.n / together, v.y, together, v.x}},
        .taps = {{1, v.c, v.r, v.s}},
        .number = {0, {0, window, v.s, 1}},
        .b_column = {0, {together * v.g * v.c * in, 0, v.g * v.c * in, 0}},
        .b_tap = {0, {0, in, 0, 0}},
        .y_column = {-v.padding[0], {0, v.stride[0], 0, 0}},
        .x_column = {-v.padding[1], {0, 0, 0, v.stride[1]}},
        .y_tap = {0, {0, 0, v.dilation[0], 0}},
        .x_tap = {0, {0, 0, 0, v.dilation[1]}},
        .c_column = {0, {together * v.g * v.f * out, v.x, v.g * v.f * out, 1}},
    };
    place_in_image(&all, v.h, v.w);
    gemm g = {
        .batch = v.g,
        .rows = v.f,
        .taps = all.taps,
        .a = k.data[1],
        .a_batch = v.f * v.c * window,
        .a_row = v.c * window,
        .a_tap = all.number,
        .b = k.data[0],
        .b_batch = v.c * in,
        .b_size = v.n * v.g * v.c * in,
        .c = k.data[2],
        .c_batch = v.f * out,
        .c_row = out,
        .high = v.h,
        .wide = v.w,
        .binary64 = how->binary64,
        .bf16 = output(k.sig, 0)->dtype == BF16,
        .parts = 1,
        .columns = count_of(&all.columns),
        .find_part = only_part,
        .context = &all,
    };
    return run(&g, &all, how, k);
}

static int weight_grad(call k, const arithmetic *how) {
    const convolution v = convolution_of(k.sig, input(k.sig, 1), output(k.sig, 0), input(k.sig, 0));
    if (in_planes(&v, how) && v.dilation[1] == 1) {
        const depthwise d = {v.n,
                             v.g,
                             {v.h, v.w},
                             {v.y, v.x},
                             {v.r, v.s},
                             {v.stride[0], v.stride[1]},
                             {v.padding[0], v.padding[1]},
                             {v.dilation[0], 1},
                             how->bf16,
                             k.data[1],
                             k.data[0],
                             k.data[2]};
        if (depthwise_takes(&d, v.n * v.g * v.y * v.x, k)) return depthwise_filters(&d, k);
    }
    const int64_t window = v.r * v.s, in = v.h * v.w, out = v.y * v.x;
    part all = {
        .columns = {{1, v.c, v.r, v.s}},
        .taps = {{1, v.n, v.y, v.x}},
        .number = {0, {0, out, v.x, 1}},
        .b_column = {0, {0, in, 0, 0}},
        .b_tap = {0, {0, v.g * v.c * in, 0, 0}},
        .y_column = {-v.padding[0], {0, 0, v.dilation[0], 0}},
        .x_column = {-v.padding[1], {0, 0, 0, v.dilation[1]}},
        .y_tap = {0, {0, 0, v.stride[0], 0}},
        .x_tap = {0, {0, 0, 0, v.stride[1]}},
        .c_column = {0, {0, window, v.s, 1}},
    };
    place_in_image(&all, v.h, v.w);
    const gemm g = {
        .batch = v.g,
        .rows = v.f,
        .taps = all.taps,
        .a = k.data[0],
        .a_batch = v.f * out,
        .a_row = out,
        .a_tap = {0, {0, v.g * v.f * out, v.x, 1}},
        .number = all.number,
        .b = k.data[1],
        .b_batch = v.c * in,
        .b_size = v.n * v.g * v.c * in,
        .c = k.data[2],
        .c_batch = v.f * v.c * window,
        .c_row = v.c * window,
        .high = v.h,
        .wide = v.w,
        .binary64 = how->binary64,
        .bf16 = output(k.sig, 0)->dtype == BF16,
        .parts = 1,
        .columns = count_of(&all.columns),
        .find_part = only_part,
        .context = &all,
    };
    return how->run(&g, k.threads, k.isa);
}

// ------------------------------------------------------------------------------------------- input gradient

// Along one axis: the input positions phase, phase + stride, ... and the taps that exist for them, first,
// first + step, ...: tap i of position j reads output (j + start) - i * turn.
typedef struct {
    int64_t phase, positions, taps, first, step, start, turn;
} class;

static int64_t gcd(int64_t a, int64_t b) {
    while (b) {
        const int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

// Return x with a x = 1 modulo m, for a and m without a common divisor: Euclid's algorithm.
static int64_t inverse(int64_t a, int64_t m) {
    int64_t old = 1, now = 0, high = a % m, low = m;
    while (low) {
        const int64_t quotient = high / low, rest = high % low, next = old - quotient * now;
        high = low, low = rest, old = now, now = next;
    }
    return (old % m + m) % m;
}

static class class_of(int64_t phase, int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                      int64_t dilation) {
    // SAFETY: a stranger's stride and kernel may be so large that nobody can try one tap after the other.
    const int64_t common = gcd(stride, dilation), step = stride / common;
    const int64_t target = (phase + padding) % stride;
    // first * dilation = target modulo stride: if there is a solution, the least is below `step`.
    const int64_t first =
        target % common ? kernel : target / common * inverse(dilation / common, step) % step;
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

// With a stride, only some taps read an input position, and they are the same for all positions that are a
// multiple of the stride apart. Each such set of positions is one part of the contraction.
static void input_grad_part(const void *context, int64_t i, part *p) {
    const convolution *v = context;
    const int64_t window = v->r * v->s, in = v->h * v->w, out = v->y * v->x;
    const int64_t across = min_i64(v->stride[1], v->w);
    const class y = class_of(i / across, v->h, v->r, v->stride[0], v->padding[0], v->dilation[0]);
    const class x = class_of(i % across, v->w, v->s, v->stride[1], v->padding[1], v->dilation[1]);
    const int64_t together = images_together(v->n, x.positions, v->r, v->how->panel);
    *p = (part){
        .columns = {{v->n / together, y.positions, together, x.positions}},
        .taps = {{1, v->f, y.taps, x.taps}},
        .number = {y.first * v->s + x.first, {0, window, y.step * v->s, x.step}},
        .b_column = {0, {together * v->g * v->f * out, 0, v->g * v->f * out, 0}},
        .b_tap = {0, {0, out, 0, 0}},
        .y_column = {y.start, {0, 1, 0, 0}},
        .x_column = {x.start, {0, 0, 0, 1}},
        .y_tap = {0, {0, 0, -y.turn, 0}},
        .x_tap = {0, {0, 0, 0, -x.turn}},
        .c_column = {y.phase * v->w + x.phase,
                     {together * v->g * v->c * in, v->stride[0] * v->w, v->g * v->c * in, v->stride[1]}},
    };
    place_in_image(p, v->y, v->x);
    if (v->how->run == tc16_gemm_run) tc16_turn(p);
}

typedef struct {
    void *to;
    const arithmetic *how;
} filled;

static void fill(void *context, int64_t begin, int64_t end) {
    const filled *c = context;
    for (int64_t i = begin; i < end; i++)
        if (c->how->binary64)
            ((double *)c->to)[i] = -0.0;
        else if (c->how->bf16)
            ((uint16_t *)c->to)[i] = 0x8000;
        else
            ((float *)c->to)[i] = -0.0f;
}

static int input_grad(call k, const arithmetic *how) {
    convolution v = convolution_of(k.sig, output(k.sig, 0), input(k.sig, 1), input(k.sig, 0));
    v.how = how;
    if (in_planes(&v, how) && v.stride[0] == 1 && v.stride[1] == 1) {
        const int64_t down = v.dilation[0] * (v.r - 1) - v.padding[0];
        const int64_t across = v.dilation[1] * (v.s - 1) - v.padding[1];
        const depthwise d = {v.n,        v.g,       {v.y, v.x},     {v.h, v.w},
                             {v.r, v.s}, {1, 1},    {down, across}, {v.dilation[0], v.dilation[1]},
                             how->bf16,  k.data[0], k.data[1],      k.data[2]};
        if (depthwise_takes(&d, v.g * v.r * v.s, k)) return depthwise_planes(&d, 1, k);
    }
    // If the stride exceeds the kernel, no tap reads most positions.
    const int few = how->run == gemm_run && (v.r < v.stride[0] || v.s < v.stride[1]);
    filled all = {k.data[2], how};
    if (few) parallel(k.threads, elements(output(k.sig, 0)), THREAD_WORK, fill, &all);
    const int64_t window = v.r * v.s, in = v.h * v.w, out = v.y * v.x;
    gemm g = {
        .batch = v.g,
        .rows = v.c,
        .taps = {{1, v.f, v.r, v.s}},
        .a = k.data[1],
        .a_batch = v.f * v.c * window,
        .a_row = window,
        .a_tap = {0, {0, v.c * window, v.s, 1}},
        .b = k.data[0],
        .b_batch = v.f * out,
        .b_size = v.n * v.g * v.f * out,
        .c = k.data[2],
        .c_batch = v.c * in,
        .c_row = in,
        .high = v.y,
        .wide = v.x,
        .binary64 = how->binary64,
        .bf16 = output(k.sig, 0)->dtype == BF16,
        .parts = min_i64(v.stride[0], v.h) * min_i64(v.stride[1], v.w),
        .columns = v.n * ceil_div(v.h, v.stride[0]) * ceil_div(v.w, v.stride[1]),
        .filled = few,
        .find_part = input_grad_part,
        .context = &v,
    };
    part terms = {.taps = g.taps, .number = {0, {0, window, v.s, 1}}};
    return run(&g, &terms, how, k);
}

// ------------------------------------------------------------------------------------------------- operators

#define CONVOLUTIONS(prefix, how)                                                                            \
    OPERATOR(prefix##conv2d) {                                                                               \
        return forward(CALL, &how);                                                                          \
    }                                                                                                        \
    OPERATOR(prefix##conv2d_weight_grad) {                                                                   \
        return weight_grad(CALL, &how);                                                                      \
    }                                                                                                        \
    OPERATOR(prefix##conv2d_input_grad) {                                                                    \
        return input_grad(CALL, &how);                                                                       \
    }
CONVOLUTIONS(, binary32)
CONVOLUTIONS(bf16_, of_bf16)
// In an order of their own (repops/f64/conv.py). No tap that does not exist is multiplied, unless by zero.
CONVOLUTIONS(f64_, binary64)
CONVOLUTIONS(exact_, exactly)
CONVOLUTIONS(exact_bf16_, exactly_bf16)
// Of bf16; the result is bf16 or binary32, as its tensor says.
CONVOLUTIONS(tc16_, by_blocks)
