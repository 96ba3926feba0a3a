// The driver of contractions in the mode exact (exact_gemm.h).

#include "exact_gemm.h"
#include "exact_settle.h"

static void range(void *context, int64_t begin, int64_t end) {
    const plan *p = context;
    const gemm *g = p->g;
    open_elements open;
    for (int64_t i = begin; i < end; i++) { // (batch, part, row)
        const int64_t row = i % g->rows, batch = i / g->rows / g->parts;
        part s;
        g->find_part(g->context, i / g->rows % g->parts, &s);
        const int64_t columns = count_of(&s.columns);
        for (int64_t n = 0; n < columns; n += OPEN_ELEMENTS) {
            open.count = min_i64(OPEN_ELEMENTS, columns - n);
            for (int64_t j = 0; j < open.count; j++) open.row[j] = row, open.column[j] = n + j;
            exact_settle(p, &s, batch, &open);
        }
    }
}

int exact_gemm_run(const gemm *g, int threads, enum isa isa) {
    plan p;
    p.g = g, p.kernel = f64_kernels[isa], p.moves = microkernels[isa], p.isa = isa, p.failed = 0;
    if (g->batch * g->rows * g->columns) parallel(threads, g->batch * g->parts * g->rows, 1, range, &p);
    return p.failed;
}
