// sum of f32 and scatter_add in the mode exact: real sums, rounded once (exact_sum.cuh).
//
// A sum of few elements is computed by a warp, or by a thread if its neighbours are the neighbouring results.
// Longer ones are cut into blocks, whose exact sums are joined by a second launch.

#include "exact_sum.cuh"

constexpr int THREADS = 256, SUM_THREADS = 128;

// As in reduce.cu. A block is `length` elements; out[(outer * width + column) * blocks + block].
struct ExactReduction {
    i64 outer, n, width, blocks, length;
    Axes kept, reduced;
    const float *x;
    u32 *out;
    Digits *parts; // of the blocks, if there are several; then nothing is written to out
};

struct Reduced {
    const float *x;
    const Axes &reduced;
    DEVICE_MEMBER double of(i64 i) const { return x[axes_offset(reduced, i)]; }
};

KERNEL(exact_sum_rows, ExactReduction, SUM_THREADS, 4) {
    for (i64 at = global_thread() / WARP; at < p.outer * p.blocks; at += global_threads() / WARP) {
        const i64 first = at % p.blocks * p.length, end = min_i64(first + p.length, p.n);
        const Reduced terms = {p.x + axes_offset(p.kept, at / p.blocks), p.reduced};
        Compensated sum;
        Digits digits;
        const bool long_way = warp_sum(terms, first, end, sum, digits);
        if (thread_index() % WARP) continue;
        if (p.blocks == 1) {
            p.out[at] = rounded<float>(long_way ? digits.odd() : sum.odd());
            continue;
        }
        if (!long_way) digits.set(sum);
        p.parts[at] = digits;
    }
}

KERNEL(exact_sum_columns, ExactReduction, SUM_THREADS, 4) {
    for (i64 at = global_thread(); at < p.outer * p.blocks * p.width; at += global_threads()) {
        const i64 column = at % p.width, block = at / p.width % p.blocks, outer = at / p.width / p.blocks;
        const i64 first = block * p.length, end = min_i64(first + p.length, p.n),
                  result = outer * p.width + column;
        const Reduced terms = {p.x + axes_offset(p.kept, outer) + column, p.reduced};
        if (p.blocks == 1)
            p.out[result] = rounded<float>(thread_sum(terms, first, end));
        else
            p.parts[result * p.blocks + block] = thread_digits(terms, first, end);
    }
}

struct Joining {
    i64 results, blocks;
    const Digits *parts;
    u32 *out;
};

KERNEL(exact_sum_join, Joining, SUM_THREADS, 4) {
    for (i64 at = global_thread() / WARP; at < p.results; at += global_threads() / WARP) {
        Digits sum;
        sum.begin();
        for (i64 i = thread_index() % WARP; i < p.blocks; i += WARP) sum.join(p.parts[at * p.blocks + i]);
        fold(sum);
        if (thread_index() % WARP == 0) p.out[at] = rounded<float>(sum.odd());
    }
}

// As in scatter.cu, where the positions are sorted.
struct ExactAdding {
    i64 elements;
    Divisor width;
    const float *base, *src;
    const i64 *sorted, *starts; // null if there are no positions
    u32 *out;
};

struct Added {
    const ExactAdding &p;
    i64 element, column, first; // the base's, and the first of its positions
    DEVICE_MEMBER double of(i64 k) const {
        return k ? p.src[p.sorted[first + k - 1] * p.width.d + column] : p.base[element];
    }
};

KERNEL(exact_add_rows, ExactAdding, THREADS, 2) {
    for (i64 i = global_thread(); i < p.elements; i += global_threads()) {
        const i64 row = quotient(i, p.width), first = p.starts ? p.starts[row] : 0;
        const i64 count = p.starts ? p.starts[row + 1] - first : 0;
        const Added terms = {p, i, i - row * p.width.d, first};
        p.out[i] = rounded<float>(thread_sum(terms, 0, 1 + count));
    }
}
