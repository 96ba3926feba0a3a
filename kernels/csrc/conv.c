// conv2d and its two gradients: the contraction of gemm.h, whose B panels are gathered from an image.
//
// Letters: C input channels of a group, F filters of a group, (H, W) input, (Y, X) output, (R, S) kernel.
//
//               C[m, n]               A[m, k]            B[k, n], n or k with the image
//     forward   y[image, f, (y, x)]   w[f, (c, r, s)]    x[image, c, y sy - py + r dy, ...]
//     input     dx[image, c, (h, w)]  w[f, c, (r, s)]    dy[image, f, (h + py - r dy) / sy, ...]
//     weight    dw[f, (c, r, s)]      dy[image, f, y, x] x[image, c, y sy - py + r dy, ...]
//
// The batch of the contraction is the groups. For the first two, n runs over (image, position), so that
// weights are packed once for all images; for the last, k runs over (image, y, x).

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

// The panel of B for columns that are positions (row-major) in the planes of all images, and taps k =
// (channel, r, s). Along each axis, tap t of position p reads (p * step + offset + t * turn) / den of a plane
// `size`.
typedef struct {
    int64_t high, wide;   // positions of an image
    int64_t image_stride; // between two images of the operand
    int64_t size[2], step[2], offset[2], turn[2], den[2], kernel[2];
} taps;

static void pack_positions(const taps *t, const float *planes, int64_t column, int64_t columns, int64_t width,
                           int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const int64_t plane = t->size[0] * t->size[1], window = t->kernel[0] * t->kernel[1];
    for (int64_t done = 0; done < columns;) { // a run of positions in one line of one image
        const int64_t px = (column + done) % t->wide, line = (column + done) / t->wide, py = line % t->high;
        const float *image = planes + line / t->high * t->image_stride;
        const int64_t count = min_i64(t->wide - px, columns - done);
        const uint32_t run = (uint32_t)(((UINT64_C(1) << count) - 1) << done);
        int64_t channel = k0 / window, r = k0 / t->kernel[1] % t->kernel[0], s = k0 % t->kernel[1];
        for (int64_t k = k0; k < k1; k++) {
            float *to = out + (k - k0) * width + done;
            const int64_t y = py * t->step[0] + t->offset[0] + r * t->turn[0];
            if (y >= 0 && y < t->size[0] * t->den[0] && y % t->den[0] == 0) {
                const float *from = image + channel * plane + y / t->den[0] * t->size[1];
                const int64_t first = px * t->step[1] + t->offset[1] + s * t->turn[1];
                const uint32_t exists = gather(from, t->size[1], first, t->step[1], t->den[1], count, to);
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
    const float *w = v->matrix + (batch * v->f + row) * g->k;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = k0; k < k1; k++) out[(k - k0) * height + i] = w[i * g->k + k];
}

static void forward_pack_b(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width,
                           int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const convolution *v = g->operands;
    taps t = {.high = v->out[0], .wide = v->out[1], .image_stride = v->groups * v->c * v->in[0] * v->in[1]};
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
    const int64_t plane = v.out[0] * v.out[1];
    gemm g = {.batch = v.groups,
              .m = v.f,
              .n = v.images * plane,
              .plane = plane,
              .image_stride = v.groups * v.f * plane,
              .batch_stride = v.f * plane,
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
    const float *w = v->matrix + batch * v->f * v->c * window;
    for (int64_t k = k0; k < k1; k++)
        for (int64_t i = 0; i < rows; i++)
            out[(k - k0) * height + i] = w[(k / window * v->c + row + i) * window + k % window];
}

static void input_grad_pack_b(const gemm *g, int64_t batch, int64_t column, int64_t columns, int64_t width,
                              int64_t k0, int64_t k1, float *out, uint32_t *mask) {
    const convolution *v = g->operands;
    taps t = {.high = v->in[0], .wide = v->in[1], .image_stride = v->groups * v->f * v->out[0] * v->out[1]};
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
    const int64_t plane = v.in[0] * v.in[1];
    gemm g = {.batch = v.groups,
              .m = v.c,
              .n = v.images * plane,
              .plane = plane,
              .image_stride = v.groups * v.c * plane,
              .batch_stride = v.c * plane,
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
    int64_t start[MAX_COLUMNS], down[MAX_COLUMNS],
        right[MAX_COLUMNS]; // of column (c, r, s): its plane, r dy, s dx
    for (int64_t j = 0; j < columns; j++) {
        const int64_t c = (column + j) / window, tap = (column + j) % window;
        start[j] = (batch * v->c + c) * v->in[0] * v->in[1];
        down[j] = tap / v->kernel[1] * v->dilation[0] - v->padding[0];
        right[j] = tap % v->kernel[1] * v->dilation[1] - v->padding[1];
    }
    const int64_t image_size = v->groups * v->c * v->in[0] * v->in[1], step = v->stride[1];

    for (int64_t k = k0; k < k1;) { // a run of positions in one line of one image
        const int64_t image = k / plane, py = k % plane / v->out[1], px = k % v->out[1];
        const int64_t count = min_i64(v->out[1] - px, k1 - k);
        for (int64_t j = 0; j < columns; j++) {
            const int64_t h = py * v->stride[0] + down[j], w = px * step + right[j];
            // Positions low <= i < high of the run read inside the line.
            int64_t low = w < 0 ? ceil_div(-w, step) : 0,
                    high = v->in[1] > w ? ceil_div(v->in[1] - w, step) : 0;
            if (h < 0 || h >= v->in[0]) high = 0;
            high = min_i64(high, count);
            low = min_i64(low, high);
            const int64_t from = image * image_size + start[j] + h * v->in[1] + w;
            float *to = out + (k - k0) * width + j;
            for (int64_t i = 0; i < count; i++) {
                if (i >= low && i < high) continue;
                to[i * width] = -0.0f;
                mask[k - k0 + i] &= ~(UINT32_C(1) << j);
            }
            for (int64_t i = low; i < high; i++) to[i * width] = v->image[from + i * step];
        }
        k += count;
    }
}

OPERATOR(conv2d_weight_grad) {
    convolution v = convolution_of(sig, input(sig, 1), output(sig, 0), input(sig, 0));
    v.image = data[1];
    v.matrix = data[0];
    const int64_t columns = v.c * v.kernel[0] * v.kernel[1];
    gemm g = {.batch = v.groups,
              .m = v.f,
              .n = columns,
              .plane = columns,
              .batch_stride = v.f * columns,
              .k = v.images * v.out[0] * v.out[1],
              .c = data[2],
              .pack_a = weight_grad_pack_a,
              .pack_b = weight_grad_pack_b,
              .has_padding = 1,
              .operands = &v};
    return gemm_run(&g, threads, (enum isa)isa);
}
