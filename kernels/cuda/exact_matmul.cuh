// mm and bmm in the mode exact.

#ifndef REPOPS_EXACT_MATMUL_CUH
#define REPOPS_EXACT_MATMUL_CUH

#include "matmul.cuh"
#include "exact_gemm.cuh"

struct ExactMatmul {
    Matmul of;
    Exact exact;
    i64 few; // tiles with at most so many open elements are left as they are; if negative, none is
};

template <class T> struct MatmulMemory : WideMemory<T, NoTable> {
    int open[T::THREADS / WARP]; // elements, by warp
};

// Whether a tile of C has at most `few` open elements.
template <class T, class E>
DEVICE bool has_few_open(const Grid &g, const Share &share, i64 few, int (&open_of_warp)[T::THREADS / WARP]) {
    typedef typename Bits<E>::Word Word;
    const Word *c = (const Word *)g.out + share.batch * g.m * g.n;
    int open = 0;
    for (int i = thread_index(); i < T::BM * T::BN; i += T::THREADS) {
        const i64 row = share.row + i / T::BN, column = share.column + i % T::BN;
        const bool inside = row < g.m && column < g.n;
        open += count_ones(lanes_where(inside && c[inside ? row * g.n + column : 0] == Bits<E>::OPEN));
    }
    if (thread_index() % WARP == 0) open_of_warp[thread_index() / WARP] = open;
    sync_block();
    open = 0;
    for (int warp = 0; warp < T::THREADS / WARP; warp++) open += open_of_warp[warp];
    return open <= few;
}

template <class T, class E> DEVICE void multiply_exactly(const ExactMatmul &p) {
    SHARED(MatmulMemory<T>, memory);
    const Share share = share_of<T>(p.of.grid);
    if (p.few >= 0 && has_few_open<T, E>(p.of.grid, share, p.few, memory.open)) return;
    if (wide<E>(p.of)) {
        const Matrices<T, E, true, WideSlice> source(p.of, share);
        contract_exactly<T>(p.of.grid, p.exact, share, source, memory);
    } else {
        const Matrices<T, E, false, WideSlice> source(p.of, share);
        contract_exactly<T>(p.of.grid, p.exact, share, source, memory);
    }
}

struct MatmulPositions {
    const Matmul &p;
    DEVICE_MEMBER Position of(i64 place) const {
        const i64 line = place / p.grid.n;
        return {line / p.grid.m, line % p.grid.m, place % p.grid.n};
    }
};

template <class E> struct MatmulElement {
    const E *a, *b;
    i64 step;
    DEVICE_MEMBER MatmulElement(const ExactMatmul &p, i64 place) {
        const Position at = MatmulPositions{p.of}.of(place);
        step = p.of.grid.n;
        a = (const E *)p.of.a + (at.batch * p.of.grid.m + at.m) * p.of.k;
        b = (const E *)p.of.b + at.batch * p.of.k * step + at.n;
    }
    DEVICE_MEMBER double of(i64 k) const {
        return mul_rn((double)widened(a[k]), (double)widened(b[k * step]));
    }
};

#define EXACT_MATMUL(suffix, E)                                                                              \
    KERNEL(exact_matmul##suffix##_medium, ExactMatmul, WideMedium::THREADS, 1) {                             \
        multiply_exactly<WideMedium, E>(p);                                                                  \
    }                                                                                                        \
    KERNEL(exact_matmul##suffix##_small, ExactMatmul, WideSmall::THREADS, 4) {                               \
        multiply_exactly<WideSmall, E>(p);                                                                   \
    }                                                                                                        \
    KERNEL(exact_matmul##suffix##_finish, ExactMatmul, 256, 2) {                                             \
        finish<E>(p.of.grid, p.exact, false, MatmulPositions{p.of});                                         \
    }                                                                                                        \
    KERNEL(exact_matmul##suffix##_resolve, ExactMatmul, 128, 4) {                                            \
        resolve<E, MatmulElement<E>>(p, p.of.grid, p.of.k);                                                  \
    }

#endif
