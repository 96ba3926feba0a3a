// scatter_add: out = base, then out[index[p]] += src[p] for every position p, in ascending order within a
// row.
//
//     1. a stable radix sort of the pairs (row, position) by row, 8 bits a pass: count, scan, place
//     2. row_starts: the beginning of each row's positions in the sorted list
//     3. add_rows: a thread has one element of out and adds its sources one after the other
//
// All of this is integer arithmetic except the additions of step 3, whose order the stable sort fixes.

#include "common.cuh"

constexpr int THREADS = 256, DIGITS = 256, DIGIT_BITS = 8;
constexpr int SEGMENT = 1024; // positions that one warp counts and places

// One pass. `positions` are sorted by the lower digits; the first pass has none, and its i-th position is i.
struct Pass {
    i64 count, rows, segments, shift;
    const i64 *index;     // row of each position; one out of range counts as row `rows`
    const i64 *positions; // in the order of the earlier passes; null in the first
    u32 *counts;          // [digit][segment]: counted, then scanned in place
    i64 *sorted;          // positions in the order of this pass
};

DEVICE i64 position_at(const Pass &p, i64 i) {
    return p.positions ? p.positions[i] : i;
}
DEVICE int digit_of(const Pass &p, i64 position) {
    const i64 row = p.index[position];
    return (int)((row < 0 || row >= p.rows ? p.rows : row) >> p.shift & (DIGITS - 1));
}
// Return the lanes with this lane's digit.
DEVICE u32 lanes_alike(int digit, bool active) {
    u32 alike = lanes_where(active);
#pragma unroll
    for (int bit = 0; bit < DIGIT_BITS; bit++) {
        const u32 set = lanes_where(digit >> bit & 1);
        alike &= digit >> bit & 1 ? set : ~set;
    }
    return alike;
}

KERNEL(scatter_count, Pass, WARP, 16) {
    struct Counts {
        u32 of[DIGITS];
    };
    SHARED(Counts, counts);
    const int lane = thread_index();
    for (int d = lane; d < DIGITS; d += WARP) counts.of[d] = 0;
    sync_warp();
    const i64 end = min_i64((block_index() + 1) * SEGMENT, p.count);
    for (i64 i = block_index() * SEGMENT + lane; i < end; i += WARP)
        atomic_increment(&counts.of[digit_of(p, position_at(p, i))]);
    sync_warp();
    for (int d = lane; d < DIGITS; d += WARP) p.counts[d * p.segments + block_index()] = counts.of[d];
}

// Compute exclusive sums of all counts in one block: each thread has a run of them.
KERNEL(scatter_scan, Pass, 1024, 1) {
    struct Sums {
        u32 of[1024];
    };
    SHARED(Sums, sums);
    const int t = thread_index();
    const i64 n = DIGITS * p.segments, run = (n + 1023) / 1024;
    const i64 begin = min_i64(t * run, n), end = min_i64(begin + run, n);
    u32 own = 0;
    for (i64 i = begin; i < end; i++) own += p.counts[i];
    sums.of[t] = own;
    for (int step = 1; step < 1024; step *= 2) {
        sync_block();
        const u32 before = t >= step ? sums.of[t - step] : 0;
        sync_block();
        sums.of[t] += before;
    }
    u32 total = sums.of[t] - own;
    for (i64 i = begin; i < end; i++) {
        const u32 count = p.counts[i];
        p.counts[i] = total;
        total += count;
    }
}

// INVARIANT: a warp goes through its segment in ascending order; lanes with one digit place in the order of
// lanes.
KERNEL(scatter_place, Pass, WARP, 16) {
    struct Places {
        u32 of[DIGITS];
    };
    SHARED(Places, places);
    const int lane = thread_index();
    for (int d = lane; d < DIGITS; d += WARP) places.of[d] = p.counts[d * p.segments + block_index()];
    sync_warp();
    const i64 begin = block_index() * SEGMENT, end = min_i64(begin + SEGMENT, p.count);
    for (i64 at = begin; at < end; at += WARP) {
        const bool active = at + lane < end;
        const i64 position = active ? position_at(p, at + lane) : 0;
        const int digit = active ? digit_of(p, position) : 0;
        const u32 alike = lanes_alike(digit, active);
        const int before = count_ones(alike & ((1u << lane) - 1));
        const u32 place = places.of[digit];
        sync_warp(); // all have read
        if (active) {
            p.sorted[place + before] = position;
            if (before == 0) places.of[digit] = place + count_ones(alike);
        }
        sync_warp();
    }
}

// starts[r]: the number of sorted positions with a row below r, for r = 0 .. rows.
struct Starts {
    i64 count, rows;
    const i64 *index, *sorted;
    i64 *starts;
};

KERNEL(scatter_row_starts, Starts, THREADS, 4) {
    for (i64 r = global_thread(); r <= p.rows; r += global_threads()) {
        i64 low = 0, high = p.count;
        while (low < high) {
            const i64 middle = (low + high) / 2, row = p.index[p.sorted[middle]];
            if (row >= 0 && row < r)
                low = middle + 1;
            else
                high = middle;
        }
        p.starts[r] = low;
    }
}

struct Adding {
    i64 elements;
    Divisor width;
    const float *base, *src;
    const i64 *sorted, *starts; // null if there are no positions
    float *out;
};

KERNEL(scatter_add_rows, Adding, THREADS, 4) {
    for (i64 i = global_thread(); i < p.elements; i += global_threads()) {
        const i64 row = quotient(i, p.width), column = i - row * p.width.d;
        float sum = p.base[i];
        if (p.starts)
#pragma unroll 4
            for (i64 at = p.starts[row]; at < p.starts[row + 1]; at++)
                sum = add_rn(sum, p.src[p.sorted[at] * p.width.d + column]);
        p.out[i] = sum;
    }
}
