// mm and bmm in the mode exact.

#ifndef REPOPS_EXACT_MATMUL_CUH
#define REPOPS_EXACT_MATMUL_CUH

#include "matmul.cuh"
#include "exact_gemm.cuh"

struct ExactMatmul {
    Matmul of;
    Exact exact;
};

template <class T, class E> DEVICE void multiply_exactly(const ExactMatmul &p) {
    typedef WideMemory<T, NoTable> All;
    SHARED(All, memory);
    const Share share = share_of<T>(p.of.grid);
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
