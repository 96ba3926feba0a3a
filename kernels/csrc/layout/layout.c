// Operators that only move elements (permute, expand, slice, cat), and full and arange, which create them
// from attributes. (reshape moves nothing: its result is a view.)

#include "runtime/repops.h"
#include <string.h>

// out[i0, i1, ...] = in[offset + i0 * stride[0] + i1 * stride[1] + ...]
typedef struct {
    const char *in;
    char *out;
    int64_t size; // of an item
    int64_t offset, rank, dim[MAX_RANK], stride[MAX_RANK];
} gather;

#define COPY_RUN(T)                                                                                          \
    for (int64_t i = 0; i < count; i++) ((T *)to)[i] = ((const T *)from)[i * step];

static void gather_range(void *context, int64_t begin, int64_t end) {
    const gather *g = context;
    const int64_t last = g->rank - 1, inner = g->dim[last], step = g->stride[last];
    for (int64_t at = begin; at < end;) {
        int64_t offset = g->offset + at % inner * step, rest = at / inner;
        for (int64_t d = last - 1; d >= 0; d--) {
            offset += rest % g->dim[d] * g->stride[d];
            rest /= g->dim[d];
        }
        const int64_t count = min_i64(inner - at % inner, end - at);
        const char *from = g->in + offset * g->size;
        char *to = g->out + at * g->size;
        if (step == 1) {
            memcpy(to, from, (size_t)(count * g->size));
        } else if (g->size == 4) {
            COPY_RUN(uint32_t)
        } else if (g->size == 8) {
            COPY_RUN(uint64_t)
        } else if (g->size == 2) {
            COPY_RUN(uint16_t)
        } else {
            COPY_RUN(uint8_t)
        }
        at += count;
    }
}

// A transposition: reads runs along dimension `line` and writes runs along the last one. Square tiles keep
// both in the cache.
#define TILE 16
typedef struct {
    gather g;
    int64_t line, strips; // strips of TILE along `line`
} transposition;

// NOTE: elements pass through a local tile, so that each line of memory is read, and written, in one go.
// Lines a power of two apart share a few places in the cache and would evict one another.
#define COPY_TILE(T)                                                                                         \
    do {                                                                                                     \
        T tile[TILE][TILE];                                                                                  \
        for (int64_t j = 0; j < columns; j++)                                                                \
            for (int64_t i = 0; i < rows; i++) tile[j][i] = ((const T *)g->in)[in + i + j * step];           \
        for (int64_t i = 0; i < rows; i++)                                                                   \
            for (int64_t j = 0; j < columns; j++) ((T *)g->out)[out + i * apart + j] = tile[j][i];           \
    } while (0)

static void transpose_range(void *context, int64_t begin, int64_t end) {
    const transposition *t = context;
    const gather *g = &t->g;
    const int64_t last = g->rank - 1, inner = g->dim[last], step = g->stride[last];
    const int64_t apart = product(g->dim + t->line + 1, last - t->line); // output elements between two lines
    for (int64_t at = begin; at < end; at++) {                           // (other dimensions, strip)
        const int64_t i0 = at % t->strips * TILE, rows = min_i64(TILE, g->dim[t->line] - i0);
        int64_t rest = at / t->strips, weight = inner, in0 = g->offset + i0, out0 = i0 * apart;
        for (int64_t d = last - 1; d >= 0; d--) {
            if (d != t->line) {
                out0 += rest % g->dim[d] * weight;
                in0 += rest % g->dim[d] * g->stride[d];
                rest /= g->dim[d];
            }
            weight *= g->dim[d];
        }
        for (int64_t j0 = 0; j0 < inner; j0 += TILE) {
            const int64_t columns = min_i64(TILE, inner - j0), in = in0 + j0 * step, out = out0 + j0;
            if (g->size == 4) {
                COPY_TILE(uint32_t);
            } else if (g->size == 8) {
                COPY_TILE(uint64_t);
            } else if (g->size == 2) {
                COPY_TILE(uint16_t);
            } else {
                COPY_TILE(uint8_t);
            }
        }
    }
}

static void row_major(const tensor *t, int64_t *stride) {
    int64_t step = 1;
    for (int64_t d = t->rank - 1; d >= 0; d--) stride[d] = step, step *= t->dim[d];
}

// `stride` has an entry for each dimension of the output; contiguous dimensions are merged.
static int copy(int64_t rank, const int64_t *dim, const int64_t *stride, int64_t offset, int64_t size,
                void *const *data, int threads) {
    gather g = {.in = data[0], .out = data[1], .size = size, .offset = offset};
    for (int64_t d = 0; d < rank; d++) {
        if (dim[d] == 1) continue;
        if (g.rank && g.stride[g.rank - 1] == dim[d] * stride[d]) {
            g.dim[g.rank - 1] *= dim[d];
            g.stride[g.rank - 1] = stride[d];
        } else {
            g.dim[g.rank] = dim[d];
            g.stride[g.rank++] = stride[d];
        }
    }
    if (g.rank == 0) g.rank = g.dim[0] = g.stride[0] = 1;
    const int64_t elements = product(dim, rank);
    for (int64_t line = 0; line < g.rank - 1; line++) {
        if (g.stride[line] != 1 || g.stride[g.rank - 1] < 2 || g.dim[line] < 4) continue;
        transposition t = {.g = g, .line = line, .strips = ceil_div(g.dim[line], TILE)};
        const int64_t items = elements / max_i64(g.dim[line] * g.dim[g.rank - 1], 1) * t.strips;
        parallel(threads, items, max_i64(1, THREAD_WORK / 4 / (TILE * max_i64(g.dim[g.rank - 1], 1))),
                 transpose_range, &t);
        return 0;
    }
    parallel(threads, elements, THREAD_WORK / 4, gather_range, &g);
    return 0;
}

static int run(const signature *sig, void *const *data, int threads, int64_t offset, const int64_t *stride) {
    const tensor *out = output(sig, 0);
    return copy(out->rank, out->dim, stride, offset, item_size(out->dtype), data, threads);
}

// Copy a view to an array of its own. words: bytes of an item, rank (at most MAX_RANK), sizes, strides.
REPOPS_EXPORT int repops_copy(const int64_t *words, void *const *data, int threads, int isa) {
    (void)isa;
    return copy(words[1], words + 2, words + 2 + words[1], 0, words[0], data, threads);
}

OPERATOR(permute) {
    (void)isa;
    int64_t own[MAX_RANK], stride[MAX_RANK];
    row_major(input(sig, 0), own);
    for (int64_t d = 0; d < output(sig, 0)->rank; d++) stride[d] = own[attributes(sig)[1 + d]];
    return run(sig, data, threads, 0, stride);
}

OPERATOR(expand) {
    (void)isa;
    const tensor *x = input(sig, 0), *out = output(sig, 0);
    int64_t own[MAX_RANK], stride[MAX_RANK];
    row_major(x, own);
    for (int64_t d = 0; d < out->rank; d++) {
        const int64_t from = d - (out->rank - x->rank);
        stride[d] = from < 0 || x->dim[from] == 1 ? 0 : own[from];
    }
    return run(sig, data, threads, 0, stride);
}

OPERATOR(slice) {
    (void)isa;
    const int64_t dim = attributes(sig)[0], start = attributes(sig)[1], step = attributes(sig)[3];
    int64_t stride[MAX_RANK];
    row_major(input(sig, 0), stride);
    const int64_t offset = start * stride[dim];
    stride[dim] *= step;
    return run(sig, data, threads, offset, stride);
}

OPERATOR(cat) {
    (void)isa, (void)threads;
    const tensor *out = output(sig, 0);
    const int64_t dim = attributes(sig)[0], size = item_size(out->dtype);
    const int64_t outer = product(out->dim, dim),
                  inner = product(out->dim + dim + 1, out->rank - dim - 1) * size;
    char *to = data[sig->inputs];
    for (int64_t i = 0; i < sig->inputs; i++) {
        const int64_t run_bytes = input(sig, i)->dim[dim] * inner;
        for (int64_t o = 0; o < outer; o++)
            memcpy(to + o * out->dim[dim] * inner, (const char *)data[i] + o * run_bytes, (size_t)run_bytes);
        to += run_bytes;
    }
    return 0;
}

OPERATOR(full) {
    (void)isa, (void)threads;
    const tensor *out = output(sig, 0);
    const int64_t n = elements(out), *attr = attributes(sig);
    const uint64_t bits = (uint64_t)attr[attr[0] + 2]; // count, shape..., dtype, bits
    if (out->dtype == F32)
        for (int64_t i = 0; i < n; i++) ((uint32_t *)data[0])[i] = (uint32_t)bits;
    else if (out->dtype == I64)
        for (int64_t i = 0; i < n; i++) ((uint64_t *)data[0])[i] = bits;
    else if (out->dtype == BF16)
        for (int64_t i = 0; i < n; i++) ((uint16_t *)data[0])[i] = (uint16_t)bits;
    else
        memset(data[0], (int)bits, (size_t)n);
    return 0;
}

OPERATOR(arange) {
    (void)isa, (void)threads;
    for (int64_t i = 0; i < output(sig, 0)->dim[0]; i++) ((int64_t *)data[0])[i] = i;
    return 0;
}
