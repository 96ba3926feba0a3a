// A contraction in the mode exact: every element of C is the real sum of its products, rounded once.
//
//     1. multiply: sums of f64, on tensor cores, of tiles and sources like those of gemm.cuh
//            64 terms in a register, 64 such sums in another, and the sums of 4096 terms
//        decide: if every real number within the radius of such a sum is rounded alike, that is the result;
//            otherwise the element of C is marked as open, by a NaN that is not a result
//     2. resolve: a warp for each open element, exactly (exact_sum.cuh)
//
// With split-K the sums of the runs of chunks, and the facts of their rows and columns, go to a workspace,
// and `finish` adds and decides.
//
// INVARIANT: let c be the number of additions that a term goes through. With v = 2^-52, which allows for
// tensor cores that truncate, a sum y of products p_k is off by at most c v / (1 - c v) times the sum of
// |p_k|, and that is at most |a| |b| (Cauchy-Schwarz). The radius r is computed as (c + 4) v |a| |b|, from
// norms that are too large; what is added to c is for the denominator, the roundings in r, and those of y - r
// and y + r. So the real sum lies between these two as they are computed. Rounding is monotonic: if both are
// rounded alike, so is the sum.
//
// INVARIANT: if |a| |b| is below 2^53 units, where a unit is the product of those of row and column, all
// partial sums are whole numbers of units below 2^53, so y is exact and r is 0. Without this rule operands of
// few significant bits, whose sums are often midpoints, would leave many elements open.

#ifndef REPOPS_EXACT_GEMM_CUH
#define REPOPS_EXACT_GEMM_CUH

#include "gemm.cuh"
#include "exact_slice.cuh"
#include "exact_sum.cuh"

constexpr int IN_A_REGISTER = 64; // terms
constexpr int CHUNKS_AT_ONCE = 8; // chunks whose sums stay in registers

// Warps of 32 x 16 results: 2 x 2 products of 16 x 8 for each 8 k.
template <int WARPS_M, int WARPS_N_> struct WideTile {
    static constexpr int WARPS_N = WARPS_N_, BM = 32 * WARPS_M, BN = 16 * WARPS_N;
    static constexpr int THREADS = WARPS_M * WARPS_N * WARP;
};
typedef WideTile<2, 4> WideMedium; // 64 x 64, 256 threads
typedef WideTile<1, 2> WideSmall;  // 32 x 32, 64 threads

// What a contraction of this mode has besides its Grid, whose `total` and `partial` are not used.
struct Exact {
    double scale; // of a radius: (c + 4) v
    i64 batches;
    double *sums;          // [split][element of C]; null if there is one run of at most CHUNKS_AT_ONCE chunks
    Facts *rows, *columns; // [split][batch][row], [split][batch][column]; null without split-K
};

// Eight bytes of a sum for each lane: rows y + 8 i, columns x + 8 j + (0, 1) of the tile.
struct Sums {
    double at[4][2][2];
    DEVICE_MEMBER void begin() {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++) at[i][j][0] = at[i][j][1] = 0;
    }
    // Add the other sums, and begin these again.
    DEVICE_MEMBER void take(Sums &other) {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int v = 0; v < 2; v++) at[i][j][v] = add_rn(at[i][j][v], other.at[i][j][v]);
        other.begin();
    }
};
template <class T> DEVICE int wide_row() {
    return thread_index() / WARP / T::WARPS_N * 32 + thread_index() % WARP / 4;
}
template <class T> DEVICE int wide_column() {
    return thread_index() / WARP % T::WARPS_N * 16;
}

// As multiply_8x8x4, of matrices [16 x 8] and [8 x 8]: lane i has a[v] of row i / 4 + 8 (v % 2) and k i % 4 +
// 4 (v / 2), b[v] of k i % 4 + 4 v, and of the sum `top` like c there, and `bottom` 8 rows below. INVARIANT:
// as there, with 8 units.
DEVICE void multiply_16x8x8(double (&top)[2], double (&bottom)[2], const double (&a)[4],
                            const double (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 // faster there
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
        "%1, %2, %3};"
        : "+d"(top[0]), "+d"(top[1]), "+d"(bottom[0]), "+d"(bottom[1])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
    for (int k = 0; k < 2; k++) {
        multiply_8x8x4(top, a[2 * k], b[k]);
        multiply_8x8x4(bottom, a[2 * k + 1], b[k]);
    }
#endif
}

template <class T> DEVICE void multiply_slice(const WideStage<T> &s, Sums &acc) {
    const int lane = thread_index() % WARP, row = wide_row<T>(), column = wide_column<T>() + lane / 4;
#pragma unroll
    for (int k0 = 0; k0 < DEPTH; k0 += 8) {
        const int k = k0 + lane % 4;
        double b[2][2];
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
            for (int v = 0; v < 2; v++) b[j][v] = s.b[k + 4 * v][column + 8 * j];
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            double a[4];
#pragma unroll
            for (int v = 0; v < 4; v++) a[v] = s.a[row + 8 * (i + v % 2)][k + v / 2 * 4];
#pragma unroll
            for (int j = 0; j < 2; j++) multiply_16x8x8(acc.at[i][j], acc.at[i + 1][j], a, b[j]);
        }
    }
}

// Call f(sum, row and column in the tile, place in C) for each result of this thread.
template <class T, class Source, class F>
DEVICE void for_each_result(const Source &source, const Share &share, i64 m, Sums &sums, F f) {
    const int first = wide_column<T>() + thread_index() % 4 * 2;
    const i64 start = source.start_of_c() + share.row * source.row_step();
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
        for (int v = 0; v < 2; v++) {
            const int column = first + 8 * j + v;
            const i64 place = source.column_place(share.column + column);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = wide_row<T>() + 8 * i;
                if (place >= 0 && share.row + row < m)
                    f(sums.at[i][j][v], row, column, start + place + row * source.row_step());
            }
        }
}

// Write the result of a sum, or OPEN. `masked`: an infinite operand may have met terms that do not exist.
template <class E>
DEVICE void decide(double y, double scale, const Bound &a, const Bound &b, bool masked, void *out,
                   i64 place) {
    typedef typename Bits<E>::Word Word;
    const double r = a.in_units * b.in_units < 0x1p53 ? 0 : mul_rn(scale, mul_rn(a.norm, b.norm));
    const Word low = rounded<E>(sub_rn(y, r)), high = rounded<E>(add_rn(y, r));
    Word result = low == high && is_finite(r) ? low : Bits<E>::OPEN;
    // NOTE: no product or sum of finite operands is infinite here, so this is as in docs/opset.md.
    if (!is_finite(y)) result = masked ? Bits<E>::OPEN : rounded<E>(y);
    ((Word *)out)[place] = result;
}

template <class T, class Table> struct alignas(16) WideMemory {
    union {
        WideStage<T> stage[2];
        Found<T> found;
    };
    Table table;
    Bound row[T::BM], column[T::BN];
};

template <class T, class Source>
DEVICE void contract_exactly(const Grid &g, const Exact &e, const Share &share, const Source &source,
                             WideMemory<T, typename Source::Table> &memory) {
    typedef typename Source::Element Element;
    Sums acc, sums; // of up to IN_A_REGISTER terms, and of up to CHUNKS_AT_ONCE chunks
    typename Source::Slice slice;
    const i64 split = share.first_chunk / max_i64(1, (g.chunks + g.splits - 1) / g.splits);
    double *before = nullptr, *to = e.sums ? e.sums + split * g.out_elements : nullptr;
    acc.begin();
    sums.begin();
    slice.begin_facts();
    for (i64 c = share.first_chunk; c < share.end_chunk; c++) {
        const i64 begin = source.begin(c), end = source.begin(c + 1);
        source.prepare(memory.table, begin, end);
        for (i64 k = begin - DEPTH; k < end; k += DEPTH) { // as in gemm.cuh
            const int now = (int)(k - begin) / DEPTH & 1;
            sync_block();
            const bool more = k + DEPTH < end;
            if (more) {
                slice.begin(memory.stage[now ^ 1]);
                source.load(slice, memory.table, begin, k + DEPTH, end);
            }
            if (k >= begin) {
                multiply_slice<T>(memory.stage[now], acc);
                if ((k - begin + DEPTH) % IN_A_REGISTER == 0) sums.take(acc);
            }
            if (more) slice.end();
        }
        sums.take(acc);
        if ((c + 1 - share.first_chunk) % CHUNKS_AT_ONCE == 0 && c + 1 < share.end_chunk) {
            for_each_result<T>(source, share, g.m, sums, [&](double &sum, int, int, i64 place) {
                to[place] = before ? add_rn(before[place], sum) : sum;
            });
            before = to;
            sums.begin();
        }
        sync_block(); // before the next chunk writes to shared memory
    }

    gather_facts(slice, memory.found);
    sync_block();
    typedef typename Source::At At;
    for (int t = thread_index(); t < T::BM + T::BN; t += T::THREADS) {
        const bool is_row = t < T::BM;
        const int i = is_row ? t : t - T::BM;
        const Facts all =
            is_row ? joined(memory.found.row[i], At::A_COPIES) : joined(memory.found.column[i], At::B_ROWS);
        (is_row ? memory.row : memory.column)[i] = all.bound();
        if (g.splits == 1) continue;
        const i64 batch = split * e.batches + share.batch;
        if (is_row && share.column == 0 && share.row + i < g.m) e.rows[batch * g.m + share.row + i] = all;
        if (!is_row && share.row == 0 && share.column + i < g.n)
            e.columns[batch * g.n + share.column + i] = all;
    }
    sync_block();
    if (before)
        for_each_result<T>(source, share, g.m, sums,
                           [&](double &sum, int, int, i64 place) { sum = add_rn(before[place], sum); });
    if (g.splits > 1)
        for_each_result<T>(source, share, g.m, sums,
                           [&](double &sum, int, int, i64 place) { to[place] = sum; });
    else
        for_each_result<T>(source, share, g.m, sums, [&](double &sum, int row, int column, i64 place) {
            decide<Element>(sum, e.scale, memory.row[row], memory.column[column], Source::MASKED, g.out,
                            place);
        });
}

// An element of C in the coordinates of the grid.
struct Position {
    i64 batch, m, n;
};

// Add the sums of all splits, and decide. Positions: of(place) is the position of an element of C.
template <class E, class Positions>
DEVICE void finish(const Grid &g, const Exact &e, bool masked, const Positions &positions) {
    for (i64 i = global_thread(); i < g.out_elements; i += global_threads()) {
        const Position at = positions.of(i);
        Facts row, column;
        row.begin();
        column.begin();
        double y = 0;
        for (i64 s = 0; s < g.splits; s++) {
            const i64 batch = s * e.batches + at.batch;
            y = add_rn(y, e.sums[s * g.out_elements + i]);
            row.join(e.rows[batch * g.m + at.m]);
            column.join(e.columns[batch * g.n + at.n]);
        }
        decide<E>(y, e.scale, row.bound(), column.bound(), masked, g.out, i);
    }
}

// Resolve one element, by a warp. Element: Element(p, place) has the terms of an element of C
// (exact_sum.cuh).
template <class E, class Element, class Params>
DEVICE_CALL void resolve_one(const Params &p, typename Bits<E>::Word *out, i64 place, i64 terms) {
    const Element element(p, place);
    Compensated sum;
    Digits digits;
    const bool long_way = warp_sum(element, 0, terms, sum, digits);
    if (thread_index() % WARP == 0) out[place] = rounded<E>(long_way ? digits.odd() : sum.odd());
}
// Resolve the open elements. A lane reads PACKS times V elements at once, at most 32.
template <class E, class Element, int V, int PACKS, class Params>
DEVICE void resolve_by(const Params &p, const Grid &g, i64 terms) {
    typedef typename Bits<E>::Word Word;
    constexpr i64 STEP = WARP * V * PACKS;
    Word *out = (Word *)g.out;
    const i64 lane = thread_index() % WARP;
    for (i64 first = global_thread() / WARP * STEP; first < g.out_elements;
         first += global_threads() / WARP * STEP) {
        Pack<Word, V> found[PACKS];
        u32 open = 0; // bit v + V u: element v of pack u
#pragma unroll
        for (int u = 0; u < PACKS; u++) {
            const i64 own = first + (u * WARP + lane) * V;
            if (own + V <= g.out_elements) {
                found[u] = *(const Pack<Word, V> *)(out + own);
            } else {
#pragma unroll
                for (int v = 0; v < V; v++)
                    found[u].at[v] = own + v < g.out_elements ? out[own + v] : (Word)0;
            }
        }
#pragma unroll
        for (int u = 0; u < PACKS; u++)
#pragma unroll
            for (int v = 0; v < V; v++) open |= (u32)(found[u].at[v] == Bits<E>::OPEN) << (v + V * u);
        for (u32 lanes = lanes_where(open != 0); lanes; lanes &= lanes - 1) {
            const int other = lowest_bit(lanes);
            for (u32 left = from_lane(open, other); left; left &= left - 1) {
                const int bit = lowest_bit(left);
                resolve_one<E, Element>(p, out, first + (bit / V * WARP + other) * V + bit % V, terms);
            }
        }
    }
}
template <class E, class Element, class Params>
DEVICE void resolve(const Params &p, const Grid &g, i64 terms) {
    constexpr int V = 16 / (int)sizeof(E);
    const bool wide = aligned(g.out, 16);
    // INVARIANT: the more elements a warp looks at, the fewer warps share those that are open.
    if (wide && g.out_elements >= global_threads() * WARP)
        resolve_by<E, Element, V, WARP / V>(p, g, terms);
    else if (wide && g.out_elements >= global_threads() * V)
        resolve_by<E, Element, V, 1>(p, g, terms);
    else
        resolve_by<E, Element, 1, 1>(p, g, terms);
}

#endif
