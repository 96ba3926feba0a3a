// sum and amax. The order (docs/opset.md): the reduced elements, row-major, in blocks of 4096; in a block
// element i goes to lane i mod 32, ascending from the identity; lanes fold 16, 8, 4, 2, 1; block results are
// reduced alike.
//
// amax and i64 do not depend on an order and take the same road.
//
//     out[kept] <- for each block of the reduced elements: `rows` (elements of one result, contiguous) or
//     `columns` (the same element of neighbouring results, contiguous) -> partial[kept][block] -> the same
//     again, until one block

#include "repops.h"
#include "bits.h"
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096
#define LANES 32
#define COLUMNS 16 // results worked on side by side when they are contiguous

static inline float add_f32(float a, float b) {
    return a + b;
}
static inline int64_t add_i64(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int32_t max_i32(int32_t a, int32_t b) {
    return a > b ? a : b;
}
#define SELF(x) (x)

// Two kernels for each (type, operation), whose lanes hold `load` of the elements (for amax, their order
// keys):
//   rows:     n <= 4096 contiguous elements to one result
//   columns:  `width` results; element i of result j is base[offset[i] + j]
#define BLOCK_KERNELS(name, T, LANE, load, combine, identity, unload)                                        \
    BODY name##_rows_body(const void *from, int64_t n, void *result) {                                       \
        const T *x = from;                                                                                   \
        LANE lane[LANES];                                                                                    \
        for (int j = 0; j < LANES; j++) lane[j] = identity;                                                  \
        int64_t i = 0;                                                                                       \
        for (; i + LANES <= n; i += LANES)                                                                   \
            for (int j = 0; j < LANES; j++) lane[j] = combine(lane[j], load(x[i + j]));                      \
        for (; i < n; i++) lane[i % LANES] = combine(lane[i % LANES], load(x[i]));                           \
        for (int half = LANES / 2; half; half /= 2)                                                          \
            for (int j = 0; j < half; j++) lane[j] = combine(lane[j], lane[j + half]);                       \
        *(T *)result = unload(lane[0]);                                                                      \
    }                                                                                                        \
    BODY name##_columns_body(const void *from, const int64_t *offset, int64_t n, int64_t width,              \
                             void *result, int64_t apart) {                                                  \
        LANE lane[LANES][COLUMNS];                                                                           \
        for (int j = 0; j < LANES; j++)                                                                      \
            for (int w = 0; w < COLUMNS; w++) lane[j][w] = identity;                                         \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            const T *x = (const T *)from + offset[i];                                                        \
            LANE *l = lane[i % LANES];                                                                       \
            if (width == COLUMNS)                                                                            \
                for (int w = 0; w < COLUMNS; w++) l[w] = combine(l[w], load(x[w]));                          \
            else                                                                                             \
                for (int64_t w = 0; w < width; w++) l[w] = combine(l[w], load(x[w]));                        \
        }                                                                                                    \
        for (int half = LANES / 2; half; half /= 2)                                                          \
            for (int j = 0; j < half; j++)                                                                   \
                for (int w = 0; w < COLUMNS; w++) lane[j][w] = combine(lane[j][w], lane[j + half][w]);       \
        for (int64_t w = 0; w < width; w++) ((T *)result)[w * apart] = unload(lane[0][w]);                   \
    }                                                                                                        \
    VARIANTS(name##_rows, (const void *from, int64_t n, void *result), (from, n, result))                    \
    VARIANTS(                                                                                                \
        name##_columns,                                                                                      \
        (const void *from, const int64_t *offset, int64_t n, int64_t width, void *result, int64_t apart),    \
        (from, offset, n, width, result, apart))

BLOCK_KERNELS(sum_f32, float, float, SELF, add_f32, -0.0f, SELF)
BLOCK_KERNELS(sum_i64, int64_t, int64_t, SELF, add_i64, 0, SELF)
BLOCK_KERNELS(amax_f32, float, int32_t, order_key, max_i32, order_key(-__builtin_inff()), from_key)
BLOCK_KERNELS(amax_i64, int64_t, int64_t, SELF, max_i64, INT64_MIN, SELF)

typedef void rows_kernel(const void *from, int64_t n, void *result);
typedef void columns_kernel(const void *from, const int64_t *offset, int64_t n, int64_t width, void *result,
                            int64_t apart);

typedef struct {
    int64_t rank, dim[MAX_RANK], stride[MAX_RANK];
} axes;

// One level of the reduction.
typedef struct {
    rows_kernel *rows;
    columns_kernel *columns;
    int64_t size; // of an item
    const char *from;
    char *to; // [outer, width, blocks]
    axes kept, reduced;
    int64_t outer, width; // kept positions: outer ones, and contiguous ones side by side
    int64_t n, blocks;    // reduced elements, and how many blocks they make
    int64_t strips;       // of COLUMNS contiguous results
    int failed;
} level;

static void axes_add(axes *a, int64_t dim, int64_t stride) {
    if (dim == 1) return;
    if (a->rank && a->stride[a->rank - 1] == dim * stride) {
        a->dim[a->rank - 1] *= dim;
        a->stride[a->rank - 1] = stride;
        return;
    }
    a->dim[a->rank] = dim;
    a->stride[a->rank++] = stride;
}

static int64_t axes_offset(const axes *a, int64_t index) {
    int64_t offset = 0;
    for (int64_t d = a->rank - 1; d >= 0; d--) {
        offset += index % a->dim[d] * a->stride[d];
        index /= a->dim[d];
    }
    return offset;
}

// The offsets of elements [begin, end).
static void axes_offsets(const axes *a, int64_t begin, int64_t end, int64_t *offset) {
    const int64_t inner = a->rank ? a->dim[a->rank - 1] : 1, step = a->rank ? a->stride[a->rank - 1] : 0;
    for (int64_t at = begin; at < end;) {
        const int64_t first = axes_offset(a, at), count = min_i64(inner - at % inner, end - at);
        for (int64_t i = 0; i < count; i++) offset[at - begin + i] = first + i * step;
        at += count;
    }
}

// Elements [begin, end) in a row: where they stand, if they are contiguous there, or else copied to
// `scratch`.
static const char *in_a_row(const axes *a, const char *base, int64_t size, int64_t begin, int64_t end,
                            char *scratch) {
    const int64_t inner = a->rank ? a->dim[a->rank - 1] : 1, step = a->rank ? a->stride[a->rank - 1] : 1;
    if (begin == end) return base;
    if (step == 1 && end - begin <= inner - begin % inner) return base + axes_offset(a, begin) * size;
    char *to = scratch;
    for (int64_t at = begin; at < end;) {
        const char *from = base + axes_offset(a, at) * size;
        const int64_t count = min_i64(inner - at % inner, end - at);
        if (step == 1)
            memcpy(to, from, (size_t)(count * size));
        else if (size == 8)
            for (int64_t i = 0; i < count; i++) ((int64_t *)to)[i] = ((const int64_t *)from)[i * step];
        else
            for (int64_t i = 0; i < count; i++) ((int32_t *)to)[i] = ((const int32_t *)from)[i * step];
        to += count * size;
        at += count;
    }
    return scratch;
}

static void range(void *context, int64_t begin, int64_t end) {
    level *l = context;
    // For neighbouring results the offsets of a block's elements; for a single one, its elements.
    int64_t *scratch = malloc(BLOCK * sizeof *scratch);
    if (!scratch) {
        __atomic_store_n(&l->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    int64_t known = -1; // the block whose offsets we have

    for (int64_t at = begin; at < end; at++) { // (outer, block, strip)
        const int64_t strip = at % l->strips, block = at / l->strips % l->blocks;
        const int64_t outer = at / l->strips / l->blocks, column = strip * COLUMNS;
        const int64_t i0 = block * BLOCK, n = min_i64(BLOCK, l->n - i0);
        const char *base = l->from + axes_offset(&l->kept, outer) * l->size;
        char *to = l->to + ((outer * l->width + column) * l->blocks + block) * l->size;
        if (l->width == 1) {
            l->rows(in_a_row(&l->reduced, base, l->size, i0, i0 + n, (char *)scratch), n, to);
            continue;
        }
        if (known != block) axes_offsets(&l->reduced, i0, i0 + n, scratch);
        known = block;
        const int64_t width = min_i64(COLUMNS, l->width - column);
        l->columns(base + column * l->size, scratch, n, width, to, l->blocks);
    }
    free(scratch);
}

static int reduce(call c, rows_kernel *const *rows, columns_kernel *const *columns) {
    const tensor *x = input(c.sig, 0);
    const int64_t *attr = attributes(c.sig); // count, dims..., keepdim
    int64_t stride[MAX_RANK], step = 1;
    int is_reduced[MAX_RANK] = {0};
    for (int64_t i = 0; i < attr[0]; i++) is_reduced[attr[1 + i]] = 1;
    for (int64_t d = x->rank - 1; d >= 0; d--) stride[d] = step, step *= x->dim[d];

    level l = {
        .rows = rows[c.isa], .columns = columns[c.isa], .size = item_size(x->dtype), .from = c.data[0]};
    for (int64_t d = 0; d < x->rank; d++)
        axes_add(is_reduced[d] ? &l.reduced : &l.kept, x->dim[d], stride[d]);
    l.n = product(l.reduced.dim, l.reduced.rank);
    l.width = 1;
    if (l.kept.rank && l.kept.stride[l.kept.rank - 1] == 1 && l.n > 1) l.width = l.kept.dim[--l.kept.rank];
    l.outer = product(l.kept.dim, l.kept.rank);
    if (l.outer * l.width == 0) return 0;

    for (void *partial = NULL;;) {
        l.blocks = max_i64(1, ceil_div(l.n, BLOCK));
        l.strips = ceil_div(l.width, COLUMNS);
        void *to = l.blocks == 1 ? c.data[1] : malloc((size_t)(l.outer * l.width * l.blocks * l.size));
        l.to = to;
        if (!to) l.failed = 1;
        const int64_t work = min_i64(l.n, BLOCK) * min_i64(l.width, COLUMNS);
        if (to)
            parallel(c.threads, l.outer * l.blocks * l.strips, max_i64(1, 32768 / max_i64(work, 1)), range,
                     &l);
        free(partial);
        if (l.blocks == 1 || l.failed) {
            if (l.blocks > 1) free(to);
            return l.failed;
        }
        // The next level: rows of block results.
        partial = to;
        l.from = to;
        l.outer *= l.width;
        l.width = 1;
        l.n = l.blocks;
        l.kept = (axes){.rank = 1, .dim = {l.outer}, .stride = {l.blocks}};
        l.reduced = (axes){.rank = 1, .dim = {l.blocks}, .stride = {1}};
    }
}

OPERATOR(sum) {
    return input(sig, 0)->dtype == F32 ? reduce(CALL, sum_f32_rows, sum_f32_columns)
                                       : reduce(CALL, sum_i64_rows, sum_i64_columns);
}

OPERATOR(amax) {
    return input(sig, 0)->dtype == F32 ? reduce(CALL, amax_f32_rows, amax_f32_columns)
                                       : reduce(CALL, amax_i64_rows, amax_i64_columns);
}
