// Depthwise convolutions: see depthwise.h, and gemm.h for the order of the sums.
//
// A plane is copied into a frame of zeros, so that all taps exist, and the result for a whole frame is
// computed as if it were one row: tap (r, s) of place i is place i + r * dilation * width + s * dilation.
// What the frame's columns add is not copied to the result.
//
// INVARIANT: a tap in the frame leaves no trace, because its product is -0. There are two copies of each
// plane, one with -0 around it for factors from +0 up and one with +0 for factors from -0 down.

#include "depthwise.h"
#include "gemm/contraction.h"
#include "gemm/pack.h"
#include <math.h>
#include <stdlib.h>

#define WIDTH 96 // results at a time: they fit into the registers of each instruction set
#define LANES 8  // columns of a filter at a time
#define ROWS 8   // rows of a filter at a time

// A plane with its frame, twice.
typedef struct {
    int64_t high, wide, size; // size: elements of one copy, with what is read after its end
    float *copy[2];           // by the sign of the factor
} framed;

static int make_frame(framed *f) {
    f->copy[0] = malloc(2 * (size_t)f->size * sizeof(float));
    if (!f->copy[0]) return 1;
    f->copy[1] = f->copy[0] + f->size;
    for (int64_t i = 0; i < f->size; i++) f->copy[0][i] = -0.0f, f->copy[1][i] = 0.0f;
    return 0;
}

static void fill_frame(const depthwise *d, const framed *f, int64_t plane) {
    const int64_t high = d->from[0], wide = d->from[1];
    for (int64_t y = 0; y < high; y++) {
        const void *row = factor_at(d->bf16, d->planes, (plane * high + y) * wide);
        float *to = f->copy[0] + (y + d->padding[0]) * f->wide + d->padding[1];
        if (d->bf16)
            for (int64_t x = 0; x < wide; x++) to[x] = from_bf16(((const uint16_t *)row)[x]);
        else
            memcpy(to, row, (size_t)wide * sizeof *to);
        memcpy(to + f->size, to, (size_t)wide * sizeof *to);
    }
}

BODY unfinished_body(const uint32_t *bits, int64_t n, uint32_t *found) {
    uint32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= (bits[i] & 0x7F800000) == 0x7F800000;
    *found = any;
}
VARIANTS(unfinished, (const uint32_t *bits, int64_t n, uint32_t *found), (bits, n, found))

typedef struct {
    const depthwise *d;
    enum isa isa;
    int found;
} search;

static void search_range(void *context, int64_t begin, int64_t end) {
    search *s = context;
    uint32_t found = 0;
    if (s->d->bf16)
        for (int64_t i = begin; i < end; i++)
            found |= (((const uint16_t *)s->d->factors)[i] & 0x7F80) == 0x7F80;
    else
        unfinished[s->isa]((const uint32_t *)s->d->factors + begin, end - begin, &found);
    if (found) __atomic_store_n(&s->found, 1, __ATOMIC_RELAXED);
}

int depthwise_takes(const depthwise *d, int64_t count, call k) {
    int64_t most = 4096, framed = 1;
    for (int i = 0; i < 2; i++) {
        // SAFETY: padding and dilation are a stranger's, so a frame may not be much larger than the planes.
        const int64_t bound = 1 << 24;
        if (d->padding[i] < 0 || d->padding[i] > bound || d->dilation[i] > bound || d->stride[i] > bound ||
            d->from[i] > bound || d->to[i] > bound)
            return 0;
        framed *= d->from[i] + 2 * d->padding[i] + d->kernel[i] * d->dilation[i];
    }
    most += 2 * (d->from[0] * d->from[1] + d->to[0] * d->to[1]);
    if (framed > most) return 0;
    search s = {d, k.isa, 0};
    parallel(k.threads, count, THREAD_WORK, search_range, &s);
    return !s.found;
}

// Store n results from element `at` on.
static void put(const depthwise *d, const float *results, int64_t n, int64_t at, enum isa isa) {
    if (d->bf16)
        round_to_bf16(results, n, 1, n, (uint16_t *)d->out + at, n, isa);
    else
        memcpy((float *)d->out + at, results, (size_t)n * sizeof *results);
}

// ------------------------------------------------------------------------------- results and input gradients

typedef struct {
    const depthwise *d;
    int turned, failed;
    enum isa isa;
} sweep;

BODY correlate_body(const float *const *taps, const float *factors, int64_t count, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += WIDTH) {
        float sum[WIDTH];
        for (int j = 0; j < WIDTH; j++) sum[j] = -0.0f;
        for (int64_t t = 0; t < count; t++) {
            const float *at = taps[t] + i, by = factors[t];
            // NOTE: gcc would otherwise unroll this loop into the one below, with sums in memory.
            __asm__ volatile("" : "+r"(at));
            for (int j = 0; j < WIDTH; j++) sum[j] = fmaf(at[j], by, sum[j]);
        }
        for (int j = 0; j < WIDTH; j++) out[i + j] = sum[j];
    }
}
VARIANTS(correlate, (const float *const *taps, const float *factors, int64_t count, int64_t n, float *out),
         (taps, factors, count, n, out))

static void planes_range(void *context, int64_t begin, int64_t end) {
    sweep *s = context;
    const depthwise *d = s->d;
    const int64_t rows = d->kernel[0], across = d->kernel[1];
    framed f = {.high = d->from[0] + 2 * d->padding[0], .wide = d->from[1] + 2 * d->padding[1]};
    const int64_t n = ceil_div(d->to[0] * f.wide, WIDTH) * WIDTH;
    f.size = (rows - 1) * d->dilation[0] * f.wide + (across - 1) * d->dilation[1] + n;
    float *out = malloc((size_t)max_i64(n, 1) * sizeof *out);
    if (!out || make_frame(&f)) {
        __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
        free(out);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        float factors[LONGEST * LONGEST];
        const float *taps[LONGEST * LONGEST];
        for (int64_t t = 0; t < rows * across; t++) {
            const int64_t r = s->turned ? rows - 1 - t / across : t / across;
            const int64_t c = s->turned ? across - 1 - t % across : t % across;
            factors[t] = factor(d->bf16, factor_at(d->bf16, d->factors, i % d->channels * rows * across + t));
            taps[t] = f.copy[signbit(factors[t]) != 0] + r * d->dilation[0] * f.wide + c * d->dilation[1];
        }
        fill_frame(d, &f, i);
        correlate[s->isa](taps, factors, rows * across, n, out);
        for (int64_t y = 0; y < d->to[0]; y++)
            put(d, out + y * f.wide, d->to[1], (i * d->to[0] + y) * d->to[1], s->isa);
    }
    free(out);
    free(f.copy[0]);
}

int depthwise_planes(const depthwise *d, int turned, call k) {
    sweep s = {d, turned, 0, k.isa};
    const int64_t work = d->to[0] * d->to[1] * (1 + d->kernel[0] * d->kernel[1] / 8);
    parallel(k.threads, d->images * d->channels, max_i64(1, THREAD_WORK / max_i64(1, work)), planes_range,
             &s);
    return s.failed;
}

// ------------------------------------------------------------------------------------ gradients of filters

// sums[r][s] = the chain for rows r and columns s of a filter, over n gradients in a row.
BODY gather_body(const float *const copy[2], int64_t down, int64_t step, const float *factors, int64_t n,
                 int rows, float (*sums)[LANES]) {
    float sum[ROWS][LANES];
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < LANES; j++) sum[r][j] = sums[r][j];
    for (int64_t x = 0; x < n; x++) {
        const float by = factors[x], *at = copy[(uint32_t)bits_of(by) >> 31] + x * step;
        for (int r = 0; r < rows; r++)
            for (int j = 0; j < LANES; j++) sum[r][j] = fmaf(at[r * down + j], by, sum[r][j]);
    }
    for (int r = 0; r < rows; r++)
        for (int j = 0; j < LANES; j++) sums[r][j] = sum[r][j];
}
#define GATHER(rows)                                                                                         \
    BODY gather_##rows##_body(const float *const copy[2], int64_t down, int64_t step, const float *factors,  \
                              int64_t n, float (*sums)[LANES]) {                                             \
        gather_body(copy, down, step, factors, n, rows, sums);                                               \
    }                                                                                                        \
    VARIANTS(gather_##rows,                                                                                  \
             (const float *const copy[2], int64_t down, int64_t step, const float *factors, int64_t n,       \
              float (*sums)[LANES]),                                                                         \
             (copy, down, step, factors, n, sums))
GATHER(4)
GATHER(8)

typedef struct {
    float sums[ROWS][LANES], total[ROWS][LANES];
} block;

#define BLOCKS ((LONGEST / ROWS) * (LONGEST / LANES))

typedef struct {
    block blocks[BLOCKS];
    int64_t down, across; // blocks that are used
    int64_t k;            // terms so far
} filter;

// Begin a chunk, after the total of the one before it is added; the first total is not a sum.
static void next_chunk(filter *f) {
    for (int64_t b = 0; b < f->down * f->across; b++)
        for (int r = 0; r < ROWS; r++)
            for (int j = 0; j < LANES; j++) {
                float *sum = &f->blocks[b].sums[r][j], *total = &f->blocks[b].total[r][j];
                *total = f->k == 0 ? -0.0f : f->k <= CHUNK ? *sum : *total + *sum;
                *sum = -0.0f;
            }
}

// Add the terms of one row of gradients.
static void add_row(const depthwise *d, const framed *p, int64_t y, const float *factors, filter *f,
                    enum isa isa) {
    for (int64_t x = 0; x < d->to[1];) {
        const int64_t n = min_i64(d->to[1] - x, CHUNK - f->k % CHUNK);
        for (int64_t b = 0; b < f->down * f->across; b++) {
            const int64_t r = b / f->across * ROWS, s = b % f->across * LANES;
            const int64_t at = (y * d->stride[0] + r * d->dilation[0]) * p->wide + x * d->stride[1] + s;
            const float *const copy[2] = {p->copy[0] + at, p->copy[1] + at};
            (d->kernel[0] - r > 4 ? gather_8 : gather_4)[isa](copy, d->dilation[0] * p->wide, d->stride[1],
                                                              factors + x, n, f->blocks[b].sums);
        }
        x += n, f->k += n;
        if (f->k % CHUNK == 0) next_chunk(f);
    }
}

static void filters_range(void *context, int64_t begin, int64_t end) {
    sweep *s = context;
    const depthwise *d = s->d;
    const int64_t out = d->to[0] * d->to[1];
    filter f = {.down = ceil_div(d->kernel[0], ROWS), .across = ceil_div(d->kernel[1], LANES)};
    framed p = {.high = d->from[0] + 2 * d->padding[0], .wide = d->from[1] + 2 * d->padding[1]};
    p.size = ((d->to[0] - 1) * d->stride[0] + (f.down * ROWS - 1) * d->dilation[0]) * p.wide +
             (d->to[1] - 1) * d->stride[1] + f.across * LANES;
    p.size = max_i64(p.size, p.high * p.wide);
    float *widened = malloc((size_t)(d->bf16 ? out : 1) * sizeof *widened);
    if (!widened || make_frame(&p)) {
        __atomic_store_n(&s->failed, 1, __ATOMIC_RELAXED);
        free(widened);
        return;
    }
    for (int64_t c = begin; c < end; c++) {
        f.k = 0;
        next_chunk(&f);
        for (int64_t i = c; i < d->images * d->channels; i += d->channels) {
            const float *factors = d->bf16 ? widened : (const float *)d->factors + i * out;
            for (int64_t j = 0; d->bf16 && j < out; j++)
                widened[j] = from_bf16(((const uint16_t *)d->factors)[i * out + j]);
            fill_frame(d, &p, i);
            for (int64_t y = 0; y < d->to[0]; y++) add_row(d, &p, y, factors + y * d->to[1], &f, s->isa);
        }
        if (f.k % CHUNK) f.k += CHUNK - f.k % CHUNK, next_chunk(&f);
        for (int64_t r = 0; r < d->kernel[0]; r++)
            for (int64_t t = 0; t < d->kernel[1]; t += LANES)
                put(d, f.blocks[r / ROWS * f.across + t / LANES].total[r % ROWS],
                    min_i64(LANES, d->kernel[1] - t), (c * d->kernel[0] + r) * d->kernel[1] + t, s->isa);
    }
    free(widened);
    free(p.copy[0]);
}

int depthwise_filters(const depthwise *d, call k) {
    sweep s = {d, 0, 0, k.isa};
    const int64_t work = d->images * d->to[0] * d->to[1] * (1 + d->kernel[0] * d->kernel[1] / 8);
    parallel(k.threads, d->channels, max_i64(1, THREAD_WORK / max_i64(1, work)), filters_range, &s);
    return s.failed;
}
