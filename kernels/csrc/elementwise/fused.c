// Several operators in one pass: a tile of elements goes through a whole expression while it is in the
// first-level cache. Each instruction is a kernel of rows.h or unary.h, so the bits are those of the
// operators applied one by one. The kernels of grid.h round to a grid; if one of them is in doubt, so is the
// whole result.
//
// The elements form rows of n. A value varies along the row or is one item per row (a row's maximum, say),
// and may be the same for all rows. The program is a list of phases. A phase goes over the row tile by tile,
// and later phases may use its reductions:
//
//     softmax:   phase 0   m = amax(x)
//                phase 1   e = exp(x - m);  s = sum(e)      e is kept for the whole row
//                phase 2   y = e / s
//
// Several short rows are computed at once. repops/fuse/fusion.py makes, checks and describes the program,
// which this file trusts.

#include "unary.h"
#include "f64/grid.h"
#include "runtime/rows.h"
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define TILE 1024                  // elements. INVARIANT: BLOCK is a multiple of it
#define TILE_BYTES (TILE * 8 + 64) // so that tiles do not all start at the same place of a page
#define MAX_VALUES 256
#define MAX_CODE 256

enum place { INPUT, OUTPUT, TEMPORARY, KEPT, ITEM };
enum kind { ROW_KERNEL, UNARY_KERNEL, SELECT_KERNEL, REDUCTION, GRID_KERNEL_CALL };
enum outcome { DONE, NO_MEMORY, IN_DOUBT };

typedef struct {
    int64_t place, index, size, varies;
} value;

typedef struct {
    int64_t kind;
    void *kernel; // of the chosen instruction set; for a reduction, its tables
    int64_t result, operand[3];
} instruction;

// Instructions [items, tiles) run once per row, then [tiles, end) for each tile.
typedef struct {
    int64_t items, tiles, end;
} phase;

typedef struct {
    int64_t rank, n;                                      // outer dimensions; items of a row
    int64_t inputs, outputs, temporaries, kept, items;    // number of values in each place
    int64_t constants, values, phases, reductions, grain; // grain: elements that justify a thread
    int64_t passing;                                      // outputs bypass the caches, which cannot hold them
    int64_t bits;                                         // of the grid to which grid kernels round
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
    int64_t line;         // rows along the last outer dimension, over which every input moves evenly
    int64_t rows, tiles;  // of a unit of work: several short rows, or one tile of a row
    int64_t units_a_line; // units
    int failed, doubt;
} program;

// How an instruction is applied to several rows: in one call for all elements, in one call for all items, row
// by row, or once, because its operands are the same for all rows.
enum reach { FLAT, ITEMS, BY_ROW, ONCE };

// Working memory of a thread. Element t of value v in row r is at base[v] + r * pitch[v] + t * step[v]. The
// pitch is 0, that of contiguous rows (items), or an input's own.
typedef struct {
    char *temporaries, *kept, *items;
    char *passing;    // a tile of an output on its way to memory
    int64_t *partial; // block results of the reductions, one reduction after the other
    int64_t (*lanes)[LANES];
    int64_t blocks;
    int doubt;
    char *base[MAX_VALUES];
    int64_t pitch[MAX_VALUES], step[MAX_VALUES];
    enum reach reach[MAX_CODE];
} frame;

static void frame_free(frame *f) {
    free(f->temporaries);
    free(f->passing);
    free(f->kept);
    free(f->items);
    free(f->partial);
    free(f->lanes);
}

// Set the pitch of a result, and how the instruction is applied.
static void frame_reach(const program *p, frame *f, int64_t k) {
    const instruction *i = &p->code[k];
    const value *result = &p->values[i->result];
    int moves = 0, flat = 1, even = 1;
    for (int o = 0; o < 3; o++) {
        const int64_t v = i->operand[o], size = p->values[v].size;
        moves |= f->pitch[v] != 0;
        flat &= p->values[v].varies == (f->pitch[v] != 0);
        even &= !f->pitch[v] || f->pitch[v] == (p->values[v].varies ? p->h->n * size : size);
    }
    if (result->place != OUTPUT)
        f->pitch[i->result] = !moves ? 0 : result->varies ? p->h->n * result->size : result->size;
    f->reach[k] = !f->pitch[i->result] ? ONCE : i->kind == REDUCTION ? BY_ROW : ITEMS;
    if (f->reach[k] == ITEMS && result->varies) f->reach[k] = flat && moves ? FLAT : BY_ROW;
    // A map has no strides: to give items, its operand must be items.
    if (f->reach[k] == ITEMS && i->kind == UNARY_KERNEL && !moves) f->reach[k] = BY_ROW;
    if ((f->reach[k] == ITEMS || f->reach[k] == FLAT) && !even) f->reach[k] = BY_ROW;
}

static int frame_make(const program *p, frame *f) {
    const header *h = p->h;
    const size_t row = (size_t)max_i64(ceil_div(h->n, 8) * 64, TILE_BYTES), item = 8 * (size_t)p->rows;
    f->doubt = 0;
    f->blocks = max_i64(1, ceil_div(h->n, BLOCK));
    f->temporaries = aligned_alloc(64, (size_t)(h->temporaries + 1) * TILE_BYTES);
    f->passing = aligned_alloc(64, TILE_BYTES);
    f->kept = aligned_alloc(64, (size_t)(h->kept + 1) * row);
    f->items = calloc((size_t)h->items + 1, item);
    f->partial = malloc((size_t)(h->reductions * f->blocks + 1) * sizeof *f->partial);
    f->lanes = malloc((size_t)(h->reductions + 1) * sizeof *f->lanes);
    if (!f->temporaries || !f->passing || !f->kept || !f->items || !f->partial || !f->lanes) return 1;

    for (int64_t c = 0; c < h->constants; c++)
        memcpy(f->items + (size_t)p->constant[2 * c] * item, &p->constant[2 * c + 1], 8);
    for (int64_t v = 0; v < h->values; v++) {
        const value *x = &p->values[v];
        f->step[v] = x->varies && x->place != TEMPORARY ? x->size : 0;
        f->pitch[v] = 0;
        if (x->place == INPUT && h->rank) f->pitch[v] = p->stride[x->index * h->rank + h->rank - 1] * x->size;
        if (x->place == OUTPUT) f->pitch[v] = (x->varies ? h->n : 1) * x->size;
        if (x->place == TEMPORARY) f->base[v] = f->temporaries + x->index * TILE_BYTES;
        if (x->place == KEPT) f->base[v] = f->kept + (size_t)x->index * row;
        if (x->place == ITEM) f->base[v] = f->items + (size_t)x->index * item;
    }
    for (int64_t k = 0; k < p->phases[h->phases - 1].end; k++) frame_reach(p, f, k);
    return 0;
}

// Point the inputs and outputs at a row.
static void enter_row(const program *p, frame *f, int64_t line, int64_t row) {
    const header *h = p->h;
    for (int64_t v = 0; v < h->values; v++) {
        const value *x = &p->values[v];
        if (x->place == OUTPUT)
            f->base[v] = (char *)p->data[h->inputs + x->index] + (line * p->line + row) * f->pitch[v];
        if (x->place != INPUT) continue;
        f->base[v] = (char *)p->data[x->index] + row * f->pitch[v];
        int64_t rest = line;
        for (int64_t d = h->rank - 2; d >= 0 && rest; d--) {
            f->base[v] += rest % p->dim[d] * p->stride[x->index * h->rank + d] * x->size;
            rest /= p->dim[d];
        }
    }
}

static void call_kernel(const program *p, frame *f, const instruction *i, int64_t row, int64_t at, int64_t n,
                        int items) {
    char *x[4];
    int64_t s[4];
    const int64_t v[4] = {i->result, i->operand[0], i->operand[1], i->operand[2]};
    for (int k = 0; k < 4; k++) {
        x[k] = f->base[v[k]] + row * f->pitch[v[k]] + at * f->step[v[k]];
        s[k] = items ? f->pitch[v[k]] != 0 : p->values[v[k]].varies;
    }
    if (i->kind == ROW_KERNEL)
        ((row_kernel *)i->kernel)(n, x[0], x[1], s[1], x[2], s[2]);
    else if (i->kind == UNARY_KERNEL) // its operand varies if its result does
        ((map *)i->kernel)((float *)x[0], (const float *)x[1], n);
    else if (i->kind == GRID_KERNEL_CALL)
        ((grid_kernel *)i->kernel)(n, (float *)x[0], (const float *)x[1], s[1], (const float *)x[2], s[2],
                                   (int)p->h->bits, &f->doubt);
    else
        ((select_kernel *)i->kernel)(n, x[0], x[1], s[1], x[2], s[2], x[3], s[3]);
}

// Apply to elements [at, at + n) of `rows` rows. INVARIANT: n is the whole row if there are several rows.
static void apply(const program *p, frame *f, int64_t k, int64_t rows, int64_t at, int64_t n) {
    const instruction *i = &p->code[k];
    const enum reach reach = f->reach[k];
    if (reach == FLAT)
        call_kernel(p, f, i, 0, at, rows * n, 0);
    else if (reach == ITEMS)
        call_kernel(p, f, i, 0, 0, rows, 1);
    else
        for (int64_t r = 0; r < (reach == ONCE ? 1 : rows); r++) call_kernel(p, f, i, r, at, n, 0);
}

// Apply reduction number `number`. A row longer than a tile updates its lanes tile by tile; the block results
// are reduced by the same rule at the end.
static void reduce(const program *p, frame *f, int64_t k, int64_t number, int64_t rows, int64_t at,
                   int64_t n) {
    const instruction *i = &p->code[k];
    const reduction *r = i->kernel;
    const int64_t from = i->operand[0], size = p->values[i->result].size;
    const char *x = f->base[from] + at * f->step[from];
    char *to = f->base[i->result];
    if (n == p->h->n) {
        if (f->reach[k] == ONCE) rows = 1;
        for (int64_t row = 0; row < rows; row++)
            r->whole[p->isa](x + row * f->pitch[from], n, to + row * f->pitch[i->result]);
        return;
    }
    char *partial = (char *)(f->partial + number * f->blocks);
    void *lanes = f->lanes[number];
    if (r->unbroken) {
        if (at == 0) r->begin[p->isa](lanes);
        r->add[p->isa](lanes, at, x, n);
        if (at + n == p->h->n) r->fold[p->isa](lanes, to);
        return;
    }
    if (at % BLOCK == 0) r->begin[p->isa](lanes);
    r->add[p->isa](lanes, at % BLOCK, x, n);
    if ((at + n) % BLOCK == 0 || at + n == p->h->n) r->fold[p->isa](lanes, partial + at / BLOCK * size);
    if (at + n < p->h->n) return;
    for (int64_t left = f->blocks; left > 1; left = ceil_div(left, BLOCK))
        for (int64_t b = 0; b * BLOCK < left; b++) // result b replaces elements that have been read
            r->whole[p->isa](partial + b * BLOCK * size, min_i64(BLOCK, left - b * BLOCK),
                             partial + b * size);
    memcpy(to, partial, (size_t)size);
}

// Copy bytes to memory without loading the cache lines that they fill. The first and the last few bytes share
// a line with other tiles and are written normally.
static void pass_caches(char *to, const char *from, size_t bytes) {
#if defined(__x86_64__)
    const size_t head = -(uintptr_t)to % 64 < bytes ? -(uintptr_t)to % 64 : bytes;
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= bytes; at += 64)
        for (int i = 0; i < 64; i += 16)
            _mm_stream_si128((__m128i *)(to + at + i), _mm_loadu_si128((const __m128i *)(from + at + i)));
    memcpy(to + at, from + at, bytes - at);
#else
    memcpy(to, from, bytes);
#endif
}

// Apply an instruction whose result is part of a large output.
static void apply_passing(const program *p, frame *f, int64_t k, int64_t at, int64_t n) {
    const int64_t v = p->code[k].result, size = p->values[v].size;
    char *const to = f->base[v];
    f->base[v] = f->passing - at * size;
    apply(p, f, k, 1, at, n);
    f->base[v] = to;
    pass_caches(to + at * size, f->passing, (size_t)(n * size));
}

// Run one tile of a phase; the program has `number` reductions before this phase.
static void run_tile(const program *p, frame *f, const phase *s, int64_t number, int64_t rows, int64_t at) {
    const int64_t n = min_i64(TILE, p->h->n - at);
    for (int64_t k = s->tiles; k < s->end; k++) {
        const value *result = &p->values[p->code[k].result];
        if (p->code[k].kind == REDUCTION)
            reduce(p, f, k, number++, rows, at, n);
        else if (p->h->passing && result->place == OUTPUT && result->varies && rows == 1)
            apply_passing(p, f, k, at, n);
        else
            apply(p, f, k, rows, at, n);
    }
}

static void run_rows(const program *p, frame *f, int64_t rows) {
    int64_t number = 0;
    for (const phase *s = p->phases; s < p->phases + p->h->phases; s++) {
        for (int64_t k = s->items; k < s->tiles; k++) apply(p, f, k, rows, 0, 1);
        for (int64_t at = 0; at < p->h->n; at += TILE) run_tile(p, f, s, number, rows, at);
        for (int64_t k = s->tiles; k < s->end; k++) number += p->code[k].kind == REDUCTION;
    }
}

static void range(void *context, int64_t begin, int64_t end) {
    program *p = context;
    frame f;
    if (frame_make(p, &f)) {
        __atomic_store_n(&p->failed, 1, __ATOMIC_RELAXED);
        end = begin;
    }
    int64_t entered = -1;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t line = unit / p->units_a_line, rest = unit % p->units_a_line;
        const int64_t row = rest / p->tiles * p->rows;
        enter_row(p, &f, line, row);
        if (p->tiles == 1) {
            run_rows(p, &f, min_i64(p->rows, p->line - row));
            continue;
        }
        if (entered != unit / p->tiles)
            for (int64_t k = p->phases[0].items; k < p->phases[0].tiles; k++) apply(p, &f, k, 1, 0, 1);
        entered = unit / p->tiles;
        run_tile(p, &f, &p->phases[0], 0, 1, rest % p->tiles * TILE);
    }
    if (f.doubt) __atomic_store_n(&p->doubt, 1, __ATOMIC_RELAXED);
    frame_free(&f);
#if defined(__x86_64__)
    if (p->h->passing) _mm_sfence();
#endif
}

// Return an outcome. IN_DOUBT: a function's value is too near to a midpoint of the grid to be rounded here.
REPOPS_EXPORT int repops_fused(const int64_t *words, void *const *data, int threads, int isa) {
    program p = {.h = (const header *)words, .data = data, .isa = (enum isa)isa};
    p.dim = p.h->words;
    p.stride = p.dim + p.h->rank;
    p.constant = p.stride + p.h->inputs * p.h->rank;
    p.values = (const value *)(p.constant + 2 * p.h->constants);
    p.phases = (const phase *)(p.values + p.h->values);
    p.code = (const instruction *)(p.phases + p.h->phases);

    const int64_t lines = p.h->rank ? product(p.dim, p.h->rank - 1) : 1;
    p.line = p.h->rank ? p.dim[p.h->rank - 1] : 1;
    p.rows = max_i64(1, TILE / p.h->n);
    p.tiles = p.h->reductions ? 1 : ceil_div(p.h->n, TILE);
    p.units_a_line = ceil_div(p.line, p.rows) * p.tiles;
    const int64_t unit = p.rows * ceil_div(p.h->n, p.tiles); // elements
    parallel(threads, lines * p.units_a_line, ceil_div(p.h->grain, unit), range, &p);
    return p.failed ? NO_MEMORY : p.doubt ? IN_DOUBT : DONE;
}

static const struct {
    const char *name;
    map *const *kernel;
} named_unary[] = {
    {"exp_f32", exp_map},   {"log_f32", log_map}, {"log1p_f32", log1p_map}, {"erf_f32", erf_map},
    {"tanh_f32", tanh_map}, {"sin_f32", sin_map}, {"cos_f32", cos_map},     {NULL, NULL},
};

// Return the kernel called `name` for an instruction set and set its kind; NULL if there is none.
REPOPS_EXPORT void *repops_kernel(const char *name, int isa, int64_t *kind) {
    *kind = ROW_KERNEL;
    for (const named_row *k = named_rows; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel[isa];
    if (!strcmp(name, "pow_f32")) return (void *)pow_rows[isa];
    if (!strcmp(name, "exp_sub_f32")) return (void *)exp_sub_rows[isa];
    *kind = UNARY_KERNEL;
    for (int k = 0; named_unary[k].name; k++)
        if (!strcmp(named_unary[k].name, name)) return (void *)named_unary[k].kernel[isa];
    *kind = SELECT_KERNEL;
    for (const named_select *k = named_selects; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel[isa];
    *kind = GRID_KERNEL_CALL;
    for (const named_grid_kernel *k = named_grid_kernels; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel[isa];
    *kind = REDUCTION;
    for (const named_reduction *k = named_reductions; k->name; k++)
        if (!strcmp(k->name, name)) return (void *)k->kernel;
    return NULL;
}
