// Several operators in one pass: a tile of elements goes through a whole expression while it is in the
// first-level cache. Each instruction is a kernel of rows.h, so the bits are those of the operators one by
// one.
//
// The elements form rows of n. A value either varies along the row or is one item a row (a row's maximum,
// say). The program is a list of phases; a phase goes over the row tile by tile, and what a phase reduces,
// the next may use:
//
//     softmax:   phase 0   m = amax(x)
//                phase 1   e = exp(x - m);  s = sum(e)      e is kept for the whole row
//                phase 2   y = e / s
//
// The program is made, checked and described in repops/fusion.py. It is trusted, as kernels' callers are.

#include "maps.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>

#define TILE 1024                  // INVARIANT: BLOCK is a multiple of it
#define TILE_BYTES (TILE * 8 + 64) // so that tiles do not all start at the same place of a page
#define MAX_VALUES 256

enum place { INPUT, OUTPUT, TEMPORARY, KEPT, ITEM };
enum kind { ROW_KERNEL, MAP, SELECT_KERNEL, REDUCTION };

typedef struct {
    int64_t place, index, size, varies;
} value;

typedef struct {
    int64_t kind;
    void *kernel; // of the chosen instruction set; for a reduction, its table
    int64_t result, operand[3];
} instruction;

// Instructions [items, tiles) once a row, then [tiles, end) for each tile.
typedef struct {
    int64_t items, tiles, end;
} phase;

typedef struct {
    int64_t rank, n;                                      // outer dimensions; items of a row
    int64_t inputs, outputs, temporaries, kept, items;    // how many of each place
    int64_t constants, values, phases, reductions, grain; // grain: tiles, or rows if there are reductions
    int64_t words[];
} header;

typedef struct {
    const header *h;
    const int64_t *dim;
    const int64_t *stride;   // [inputs][rank], in elements
    const int64_t *constant; // [constants][2]: an item's index and bits
    const value *values;
    const phase *phases;
    const instruction *code;
    void *const *data;
    enum isa isa;
    int failed;
} program;

// What a thread works with. Value v of a tile that starts at element t is at base[v] + t * step[v].
typedef struct {
    char *temporaries, *kept;
    int64_t *items;
    int64_t (*lanes)[LANES];
    int64_t *partial; // of the reductions, one after the other
    int64_t blocks;
    char *base[MAX_VALUES];
    int64_t step[MAX_VALUES];
} frame;

static void frame_free(frame *f) {
    free(f->temporaries);
    free(f->kept);
    free(f->items);
    free(f->lanes);
    free(f->partial);
}

static int frame_make(const program *p, frame *f) {
    const header *h = p->h;
    f->blocks = max_i64(1, ceil_div(h->n, BLOCK));
    f->temporaries = aligned_alloc(64, (size_t)(h->temporaries + 1) * TILE_BYTES);
    f->kept = aligned_alloc(64, (size_t)(h->kept + 1) * (size_t)(ceil_div(h->n, 8) * 64));
    f->items = calloc((size_t)h->items + 1, sizeof *f->items);
    f->lanes = malloc((size_t)(h->reductions + 1) * sizeof *f->lanes);
    f->partial = malloc((size_t)(h->reductions * f->blocks + 1) * sizeof *f->partial);
    if (!f->temporaries || !f->kept || !f->items || !f->lanes || !f->partial) return 1;

    for (int64_t c = 0; c < h->constants; c++) f->items[p->constant[2 * c]] = p->constant[2 * c + 1];
    for (int64_t v = 0; v < h->values; v++) {
        const value *x = &p->values[v];
        f->step[v] = x->varies && x->place != TEMPORARY ? x->size : 0;
        if (x->place == TEMPORARY) f->base[v] = f->temporaries + x->index * TILE_BYTES;
        if (x->place == KEPT) f->base[v] = f->kept + x->index * (ceil_div(h->n, 8) * 64);
        if (x->place == ITEM) f->base[v] = (char *)&f->items[x->index];
    }
    return 0;
}

static void enter_row(const program *p, frame *f, int64_t row) {
    const header *h = p->h;
    int64_t offset[MAX_VALUES] = {0}, rest = row;
    for (int64_t d = h->rank - 1; d >= 0; d--) {
        const int64_t index = d ? rest % p->dim[d] : rest;
        if (d) rest /= p->dim[d];
        for (int64_t i = 0; i < h->inputs; i++) offset[i] += index * p->stride[i * h->rank + d];
    }
    for (int64_t v = 0; v < h->values; v++) {
        const value *x = &p->values[v];
        if (x->place == INPUT) f->base[v] = (char *)p->data[x->index] + offset[x->index] * x->size;
        if (x->place == OUTPUT)
            f->base[v] = (char *)p->data[h->inputs + x->index] + row * (x->varies ? h->n : 1) * x->size;
    }
}

static void apply(const program *p, frame *f, const instruction *i, int64_t at, int64_t n) {
    char *x[4];
    int64_t s[4];
    const int64_t v[4] = {i->result, i->operand[0], i->operand[1], i->operand[2]};
    for (int k = 0; k < 4; k++) {
        x[k] = f->base[v[k]] + at * f->step[v[k]];
        s[k] = p->values[v[k]].varies;
    }
    if (i->kind == ROW_KERNEL)
        ((row_kernel *)i->kernel)(n, x[0], x[1], s[1], x[2], s[2]);
    else if (i->kind == MAP) // its operand varies if the result does
        ((map *)i->kernel)((float *)x[0], (const float *)x[1], n);
    else
        ((select_kernel *)i->kernel)(n, x[0], x[1], s[1], x[2], s[2], x[3], s[3]);
}

// The lanes of reduction `number` take a tile; at the end of a block they give a partial result. Item sizes
// of partial results are those of the result, side by side.
static void reduce_tile(const program *p, frame *f, const instruction *i, int64_t number, int64_t at,
                        int64_t n) {
    const reduction *r = i->kernel;
    const int64_t from = i->operand[0], size = p->values[i->result].size;
    char *partial = (char *)(f->partial + number * f->blocks);
    void *lanes = f->lanes[number];
    if (at % BLOCK == 0) r->begin[p->isa](lanes);
    r->add[p->isa](lanes, at % BLOCK, f->base[from] + at * f->step[from], n);
    if ((at + n) % BLOCK == 0 || at + n == p->h->n) r->fold[p->isa](lanes, partial + at / BLOCK * size);
}

// Block results to one, by the same rule.
static void reduce_blocks(const program *p, frame *f, const instruction *i, int64_t number) {
    const reduction *r = i->kernel;
    const int64_t size = p->values[i->result].size;
    char *partial = (char *)(f->partial + number * f->blocks);
    for (int64_t n = f->blocks; n > 1; n = ceil_div(n, BLOCK))
        for (int64_t b = 0; b * BLOCK < n; b++) // result b replaces elements that have been read
            r->whole[p->isa](partial + b * BLOCK * size, min_i64(BLOCK, n - b * BLOCK), partial + b * size);
    memcpy(f->base[i->result], partial, (size_t)size);
}

static void run_items(const program *p, frame *f, const phase *s) {
    for (int64_t i = s->items; i < s->tiles; i++) apply(p, f, &p->code[i], 0, 1);
}

// While a tile is worked on, the inputs of the one after next are fetched, one a call: an instruction reads its
// tile in a burst that is too short for the processor to see a stream.
static void prefetch(const program *p, const frame *f, int64_t v, int64_t at) {
    if (p->values[v].place != INPUT || !p->values[v].varies || at >= p->h->n) return;
    const char *from = f->base[v] + at * f->step[v];
    const int64_t bytes = min_i64(TILE, p->h->n - at) * f->step[v];
    for (int64_t b = 0; b < bytes; b += 64) __builtin_prefetch(from + b, 0, 2);
}

// One tile of a phase, before which the program has `number` reductions.
static void run_tile(const program *p, frame *f, const phase *s, int64_t at, int64_t number) {
    const int64_t n = min_i64(TILE, p->h->n - at);
    for (int64_t i = s->tiles; i < s->end; i++) {
        if (i - s->tiles < p->h->inputs) prefetch(p, f, i - s->tiles, at + 2 * TILE);
        if (p->code[i].kind == REDUCTION)
            reduce_tile(p, f, &p->code[i], number++, at, n);
        else
            apply(p, f, &p->code[i], at, n);
    }
}

static void run_row(const program *p, frame *f) {
    int64_t number = 0;
    for (int64_t k = 0; k < p->h->phases; k++) {
        const phase *s = &p->phases[k];
        run_items(p, f, s);
        for (int64_t at = 0; at < p->h->n; at += TILE) run_tile(p, f, s, at, number);
        for (int64_t i = s->tiles; i < s->end; i++)
            if (p->code[i].kind == REDUCTION) reduce_blocks(p, f, &p->code[i], number++);
    }
}

static void range(void *context, int64_t begin, int64_t end) {
    program *p = context;
    frame f;
    if (frame_make(p, &f)) {
        __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
    } else if (p->h->reductions) {
        for (int64_t row = begin; row < end; row++) {
            enter_row(p, &f, row);
            run_row(p, &f);
        }
    } else {
        const int64_t tiles = ceil_div(p->h->n, TILE);
        for (int64_t at = begin; at < end; at++) { // (row, tile)
            if (at == begin || at % tiles == 0) {
                enter_row(p, &f, at / tiles);
                run_items(p, &f, &p->phases[0]);
            }
            run_tile(p, &f, &p->phases[0], at % tiles * TILE, 0);
        }
    }
    frame_free(&f);
}

REPOPS_EXPORT int repops_fused(const int64_t *words, void *const *data, int threads, int isa) {
    program p = {.h = (const header *)words, .data = data, .isa = (enum isa)isa};
    p.dim = p.h->words;
    p.stride = p.dim + p.h->rank;
    p.constant = p.stride + p.h->inputs * p.h->rank;
    p.values = (const value *)(p.constant + 2 * p.h->constants);
    p.phases = (const phase *)(p.values + p.h->values);
    p.code = (const instruction *)(p.phases + p.h->phases);
    const int64_t rows = product(p.dim, p.h->rank);
    const int64_t units = p.h->reductions ? rows : rows * ceil_div(p.h->n, TILE);
    parallel(threads, units, p.h->grain, range, &p);
    return p.failed;
}

static const struct {
    const char *name;
    map *const *kernel;
} named_maps[] = {
    {"exp_f32", exp_map},   {"log_f32", log_map}, {"log1p_f32", log1p_map}, {"erf_f32", erf_map},
    {"tanh_f32", tanh_map}, {"sin_f32", sin_map}, {"cos_f32", cos_map},     {NULL, NULL},
};

// The kernel called `name` for an instruction set, and its kind; NULL if there is none.
REPOPS_EXPORT void *repops_kernel(const char *name, int isa, int64_t *kind) {
    *kind = ROW_KERNEL;
    for (const named_row *k = named_rows; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel[isa];
    if (!strcmp(name, "pow_f32")) return (void *)pow_rows[isa];
    *kind = MAP;
    for (int k = 0; named_maps[k].name; k++)
        if (!strcmp(named_maps[k].name, name)) return (void *)named_maps[k].kernel[isa];
    *kind = SELECT_KERNEL;
    for (const named_select *k = named_selects; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel[isa];
    *kind = REDUCTION;
    for (const named_reduction *k = named_reductions; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel;
    return NULL;
}
