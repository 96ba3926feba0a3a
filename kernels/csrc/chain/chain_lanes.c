// sum of f32: lanes fold into blocks, and sums of blocks are items one level up (docs/opset.md, section 2).
//
// A walk takes the existing items, block after block and lane after lane, with lanes in bit-reversed order:
// then the next two partial sums to fold are always the last two finished. A step takes its item and does all
// folds that are due before the next item. An absent item is -0. Words of a level, lowest first: the sum of
// the lane, then the sums of 1, 2, 4, 8 and 16 lanes that wait.

#include "chain.h"

#define LANES 32
#define FOLDS 5
#define WORDS (1 + FOLDS)
#define LEVELS 4 // 4096^4 is more than any tensor has

typedef struct {
    int levels;
    int64_t items[LEVELS]; // of each level, lowest first
    float words[LEVELS * WORDS];
} walk;

// Lane number `turn` in bit-reversed order, and the number of its items in a block of `block` items.
static int64_t lane_of(int turn) {
    int lane = 0;
    for (int bit = 0; bit < FOLDS; bit++) lane |= (turn >> bit & 1) << (FOLDS - 1 - bit);
    return lane;
}
static int64_t items_of(int turn, int64_t block) {
    const int64_t lane = lane_of(turn);
    return lane < block ? (block - lane - 1) / LANES + 1 : 0;
}

// The position of a walk in one block: `at` is in lane `turn`.
typedef struct {
    int64_t size; // items of the block
    int turn;
    int64_t at;
} cursor;

static int64_t item_at(const cursor *c) {
    return c->at * LANES + lane_of(c->turn);
}

// Return the cursor at step `step` of a block in which every item is one step.
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

// Find the cursors of all levels at step t. Below the top, all blocks but a level's last have BLOCK items.
static void cursors_at(const walk *w, int64_t t, cursor *at) {
    int64_t whole = 1; // steps of a complete item
    for (int l = 1; l < w->levels; l++) whole *= BLOCK;
    int64_t size = w->items[w->levels - 1],
            steps = w->items[0]; // of the block that is entered
    for (int l = w->levels - 1; l >= 0; l--, whole /= BLOCK) {
        const int64_t last = step_of_last(size), rest = steps - (size - 1) * whole; // steps of the last item
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

// Finish a lane: fold until the next lane that has items. Return whether this ends the block, whose sum is
// then in *sum.
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

// Finish a block of level 0: its sum is an item one level up and may end a lane there.
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
