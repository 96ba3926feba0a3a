// Sums of squares over the windows of a convolution, which bound the error of its sums of products.
//
// Letters: one axis of a plane has `size` places, `count` windows and `taps`; tap t of window i is place i *
// step + t * reach - padding, if that place exists. Each window gets the root of the sum over its taps. If
// `turned`, each place gets the root of the sum over the windows that have it as a tap.
//
// NOTE: the order of these sums is not defined, as in f64.c.

#include "runtime/repops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t size, count, taps, step, reach, padding;
} axis;

typedef struct {
    axis y, x;
    int turned;
    const double *from;
    double *to;
    enum isa isa;
    int failed;
} windows;

BODY add_body(const double *from, int64_t from_step, int64_t n, double *to, int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
        NO_DEPENDENCE
        for (int64_t i = 0; i < n; i++) to[i] += from[i];
    } else {
        for (int64_t i = 0; i < n; i++) to[i * to_step] += from[i * from_step];
    }
}
VARIANTS(add, (const double *from, int64_t from_step, int64_t n, double *to, int64_t to_step),
         (from, from_step, n, to, to_step))

// The windows first <= i < end that have a tap t, whose place for window i is i * step + `at`.
typedef struct {
    int64_t first, end, at;
} run;

static run run_of_tap(const axis *a, int64_t t) {
    const int64_t at = t * a->reach - a->padding;
    return (run){.first = at < 0 ? ceil_div(-at, a->step) : 0,
                 .end = at < a->size ? min_i64(a->count, (a->size - 1 - at) / a->step + 1) : 0,
                 .at = at};
}

// Compute a row of the result from a row of windows or of places: every tap across.
static void across(const windows *c, const double *from, double *to) {
    for (int64_t t = 0; t < c->x.taps; t++) {
        const run r = run_of_tap(&c->x, t);
        const int64_t n = r.end - r.first, place = r.first * c->x.step + r.at;
        if (n <= 0) continue;
        if (c->turned)
            add[c->isa](from + r.first, 1, n, to + place, c->x.step);
        else
            add[c->isa](from + place, c->x.step, n, to + r.first, 1);
    }
}

// Return the row of the plane that tap t of row `row` of the result reads, or -1.
static int64_t row_read(const windows *c, int64_t row, int64_t t) {
    const int64_t shift = t * c->y.reach - c->y.padding;
    if (!c->turned) {
        const int64_t place = row * c->y.step + shift;
        return place >= 0 && place < c->y.size ? place : -1;
    }
    const int64_t distance = row - shift;
    return distance >= 0 && distance % c->y.step == 0 && distance / c->y.step < c->y.count
               ? distance / c->y.step
               : -1;
}

static void windows_range(void *context, int64_t begin, int64_t end) {
    windows *c = context;
    const int64_t rows_in = c->turned ? c->y.count : c->y.size, wide_in = c->turned ? c->x.count : c->x.size;
    const int64_t rows = c->turned ? c->y.size : c->y.count, wide = c->turned ? c->x.size : c->x.count;
    // SAFETY: an untrusted dilation can make many rows of which hardly anything is read; these are not summed
    // whole.
    const int few = !c->turned && c->x.count < wide_in / c->x.taps;
    double *sums = malloc((size_t)max_i64(wide_in, 1) * sizeof *sums);
    if (!sums) {
        __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t plane = i / rows, row = i % rows;
        const double *from = c->from + plane * rows_in * wide_in;
        double *to = c->to + i * wide;
        memset(sums, 0, (size_t)wide_in * sizeof *sums);
        memset(to, 0, (size_t)wide * sizeof *to);
        for (int64_t t = 0; t < c->y.taps; t++) {
            const int64_t read = row_read(c, row, t);
            if (read < 0) continue;
            if (few)
                across(c, from + read * wide_in, to);
            else
                add[c->isa](from + read * wide_in, 1, wide_in, sums, 1);
        }
        if (!few) across(c, sums, to);
        for (int64_t x = 0; x < wide; x++) to[x] = sqrt(to[x]);
    }
    free(sums);
}

// words: the axes y and x, of six words each, and `turned`. From `planes` planes [size][size] to as many
// [count][count], or the reverse if turned. Return 1 if there is no memory.
REPOPS_EXPORT int repops_window_norms(const int64_t *words, int64_t planes, const double *from, double *to,
                                      int threads, int isa) {
    windows c = {.turned = (int)words[12], .from = from, .to = to, .isa = (enum isa)isa};
    memcpy(&c.y, words, sizeof c.y);
    memcpy(&c.x, words + 6, sizeof c.x);
    const int64_t rows = c.turned ? c.y.size : c.y.count;
    const int64_t work = (c.y.taps + c.x.taps) * max_i64(c.x.size, c.x.count);
    parallel(threads, planes * rows, max_i64(1, THREAD_WORK / 4 / max_i64(1, work)), windows_range, &c);
    return c.failed;
}
