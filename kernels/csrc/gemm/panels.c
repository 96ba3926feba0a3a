// Finds taps by chunk and columns by panel. With an image, a tap exists for a column if it is inside.

#include "panels.h"
#include "pack.h"

// Return how many of a part's taps have a number below `number`.
static int64_t taps_below(const part *s, int64_t number) {
    int64_t low = 0, high = count_of(&s->taps);
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        int64_t found;
        expand(&s->taps, &s->number, counters_at(&s->taps, middle), 1, &found);
        if (found < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void find_taps(const plan *p, const part *s, int64_t begin, taps *t) {
    find_taps_between(p, s, begin, begin + CHUNK, t);
}

void find_taps_between(const plan *p, const part *s, int64_t begin, int64_t end, taps *t) {
    const int64_t first = taps_below(s, begin);
    t->count = taps_below(s, end) - first;
    t->b_runs = 0, t->b_low = INT64_MAX, t->b_high = INT64_MIN, t->ahead_count = 0;
    if (t->count == 0) return;
    const counters c = counters_at(&s->taps, first);
    expand(&s->taps, &s->number, c, t->count, t->a);
    for (int64_t k = 0; k < t->count; k++) t->a[k] = (t->a[k] - begin) * p->kernel->height;
    expand(&s->taps, &s->b_tap, c, t->count, t->b);
    if (s->image) {
        expand(&s->taps, &s->y_tap, c, t->count, t->y);
        expand(&s->taps, &s->x_tap, c, t->count, t->x);
    }
    int64_t x = c.at[LOOPS - 1], y = c.at[LOOPS - 2];
    for (int64_t k = 0; k < t->count; k++) {
        t->b_low = min_i64(t->b_low, t->b[k]), t->b_high = max_i64(t->b_high, t->b[k]);
        // Only the last row of a window is new; adjacent taps are in the same cache lines.
        const int last_row = y == s->taps.size[LOOPS - 2] - 1;
        if (last_row && (k == 0 || t->b[k] - t->b[k - 1] != 1)) t->ahead[t->ahead_count++] = t->b[k];
        if (++x == s->taps.size[LOOPS - 1]) x = 0, y = last_row ? 0 : y + 1;
    }
    t->b_runs = count_runs(t->b, t->count, apart(s->b_tap.stride[LOOPS - 1]));
}

// Set bit i if 0 <= at[i] + shift < size.
BODY inside_body(const int64_t *at, int64_t shift, int64_t size, uint32_t *bits) {
    uint32_t found = 0;
    for (int i = 0; i < MAX_WIDTH; i++) {
        const int64_t place = at[i] + shift;
        found |= (uint32_t)((place >= 0) & (place < size)) << i;
    }
    *bits = found;
}
VARIANTS(inside, (const int64_t *at, int64_t shift, int64_t size, uint32_t *bits), (at, shift, size, bits))

// Return whether there are taps that exist for no column.
static int find_existing(const plan *p, const part *s, const taps *t, panel *c) {
    const gemm *g = p->g;
    const int64_t inner = s->taps.size[LOOPS - 1], window = s->taps.size[LOOPS - 2] * inner;
    const uint32_t all = (uint32_t)((UINT64_C(1) << c->count) - 1);
    const int64_t once = min_i64(window, t->count); // then the same repeats
    uint32_t across[CHUNK], down = 0, common = all;
    int absent = 0;
    for (int64_t k = 0; k < once; k++) {
        if (k < inner)
            inside[p->isa](c->x, t->x[k], g->wide, &across[k]);
        else
            across[k] = across[k - inner];
        if (k == 0 || t->y[k] != t->y[k - 1]) inside[p->isa](c->y, t->y[k], g->high, &down);
        c->exists[k] = across[k] & down & all;
        common &= c->exists[k];
        absent |= c->exists[k] == 0;
    }
    for (int64_t done = once, more; done < t->count; done += more) {
        more = min_i64(done, t->count - done);
        memcpy(c->exists + done, c->exists, (size_t)more * sizeof *c->exists);
    }
    c->whole = common == all;
    return absent;
}

static int in_one_piece(const int64_t *place, int64_t count, int64_t half) {
    const int64_t first = min_i64(count, half), second = count - first;
    return run_of(place, first, 1) == first && (second == 0 || run_of(place + half, second, 1) == second);
}

void find_panel(const plan *p, const part *s, int64_t first, int64_t count, const taps *t, panel *c) {
    const int64_t half = p->kernel->width / 2;
    const counters at = counters_at(&s->columns, first);
    expand(&s->columns, &s->b_column, at, count, c->b);
    expand(&s->columns, &s->c_column, at, count, c->c);
    c->count = count;
    c->near_b = p->direct && in_one_piece(c->b, count, half);
    c->near_c = in_one_piece(c->c, count, half);
    c->whole = 1;
    c->some = s->taps.size[LOOPS - 1] * s->taps.size[LOOPS - 2] <
              p->g->taps.size[LOOPS - 1] * p->g->taps.size[LOOPS - 2];
    c->steps = t->count, c->a_step = t->a, c->b_step = t->b;
    if (s->image) {
        expand(&s->columns, &s->y_column, at, count, c->y);
        expand(&s->columns, &s->x_column, at, count, c->x);
        if (find_existing(p, s, t, c)) {
            c->some = 1, c->steps = 0, c->a_step = c->a_some, c->b_step = c->b_some;
            for (int64_t k = 0; k < t->count; k++) {
                c->a_some[c->steps] = t->a[k], c->b_some[c->steps] = t->b[k];
                c->exists[c->steps] = c->exists[k];
                c->steps += c->exists[k] != 0;
            }
        }
    }
    if (c->near_b && c->whole && count % half) { // memory beyond the last column must not be read
        c->whole = 0;
        for (int64_t k = 0; k < c->steps; k++) c->exists[k] = (uint32_t)((UINT64_C(1) << count) - 1);
    }
}
