// Operators that choose by comparing: argmax and max_pool2d. Both use the total order of bits.h and keep the
// first of equal elements.

#include "runtime/repops.h"
#include "shared/bits.h"

// --------------------------------------------------------------------------------------------------- argmax

typedef struct {
    const void *x;
    int64_t *out;
    int64_t n, inner; // x is [outer, n, inner]
    int64_t dtype;
} arg;

#define FIRST_LARGEST(T, KEY)                                                                                \
    for (int64_t i = 1; i < a->n; i++)                                                                       \
        if (KEY(((const T *)a->x)[base + i * a->inner]) > KEY(((const T *)a->x)[base + best * a->inner]))    \
            best = i;
#define SELF(x) (x)

static void argmax_range(void *context, int64_t begin, int64_t end) {
    const arg *a = context;
    for (int64_t at = begin; at < end; at++) {
        const int64_t base = at / a->inner * a->n * a->inner + at % a->inner;
        int64_t best = 0;
        if (a->dtype == F32) {
            FIRST_LARGEST(float, order_key)
        } else {
            FIRST_LARGEST(int64_t, SELF)
        }
        a->out[at] = best;
    }
}

OPERATOR(argmax) {
    (void)isa;
    const tensor *x = input(sig, 0);
    const int64_t dim = attributes(sig)[0];
    arg a = {.x = data[0], .out = data[1], .n = x->dim[dim], .dtype = x->dtype};
    a.inner = product(x->dim + dim + 1, x->rank - dim - 1);
    parallel(threads, elements(output(sig, 0)), max_i64(1, THREAD_WORK / 4 / a.n), argmax_range, &a);
    return 0;
}

// ----------------------------------------------------------------------------------------------- max_pool2d

typedef struct {
    const float *x;
    float *values;
    int64_t *indices;
    int64_t in[2], out[2], kernel[2], stride[2], padding[2], dilation[2];
} pool;

// Return the first tap that is not before the plane, for a window that begins at `from`. NOTE: a program may
// have a window of 2^48 taps around a plane of one element, so taps outside are skipped, not examined.
static int64_t first_tap(int64_t from, int64_t dilation) {
    return from < 0 ? (dilation - 1 - from) / dilation : 0;
}

static void pool_range(void *context, int64_t begin, int64_t end) {
    const pool *p = context;
    for (int64_t at = begin; at < end; at++) { // (plane, y, x)
        const float *plane = p->x + at / (p->out[0] * p->out[1]) * p->in[0] * p->in[1];
        const int64_t top = at / p->out[1] % p->out[0] * p->stride[0] - p->padding[0];
        const int64_t left = at % p->out[1] * p->stride[1] - p->padding[1];
        int64_t best = -1; // a window without any element
        int64_t best_key = INT64_MIN;
        const int64_t upper = first_tap(top, p->dilation[0]), first = first_tap(left, p->dilation[1]);
        for (int64_t r = upper; r < p->kernel[0]; r++) {
            const int64_t h = top + r * p->dilation[0];
            if (h >= p->in[0]) break;
            for (int64_t s = first; s < p->kernel[1]; s++) {
                const int64_t w = left + s * p->dilation[1];
                if (w >= p->in[1]) break;
                const int64_t key = order_key(plane[h * p->in[1] + w]);
                if (key > best_key) best_key = key, best = h * p->in[1] + w;
            }
        }
        p->values[at] = best < 0 ? -__builtin_inff() : plane[best];
        p->indices[at] = best;
    }
}

OPERATOR(max_pool2d) {
    (void)isa;
    const tensor *x = input(sig, 0), *y = output(sig, 0);
    const int64_t *attr = attributes(sig); // kernel, stride, padding, dilation, each preceded by its count
    pool p = {.x = data[0], .values = data[1], .indices = data[2]};
    for (int axis = 0; axis < 2; axis++) {
        p.in[axis] = x->dim[2 + axis];
        p.out[axis] = y->dim[2 + axis];
        p.kernel[axis] = attr[1 + axis];
        p.stride[axis] = attr[4 + axis];
        p.padding[axis] = attr[7 + axis];
        p.dilation[axis] = attr[10 + axis];
    }
    parallel(threads, elements(y), THREAD_WORK / 32, pool_range, &p);
    return 0;
}
