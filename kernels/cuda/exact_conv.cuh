// conv2d and its gradients in the mode exact.

#ifndef REPOPS_EXACT_CONV_CUH
#define REPOPS_EXACT_CONV_CUH

#include "conv.cuh"
#include "exact_gemm.cuh"

struct ExactConvolution {
    Convolution of;
    Exact exact;
};

template <class T, class E, int MODE, class I> DEVICE void convolve_exactly(const ExactConvolution &p) {
    typedef WideMemory<T, Taps<I>> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.of.grid, block_index());
    const Gather<T, E, MODE, I, WideSlice> source(p.of, share);
    if (share.column >= source.columns()) return;
    contract_exactly<T>(p.of.grid, p.exact, share, source, memory);
}

// The indices of an element of C: image, group, channel or filter of the group, and position or tap.
template <int MODE> struct Indices {
    i64 image, group, m, c, y, x; // for WEIGHT, m is the filter, c the channel, and (y, x) the tap
    DEVICE_MEMBER Indices(const Convolution &p, i64 place) {
        const i64(&size)[2] = MODE == FORWARD ? p.out : MODE == INPUT ? p.in : p.kernel;
        x = place % size[1], place /= size[1];
        y = place % size[0], place /= size[0];
        c = MODE == WEIGHT ? place % p.c : 0;
        if (MODE == WEIGHT) place /= p.c;
        const i64 rows = MODE == INPUT ? p.c : p.f;
        m = place % rows, place /= rows;
        group = place % p.groups, image = place / p.groups;
    }
};

template <int MODE> struct ConvolutionPositions {
    const Convolution &p;
    DEVICE_MEMBER Position of(i64 place) const {
        const Indices<MODE> at(p, place);
        if (MODE == FORWARD) return {at.group, at.m, (at.image * p.out[0] + at.y) * p.out[1] + at.x};
        if (MODE == WEIGHT) return {at.group, at.m, (at.c * p.kernel[0] + at.y) * p.kernel[1] + at.x};
        // Gather's classes, and the positions of a class.
        const i64 kind = at.y % p.stride[0] * p.classes[1] + at.x % p.stride[1];
        const i64 lines = (p.in[0] - 1 - at.y % p.stride[0]) / p.stride[0] + 1;
        const i64 width = (p.in[1] - 1 - at.x % p.stride[1]) / p.stride[1] + 1;
        return {kind * p.groups + at.group, at.m,
                (at.image * lines + at.y / p.stride[0]) * width + at.x / p.stride[1]};
    }
};

// The terms of an element of C, as docs/opset.md lists them.
template <class E, int MODE> struct ConvolutionElement {
    const Convolution &p;
    Indices<MODE> at;
    DEVICE_MEMBER ConvolutionElement(const ExactConvolution &p_, i64 place) : p(p_.of), at(p_.of, place) {}

    typedef double Raw;
    static DEVICE_MEMBER double wide(double term) { return term; }
    DEVICE_MEMBER double raw(i64 k) const {
        // The tap, the position of y that it belongs to, and the images' and filters' indices.
        const i64(&inner)[2] = MODE == WEIGHT ? p.out : p.kernel;
        const i64 j = k % inner[1], i = k / inner[1] % inner[0], outer = k / inner[1] / inner[0];
        const i64 r = MODE == WEIGHT ? at.y : i, s = MODE == WEIGHT ? at.x : j;
        i64 y = MODE == FORWARD ? at.y : i, x = MODE == FORWARD ? at.x : j, h = at.y, w = at.x;
        if (MODE == INPUT) {
            y = h + p.padding[0] - r * p.dilation[0], x = w + p.padding[1] - s * p.dilation[1];
            if (y < 0 || x < 0 || y % p.stride[0] || x % p.stride[1]) return 0;
            y /= p.stride[0], x /= p.stride[1];
        } else {
            h = y * p.stride[0] - p.padding[0] + r * p.dilation[0];
            w = x * p.stride[1] - p.padding[1] + s * p.dilation[1];
        }
        if (!inside(h, p.in[0]) || !inside(w, p.in[1]) || !inside(y, p.out[0]) || !inside(x, p.out[1]))
            return 0;
        const i64 image = MODE == WEIGHT ? outer : at.image;
        const i64 c = MODE == FORWARD ? outer : MODE == INPUT ? at.m : at.c;
        const i64 f = at.group * p.f + (MODE == INPUT ? outer : at.m);
        const i64 in_x = ((image * p.groups * p.c + at.group * p.c + c) * p.in[0] + h) * p.in[1] + w;
        const i64 in_w = ((f * p.c + c) * p.kernel[0] + r) * p.kernel[1] + s;
        const i64 in_y = ((image * p.groups * p.f + f) * p.out[0] + y) * p.out[1] + x;
        const E a = ((const E *)p.a)[MODE == WEIGHT ? in_y : in_w];
        const E b = ((const E *)p.b)[MODE == INPUT ? in_y : in_x];
        return mul_rn((double)widened(a), (double)widened(b));
    }
};

#define EXACT_CONVOLUTION(name, MODE, E)                                                                     \
    KERNEL(name##_medium, ExactConvolution, WideMedium::THREADS, 1) {                                        \
        convolve_exactly<WideMedium, E, MODE, int>(p);                                                       \
    }                                                                                                        \
    KERNEL(name##_small, ExactConvolution, WideSmall::THREADS, 4) {                                          \
        convolve_exactly<WideSmall, E, MODE, int>(p);                                                        \
    }                                                                                                        \
    KERNEL(name##_far, ExactConvolution, WideSmall::THREADS, 4) {                                            \
        convolve_exactly<WideSmall, E, MODE, i64>(p);                                                        \
    }                                                                                                        \
    KERNEL(name##_finish, ExactConvolution, 256, 2) {                                                        \
        finish<E>(p.of.grid, p.exact, true, ConvolutionPositions<MODE>{p.of});                               \
    }                                                                                                        \
    KERNEL(name##_resolve, ExactConvolution, 128, 4) {                                                       \
        resolve<E, ConvolutionElement<E, MODE>>(p, p.of.grid, p.of.k);                                       \
    }

#define EXACT_CONVOLUTIONS(suffix, E)                                                                        \
    EXACT_CONVOLUTION(exact_conv2d##suffix, FORWARD, E)                                                      \
    EXACT_CONVOLUTION(exact_conv2d_input_grad##suffix, INPUT, E)                                             \
    EXACT_CONVOLUTION(exact_conv2d_weight_grad##suffix, WEIGHT, E)

#endif
