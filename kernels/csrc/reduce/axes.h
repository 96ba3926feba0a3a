// The dimensions of a reduction, merged: those that are kept and those that are reduced.

#ifndef REPOPS_AXES_H
#define REPOPS_AXES_H

#include "runtime/repops.h"

typedef struct {
    int64_t rank, dim[MAX_RANK], stride[MAX_RANK];
} axes;

static inline void axes_add(axes *a, int64_t dim, int64_t stride) {
    if (dim == 1) return;
    if (a->rank && a->stride[a->rank - 1] == dim * stride) {
        a->dim[a->rank - 1] *= dim;
        a->stride[a->rank - 1] = stride;
        return;
    }
    a->dim[a->rank] = dim;
    a->stride[a->rank++] = stride;
}

static inline int64_t axes_offset(const axes *a, int64_t index) {
    int64_t offset = 0;
    for (int64_t d = a->rank - 1; d > 0; d--) {
        offset += index % a->dim[d] * a->stride[d];
        index /= a->dim[d];
    }
    return a->rank ? offset + index * a->stride[0] : 0;
}

// Compute the offsets of elements [begin, end).
static inline void axes_offsets(const axes *a, int64_t begin, int64_t end, int64_t *offset) {
    const int64_t inner = a->rank ? a->dim[a->rank - 1] : 1, step = a->rank ? a->stride[a->rank - 1] : 0;
    for (int64_t at = begin; at < end;) {
        const int64_t first = axes_offset(a, at), count = min_i64(inner - at % inner, end - at);
        for (int64_t i = 0; i < count; i++) offset[at - begin + i] = first + i * step;
        at += count;
    }
}

// Find the axes of a reduction of x; `attr` is the count of its dimensions, then these. Neighbouring results
// that have neighbouring elements are not an axis: return their number, or 1. So either they are columns, or
// the last reduced axis has stride 1, if there is one.
static inline int64_t axes_split(const tensor *x, const int64_t *attr, axes *kept, axes *reduced) {
    int64_t stride[MAX_RANK], step = 1;
    int is_reduced[MAX_RANK] = {0};
    for (int64_t i = 0; i < attr[0]; i++) is_reduced[attr[1 + i]] = 1;
    for (int64_t d = x->rank - 1; d >= 0; d--) stride[d] = step, step *= x->dim[d];
    *kept = *reduced = (axes){0};
    for (int64_t d = 0; d < x->rank; d++) axes_add(is_reduced[d] ? reduced : kept, x->dim[d], stride[d]);
    return kept->rank && kept->stride[kept->rank - 1] == 1 ? kept->dim[--kept->rank] : 1;
}

#endif
