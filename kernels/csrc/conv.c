// conv2d and its two gradients: the contraction of gemm.h, whose B panels are gathered from an image.
//
// Letters: C input channels of a group, F filters of a group, (H, W) input, (Y, X) output, (R, S) kernel.
//
//                  batch        C[m, n]                A[m, k]               B[k, n]               k
//                  (ascending)
//     forward      (image, g)   y[f, (y, x)]           w[f, k]               x[c, y sy - py + r dy, ...] (c,
//     r, s) input grad   (image, g)   dx[c, (h, w)]          w[f, c, r, s]         dy[f, (h + py - r dy) /
//     sy, ...] (f, r, s) weight grad  g            dw[f, (c, r, s)]       dy[image, f, y, x]    x[image, c,
//     ...]      (image, y, x)

#include "gemm.h"

typedef struct {
    int64_t images, groups, c, f;     // c and f of one group
    int64_t in[2], out[2], kernel[2]; // (H, W), (Y, X), (R, S)
    int64_t stride[2], padding[2], dilation[2];
    const float *image;  // what B is gathered from
    const float *matrix; // what A is packed from
} convolution;

// Attributes are stride, padding, dilation, groups, each pair preceded by its count.
static convolution convolution_of(const signature *sig, const tensor *x, const tensor *w, const tensor *y) {
    const int64_t *attr = attributes(sig);
    convolution v = {.images = x->dim[0], .groups = attr[9]};
    v.c = w->dim[1];
    v.f = w->dim[0] / v.groups;
    for (int axis = 0; axis < 2; axis++) {
        v.in[axis] = x->dim[2 + axis];
        v.out[axis] = y->dim[2 + axis];
        v.kernel[axis] = w->dim[2 + axis];
        v.stride[axis] = attr[1 + axis];
        v.padding[axis] = attr[4 + axis];
        v.dilation[axis] = attr[7 + axis];
    }
    return v;
}

// out[i] = line[(first + i * step) / den] where that is an integer inside [0, size); elsewhere -0 and bit i
// of the result is clear. INVARIANT: step or den is 1.
static uint32_t gather(const float *line, int64_t size, int64_t first, int64_t step, int64_t den,
                       int64_t count, float *out) {
    uint32_t exists = 0;
    if (step == 1 && den == 1) {
        const int64_t low = min_i64(max_i64(-first, 0), count),
                      high = max_i64(low, min_i64(size - first, count));
        for (int64_t i = 0; i < low; i++) out[i] = -0.0f;
        copy_floats(out + low, line + first + low, high - low);
        for (int64_t i = high; i < count; i++) out[i] = -0.0f;
        return (uint32_t)((UINT64_C(1) << high) - (UINT64_C(1) << low));
    }
    for (int64_t i = 0; i < count; i++) out[i] = -0.0f;
    // The first i whose source is an integer >= 0, and that source; then every den-th i, step elements on.
    const int64_t skip = first < 0 ? ceil_div(-first, step) : 0, at = first + skip * step;
    int64_t i = skip + (at % den ? den - at % den : 0), source = ceil_div(at, den);
    for (; i < count && source < size; i += den, source += step) {
        out[i] = line[source];
        exists |= UINT32_C(1) << i;
    }
    return exists;
}

// The panel of B for columns that are positions (row-major) in a plane `wide` across, and taps k = (channel,
// r, s). Along each axis, tap t of position p reads (p * step + offset + t * turn) / den of a plane `size`.
typedef struct {
    int64_t wide;
    int64_t size[2], step[2], offset[2], turn[2], den[2], kernel[2];
} taps;

static void pack_positions(const taps *t, const float *planes, int64_t column, int64_t columns, int64_t width,
                           int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const int64_t plane = t->size[0] * t->size[1], window = t->kernel[0] * t->kernel[1];
    for (int64_t done = 0; done < columns;) { // a run of positions in one line of the plane
        const int64_t py = (column + done) / t->wide, px = (column + done) % t->wide;
        const int64_t count = min_i64(t->wide - px, columns - done);
        const uint32_t run = (uint32_t)(((UINT64_C(1) << count) - 1) << done);
        int64_t channel = k0 / window, r = k0 / t->kernel[1] % t->kernel[0], s = k0 % t->kernel[1];
        for (int64_t k = k0; k < k1; k++) {
            float *to = out + (k - k0) * width + done;
            const int64_t y = py * t->step[0] + t->offset[0] + r * t->turn[0];
            if (y >= 0 && y < t->size[0] * t->den[0] && y % t->den[0] == 0) {
                const float *line = planes + channel * plane + y / t->den[0] * t->size[1];
                const int64_t first = px * t->step[1] + t->offset[1] + s * t->turn[1];
                const uint32_t exists = gather(line, t->size[1], first, t->step[1], t->den[1], count, to);
                mask[k - k0] &= ~run | exists << done;
            } else {
                for (int64_t i = 0; i < count; i++) to[i] = -0.0f;
                mask[k - k0] &= ~run;
            }
            if (++s == t->kernel[1]) {
                s = 0;
                if (++r == t->kernel[0]) r = 0, channel++;
            }
        }
        done += count;
    }
}

// -------------------------------------------------------------------------------------------------- forward

// A: filter rows are contiguous in k.
static void forward_pack_a(const gemm *g, int64_t batch, int64_t row, int64_t rows, int64_t height,
                           int64_t k0, int64_t k1, float *out) {
    const convolution *v = g->operands;
    const float *w = v->matrix + (batch % v->groups * v->f + row) * g->k;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = k0; k < k1; k++) out[(k - k0) * height + i] = w[i * g->k + k];
}

static void forward_pack_b(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width,
                           int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const convolution *v = g->operands;
    taps t = {.wide = v->out[1]};
    for (int axis = 0; axis < 2; axis++) {
        t.size[axis] = v->in[axis];
        t.kernel[axis] = v->kernel[axis];
        t.step[axis] = v->stride[axis];
        t.offset[axis] = -v->padding[axis];
        t.turn[axis] = v->dilation[axis];
        t.den[axis] = 1;
    }
    pack_positions(&t, v->image + batch * v->c * v->in[0] * v->in[1], column, columns, width, k0, k1, out,
                   mask);
}

OPERATOR(conv2d) {
    convolution v = convolution_of(sig, input(sig, 0), input(sig, 1), output(sig, 0));
    v.image = data[0];
    v.matrix = data[1];
    gemm g = {.batch = v.images * v.groups,
              .m = v.f,
              .n = v.out[0] * v.out[1],
              .k = v.c * v.kernel[0] * v.kernel[1],
              .c = data[2],
              .pack_a = forward_pack_a,
              .pack_b = forward_pack_b,
              .has_padding = 1,
              .operands = &v};
    return gemm_run(&g, threads, (enum isa)isa);
}

// ------------------------------------------------------------------------------------------- input gradient

// A: [c, (f, r, s)] of weights stored [f, c, (r, s)].
static void input_grad_pack_a(const gemm *g, int64_t batch, int64_t row, int64_t rows, int64_t height,
                              int64_t k0, int64_t k1, float *out) {
    const convolution *v = g->operands;
    const int64_t window = v->kernel[0] * v->kernel[1];
    const float *w = v->matrix + batch % v->groups * v->f * v->c * window;
    for (int64_t k = k0; k < k1; k++)
        for (int64_t i = 0; i < rows; i++)
            out[(k - k0) * height + i] = w[(k / window * v->c + row + i) * window + k % window];
}

static void input_grad_pack_b(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width,
                              int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const convolution *v = g->operands;
    taps t = {.wide = v->in[1]};
    for (int axis = 0; axis < 2; axis++) {
        t.size[axis] = v->out[axis];
        t.kernel[axis] = v->kernel[axis];
        t.step[axis] = 1;
        t.offset[axis] = v->padding[axis];
        t.turn[axis] = -v->dilation[axis];
        t.den[axis] = v->stride[axis];
    }
    pack_positions(&t, v->image + batch * v->f * v->out[0] * v->out[1], column, columns, width, k0, k1, out,
                   mask);
}

OPERATOR(conv2d_input_grad) {
    convolution v = convolution_of(sig, output(sig, 0), input(sig, 1), input(sig, 0));
    v.image = data[0];
    v.matrix = data[1];
    gemm g = {.batch = v.images * v.groups,
              .m = v.c,
              .n = v.in[0] * v.in[1],
              .k = v.f * v.kernel[0] * v.kernel[1],
              .c = data[2],
              .pack_a = input_grad_pack_a,
              .pack_b = input_grad_pack_b,
              .has_padding = 1,
              .operands = &v};
    return gemm_run(&g, threads, (enum isa)isa);
}

// ------------------------------------------------------------------------------------------ weight gradient

// A: [f, (image, y, x)] of a gradient stored [image, (group, f), (y, x)].
static void weight_grad_pack_a(const gemm *g, int64_t batch, int64_t row, int64_t rows, int64_t height,
                               int64_t k0, int64_t k1, float *out) {
    const convolution *v = g->operands;
    const int64_t plane = v->out[0] * v->out[1];
    for (int64_t k = k0; k < k1;) { // a run of positions in one image
        const int64_t count = min_i64(plane - k % plane, k1 - k);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t filter = batch * v->f + row + i;
            const float *from = v->matrix + (k / plane * v->groups * v->f + filter) * plane + k % plane;
            for (int64_t j = 0; j < count; j++) out[(k - k0 + j) * height + i] = from[j];
        }
        k += count;
    }
}

static void weight_grad_pack_b(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width,
                               int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const convolution *v = g->operands;
    const int64_t plane = v->out[0] * v->out[1], window = v->kernel[0] * v->kernel[1];
    for (int64_t k = k0; k < k1;) { // a run of positions in one line of one image
        const int64_t image = k / plane, py = k % plane / v->out[1], px = k % v->out[1];
        const int64_t count = min_i64(v->out[1] - px, k1 - k);
        for (int64_t j = 0; j < columns; j++) {
            const int64_t channel = (column + j) / window, r = (column + j) % window / v->kernel[1];
            const int64_t s = (column + j) % v->kernel[1];
            const int64_t h = py * v->stride[0] - v->padding[0] + r * v->dilation[0];
            const int64_t w0 = px * v->stride[1] - v->padding[1] + s * v->dilation[1];
            const int inside = h >= 0 && h < v->in[0];
            const float *line =
                v->image +
                (((image * v->groups + batch) * v->c + channel) * v->in[0] + (inside ? h : 0)) * v->in[1];
            for (int64_t i = 0; i < count; i++) {
                const int64_t w = w0 + i * v->stride[1];
                const int exists = inside && w >= 0 && w < v->in[1];
                out[(k - k0 + i) * width + j] = exists ? line[w] : -0.0f;
                mask[k - k0 + i] &= ~((uint32_t)!exists << j);
            }
        }
        k += count;
    }
}

OPERATOR(conv2d_weight_grad) {
    convolution v = convolution_of(sig, input(sig, 1), output(sig, 0), input(sig, 0));
    v.image = data[1];
    v.matrix = data[0];
    gemm g = {.batch = v.groups,
              .m = v.f,
              .n = v.c * v.kernel[0] * v.kernel[1],
              .k = v.images * v.out[0] * v.out[1],
              .c = data[2],
              .pack_a = weight_grad_pack_a,
              .pack_b = weight_grad_pack_b,
              .has_padding = 1,
              .operands = &v};
    return gemm_run(&g, threads, (enum isa)isa);
}
