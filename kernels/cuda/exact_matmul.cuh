// mm and bmm in the mode exact.

#ifndef REPOPS_EXACT_MATMUL_CUH
#define REPOPS_EXACT_MATMUL_CUH

#include "matmul.cuh"
#include "exact_gemm.cuh"

struct ExactMatmul {
    Matmul of;
    Exact exact;
};

template <class T, class E>
DEVICE void multiply_tile(const ExactMatmul &p, const Share &share, WideMemory<T, NoTable> &memory) {
    if (wide<E>(p.of)) {
        const Matrices<T, E, true, WideSlice> source(p.of, share);
        contract_exactly<T>(p.of.grid, p.exact, share, source, memory);
    } else {
        const Matrices<T, E, false, WideSlice> source(p.of, share);
        contract_exactly<T>(p.of.grid, p.exact, share, source, memory);
    }
}
template <class T, class E> DEVICE void multiply_exactly(const ExactMatmul &p) {
    typedef WideMemory<T, NoTable> All;
    SHARED(All, memory);
    multiply_tile<T, E>(p, share_of<T>(p.of.grid, block_index()), memory);
}

// Only those tiles that have more than `few` open elements. A block looks at every grid_blocks()th tile.
struct ExactMatmulAgain {
    ExactMatmul of;
    i64 few;
    const u64 *open; // elements of each tile
};
template <class T, class E> DEVICE void multiply_again(const ExactMatmulAgain &p) {
    struct All : WideMemory<T, NoTable> {
        u32 again[T::THREADS / WARP]; // tiles, one for each thread
    };
    SHARED(All, memory);
    const Grid &g = p.of.of.grid;
    const i64 tiles = g.tiles_m * g.tiles_n * p.of.exact.batches;
    for (i64 first = block_index(); first < tiles; first += T::THREADS * grid_blocks()) {
        const i64 own = first + thread_index() * grid_blocks();
        const u32 mine = lanes_where(own < tiles && p.open[own < tiles ? own : 0] > (u64)p.few);
        if (thread_index() % WARP == 0) memory.again[thread_index() / WARP] = mine;
        sync_block();
        for (int warp = 0; warp < T::THREADS / WARP; warp++)
            for (u32 left = memory.again[warp]; left; left &= left - 1) {
                const i64 tile = first + (warp * WARP + lowest_bit(left)) * grid_blocks();
                multiply_tile<T, E>(p.of, share_of<T>(g, tile), memory);
                sync_block(); // before the next tile writes to shared memory
            }
        sync_block();
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
    struct Raw {
        E a, b;
    };
    DEVICE_MEMBER Raw raw(i64 k) const { return {a[k], b[k * step]}; }
    static DEVICE_MEMBER double wide(Raw r) { return mul_rn((double)widened(r.a), (double)widened(r.b)); }
};

#define EXACT_MATMUL(suffix, E)                                                                              \
    KERNEL(exact_matmul##suffix##_medium, ExactMatmul, WideMedium::THREADS, 2) {                             \
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
