// Convolutions with one channel and one filter in a group, in which no factor is used by a second filter:
// a product of matrices would have one row.

#ifndef REPOPS_DEPTHWISE_H
#define REPOPS_DEPTHWISE_H

#include "runtime/repops.h"

#define LONGEST 16 // side of a filter

// Arrays of two have the height first. Factors and results are binary32, or bf16.
typedef struct {
    int64_t images, channels;
    int64_t from[2], to[2],
        kernel[2]; // sizes of a plane that is read through taps, of the other one, of a filter
    int64_t stride[2], padding[2], dilation[2];
    int bf16;
    const void *planes;
    const void *factors; // filters, or the gradients of results
    void *out;
} depthwise;

// Whether the functions below have a result for these sizes and these factors, of which there are `count`.
// NOTE: a filter or a gradient that is infinite or NaN needs taps that do not exist to be skipped.
int depthwise_takes(const depthwise *d, int64_t count, call k);

// out[n, c, y, x] = sum over (r, s) of planes[n, c, y + r * dilation - padding, ...] * factors[c, r, s]; if
// `turned`, planes[n, c, y + (R - 1 - r) * dilation - padding, ...], in the same order. The stride is 1.
// Return 1 if there is no memory.
int depthwise_planes(const depthwise *d, int turned, call k);

// out[c, r, s] = sum over (n, y, x) of planes[n, c, y * stride + r * dilation - padding, ...] * factors[n, c,
// y, x]. The dilation across is 1. Return 1 if there is no memory.
int depthwise_filters(const depthwise *d, call k);

#endif
