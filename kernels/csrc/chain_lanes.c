// sum of f32: lanes that fold into blocks, blocks whose sums are items one level up (docs/opset.md, section
// 2).
//
// A walk takes the items that exist, block after block and lane after lane, lanes in the order of their bits
// reversed: then what is folded next has always just been finished. A step takes its item, and folds all that
// is due before the next one; what does not exist is -0. Words of a level, from the lowest: the lane's sum,
// then those of 1, 2, 4, 8 and 16 lanes that wait.

#include "chain.h"

#define LANES 32
#define FOLDS 5
#define WORDS (1 + FOLDS)
#define LEVELS 4 // 4096^4 is more than any tensor has

typedef struct {
    int levels;
    int64_t items[LEVELS]; // of each level, from the lowest
    float words[LEVELS * WORDS];
} walk;

// The items of lane `turn`, the lanes in their order, of a block of so many.
static int64_t lane_of(int turn) {
    int lane = 0;
    for (int bit = 0; bit < FOLDS; bit++) lane |= (turn >> bit & 1) << (FOLDS - 1 - bit);
    return lane;
}
static int64_t items_of(int turn, int64_t block) {
    const int64_t lane = lane_of(turn);
    return lane < block ? (block - lane - 1) / LANES + 1 : 0;
}

// Where a walk is in one block: `at` is in lane `turn`.
typedef struct {
    int64_t size; // items of the block
    int turn;
    int64_t at;
} cursor;

static int64_t item_at(const cursor *c) {
    return c->at * LANES + lane_of(c->turn);
}

// The cursor at step `step` of a block, of which every item is one step.
static cursor cursor_at(int64_t size, int64_t step) {
    cursor c = {size, 0, step};
    while (c.at >= items_of(c.turn, size)) c.at -= items_of(c.turn++, size);
    return c;
}
static int64_t step_of_last(int64_t size) {
    const int lane = (int)((size - 1) % LANES);
    int64_t steps = (size - 1) / LANES;
    for (int turn = 0; lane_of(turn) != lane; turn++) steps += items_of(turn, size);
    return steps;
}

// Cursors of all levels at step t; those below the top are in blocks of BLOCK, but for the last of a level.
static void cursors_at(const walk *w, int64_t t, cursor *at) {
    int64_t whole = 1; // steps of a complete item
    for (int l = 1; l < w->levels; l++) whole *= BLOCK;
    int64_t size = w->items[w->levels - 1],
            steps = w->items[0]; // of the block that is entered, and its steps
    for (int l = w->levels - 1; l >= 0; l--, whole /= BLOCK) {
        const int64_t last = step_of_last(size), rest = steps - (size - 1) * whole; // of its last item
        int64_t step;
        if (t < last * whole) {
            step = t / whole, t %= whole, steps = whole;
        } else if (t < last * whole + rest) {
            step = last, t -= last * whole, steps = rest;
        } else {
            step = 1 + (t - rest) / whole, t = (t - rest) % whole, steps = whole;
        }
        at[l] = cursor_at(size, step);
        size = l ? ceil_div(steps, whole / BLOCK) : 0;
    }
}

// The lane is finished: fold until the next one that has items. Whether that ends the block; then its sum is
// in *sum.
static int end_lane(float *words, cursor *c, float *sum) {
    do {
        float value = words[0];
        words[0] = -0.0f;
        int fold = 1;
        for (int turn = c->turn; turn & 1; turn >>= 1, fold++)
            value = words[fold] + value, words[fold] = -0.0f;
        c->at = 0;
        if (++c->turn == LANES) {
            *sum = value;
            return 1;
        }
        words[fold] = value;
    } while (!items_of(c->turn, c->size));
    return 0;
}

// A block of level 0 is finished: its sum is an item one level up, which may end a lane there.
static void carry(walk *w, cursor *at, float sum) {
    for (int l = 1; l < w->levels; l++) {
        w->words[l * WORDS] += sum;
        if (++at[l].at < items_of(at[l].turn, at[l].size)) return;
        if (!end_lane(w->words + l * WORDS, &at[l], &sum)) return;
    }
    w->words[(w->levels - 1) * WORDS] = sum;
}

void chain_lanes(const chain *c) {
    const reduction r = reduction_of(c);
    const float *x = c->data[0];
    walk w = {.levels = 1, .items = {r.count}};
    while (w.items[w.levels - 1] > BLOCK)
        w.items[w.levels] = ceil_div(w.items[w.levels - 1], BLOCK), w.levels++;
    for (int i = 0; i < w.levels * WORDS; i++) w.words[i] = get_f32(c->state + 4 * i);

    for (int64_t t = c->from; t < c->to;) {
        cursor at[LEVELS];
        cursors_at(&w, t, at);
        int64_t first = 0, places[BLOCK];
        for (int l = w.levels - 1; l > 0; l--) first = (first + item_at(&at[l])) * BLOCK;
        reduced_places(&r, first, at[0].size, places);
        for (int ended = 0; t < c->to && !ended;) {
            const int64_t lane = lane_of(at[0].turn), items = items_of(at[0].turn, at[0].size);
            const int64_t end = min_i64(items, at[0].at + c->to - t);
            float sum = w.words[0];
            for (int64_t i = at[0].at; i < end; i++) sum += x[places[i * LANES + lane]];
            t += end - at[0].at, at[0].at = end, w.words[0] = sum;
            if (end < items) break;
            if ((ended = end_lane(w.words, &at[0], &sum))) carry(&w, at, sum);
        }
    }
    for (int i = 0; i < w.levels * WORDS; i++) put_f32(c->state + 4 * i, w.words[i]);
}
