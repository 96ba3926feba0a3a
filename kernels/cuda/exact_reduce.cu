// sum of f32 and scatter_add in the mode exact: real sums, rounded once (exact_sum.cuh).
//
// A sum is computed by a warp, or, if its neighbours are the neighbouring results, with them by a block, a
// short one by a thread. Where that leaves most of the GPU idle, sums are cut into blocks, whose exact sums
// are joined by further launches.

#include "exact_sum.cuh"

constexpr int THREADS = 256, SUM_THREADS = 128, WARPS = THREADS / WARP;

// As in reduce.cu. A block is `length` elements; out[(outer * width + column) * blocks + block].
struct ExactReduction {
    i64 outer, n, width, blocks, length;
    Axes kept, reduced;
    const float *x;
    u32 *out;
    Digits *parts; // of the blocks, if there are several; then nothing is written to out
};

// LINEAR: the elements have equal distances.
template <bool LINEAR> struct Reduced {
    const float *x;
    const Axes &reduced;
    typedef float Raw;
    DEVICE_MEMBER float raw(i64 i) const {
        return x[LINEAR ? i * reduced.stride[0] : axes_offset(reduced, i)];
    }
    static DEVICE_MEMBER double wide(float x) { return x; }
};

template <bool LINEAR> DEVICE void sum_rows(const ExactReduction &p) {
    for (i64 at = global_thread() / WARP; at < p.outer * p.blocks; at += global_threads() / WARP) {
        const i64 first = at % p.blocks * p.length, end = min_i64(first + p.length, p.n);
        const Reduced<LINEAR> terms = {p.x + axes_offset(p.kept, at / p.blocks), p.reduced};
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

KERNEL(exact_sum_rows, ExactReduction, SUM_THREADS, 4) {
    if (p.reduced.rank <= 1)
        sum_rows<true>(p);
    else
        sum_rows<false>(p);
}

KERNEL(exact_sum_short_columns, ExactReduction, SUM_THREADS, 4) {
    for (i64 at = global_thread(); at < p.outer * p.width; at += global_threads()) {
        const Reduced<false> terms = {p.x + axes_offset(p.kept, at / p.width) + at % p.width, p.reduced};
        p.out[at] = rounded<float>(thread_sum(terms, 0, p.n));
    }
}

// 32 neighbouring results: warp w of the block adds the elements w, w + 8, ... of each, then warp 0 joins
// them. A result whose compensated sum is not exact is added again by a whole warp.
struct ColumnParts {
    Compensated of[WARPS][WARP];
    int inexact[WARP];
};
template <bool LINEAR> DEVICE void sum_columns(const ExactReduction &p, ColumnParts &parts) {
    const int warp = thread_index() / WARP, x = thread_index() % WARP;
    const i64 strips = (p.width + WARP - 1) / WARP, items = p.outer * p.blocks * strips;
    for (i64 item = block_index(); item < items; item += grid_blocks()) {
        const i64 left = item % strips * WARP, block = item / strips % p.blocks,
                  outer = item / strips / p.blocks;
        const i64 first = block * p.length, end = min_i64(first + p.length, p.n);
        const float *from = p.x + axes_offset(p.kept, outer) + left;
        const int columns = (int)min_i64(WARP, p.width - left);
        const i64 result = outer * p.width + left;
        Compensated sum;
        sum.begin();
        if (x < columns) add_terms(sum, Reduced<LINEAR>{from + x, p.reduced}, first + warp, end, WARPS);
        parts.of[warp][x] = sum;
        sync_block();
        if (warp == 0) {
            for (int i = 1; i < WARPS; i++) sum.join(parts.of[i][x]);
            parts.inexact[x] = sum.inexact;
            if (x < columns && !sum.inexact) {
                if (p.blocks == 1)
                    p.out[result + x] = rounded<float>(sum.odd());
                else
                    p.parts[(result + x) * p.blocks + block].set(sum);
            }
        }
        sync_block();
        for (int column = warp; column < columns; column += WARPS) {
            if (!parts.inexact[column]) continue; // the same for all lanes
            Digits digits;
            warp_digits(Reduced<LINEAR>{from + column, p.reduced}, first, end, digits);
            if (x) continue;
            if (p.blocks == 1)
                p.out[result + column] = rounded<float>(digits.odd());
            else
                p.parts[(result + column) * p.blocks + block] = digits;
        }
        sync_block(); // before the next item writes
    }
}

KERNEL(exact_sum_columns, ExactReduction, THREADS, 4) {
    SHARED(ColumnParts, parts);
    if (p.reduced.rank <= 1)
        sum_columns<true>(p, parts);
    else
        sum_columns<false>(p, parts);
}

// Joins groups of parts, the last group of a result being shorter. One group: the result; several: theirs.
struct Joining {
    i64 results, blocks, groups, length;
    const Digits *parts;
    u32 *out;
    Digits *to;
};

KERNEL(exact_sum_join, Joining, SUM_THREADS, 4) {
    for (i64 at = global_thread() / WARP; at < p.results * p.groups; at += global_threads() / WARP) {
        const i64 first = at % p.groups * p.length, end = min_i64(first + p.length, p.blocks);
        const Digits *parts = p.parts + at / p.groups * p.blocks;
        Digits sum;
        sum.begin();
        for (i64 i = first + thread_index() % WARP; i < end; i += WARP) sum.join(parts[i]);
        fold(sum);
        if (thread_index() % WARP) continue;
        if (p.groups == 1)
            p.out[at] = rounded<float>(sum.odd());
        else
            p.to[at] = sum;
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
    typedef float Raw;
    static DEVICE_MEMBER double wide(float x) { return x; }
    DEVICE_MEMBER float raw(i64 k) const {
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
