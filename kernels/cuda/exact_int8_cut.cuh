// Cuts the factors of a product into planes of bytes (exact_int8.cuh): first the largest element of each
// line, then planes and facts. A block has a tile of 32 lines and 128 k, of A or of B.

#ifndef REPOPS_EXACT_INT8_CUT_CUH
#define REPOPS_EXACT_INT8_CUT_CUH

#include "exact_int8.cuh"

constexpr int LINES = 32, SPAN = 128, CUT_THREADS = 256, CUT_WARPS = CUT_THREADS / WARP;

// A factor: the rows of A, or the columns of B.
struct Lines {
    i64 lines, line_step, k_step; // of one batch; distances in elements
    const bf16 *from;
    u8 *planes;       // [plane][batch][line][pitch], X2 first; 0 from k on
    LineFacts *facts; // [batch][line]
};
struct Cutting {
    i64 batches, k, pitch;
    Lines a, b;
};

struct CutTile {
    bf16 at[LINES][SPAN + 2]; // NOTE: an odd number of words, so that columns of it share no bank
};

// A block's tile.
struct CutPlace {
    const Lines &of;
    i64 batch, line, k;

    static DEVICE_MEMBER i64 tiles(i64 lines) { return (lines + LINES - 1) / LINES; }
    static DEVICE_MEMBER CutPlace of_block(const Cutting &p) {
        const i64 spans = (p.pitch + SPAN - 1) / SPAN, tiles_a = tiles(p.a.lines), tiles_b = tiles(p.b.lines);
        const i64 strip = block_index() / spans, tile = strip % (tiles_a + tiles_b);
        const bool of_a = tile < tiles_a;
        return {of_a ? p.a : p.b, strip / (tiles_a + tiles_b), (of_a ? tile : tile - tiles_a) * LINES,
                block_index() % spans * SPAN};
    }
    // Load the tile, with neighbouring threads along whatever is contiguous; 0 beyond the factor.
    DEVICE_MEMBER void load(const Cutting &p, CutTile &tile) const {
        const bf16 *from = of.from + batch * of.lines * p.k;
        const bool along_k = of.k_step == 1;
#pragma unroll 4
        for (int i = thread_index(); i < LINES * SPAN; i += CUT_THREADS) {
            const int y = along_k ? i / SPAN : i % LINES, x = along_k ? i % SPAN : i / LINES;
            const bool inside = line + y < of.lines && k + x < p.k;
            tile.at[y][x] = inside ? from[(line + y) * of.line_step + (k + x) * of.k_step] : (bf16)0;
        }
        sync_block();
    }
};

DEVICE u64 larger_u64(u64 a, u64 b) {
    return a > b ? a : b;
}

DEVICE void measure_lines(const Cutting &p) {
    SHARED(CutTile, tile);
    const CutPlace place = CutPlace::of_block(p);
    place.load(p, tile);
    const int lane = thread_index() % WARP;
    for (int y = thread_index() / WARP; y < LINES; y += CUT_WARPS) {
        u32 largest = 0;
#pragma unroll
        for (int x = lane; x < SPAN; x += WARP) {
            const u32 magnitude = tile.at[y][x] & 0x7FFF;
            largest = magnitude > largest ? magnitude : largest;
        }
#pragma unroll
        for (int half = WARP / 2; half; half /= 2) {
            const u32 other = from_lane_above(largest, half);
            largest = other > largest ? other : largest;
        }
        if (lane == 0 && place.line + y < place.of.lines)
            atomic_max(&place.of.facts[place.batch * place.of.lines + place.line + y].largest, largest);
    }
}

DEVICE u64 warp_total(u64 x) {
#pragma unroll
    for (int half = WARP / 2; half; half /= 2) x += from_lane_above(x, half);
    return x;
}

DEVICE void cut_lines(const Cutting &p) {
    SHARED(CutTile, tile);
    const CutPlace place = CutPlace::of_block(p);
    place.load(p, tile);
    const int lane = thread_index() % WARP;
    const i64 k = place.k + 4 * lane, plane = p.batches * place.of.lines * p.pitch;
    for (int y = thread_index() / WARP; y < LINES && place.line + y < place.of.lines; y += CUT_WARPS) {
        const i64 line = place.batch * place.of.lines + place.line + y;
        LineFacts &facts = place.of.facts[line];
        const int largest = exponent_of(facts.largest);
        u64 squares = 0, low = 0, rest = 0, rest_squares = 0;
        u32 digits[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const Scaled x = scaled(tile.at[y][4 * lane + i], largest);
            digits[i] = digits_of(x.whole);
            const int x0 = (int)(digits[i] << 24) >> 24;
            squares += (u64)((i64)x.whole * x.whole);
            low += (u64)(x0 * x0);
            rest += x.rest;
            rest_squares += (u64)x.rest * x.rest;
        }
#pragma unroll
        for (int i = 0; i < PLANES; i++) { // byte 2 - i of each of the four
            const u32 selector = (u32)(2 - i) * 0x11 + 0x40;
            const u32 four = pick_bytes(pick_bytes(digits[0], digits[1], selector),
                                        pick_bytes(digits[2], digits[3], selector), 0x5410);
            if (k < p.pitch) *(u32 *)(place.of.planes + i * plane + line * p.pitch + k) = four;
        }
        squares = warp_total(squares), low = warp_total(low);
        rest = warp_total(rest), rest_squares = warp_total(rest_squares);
        if (lane == 0) {
            atomic_add(&facts.squares, squares);
            if (low) atomic_add(&facts.low, low);
            if (rest) {
                atomic_add(&facts.rest, rest);
                atomic_add(&facts.rest_squares, rest_squares);
            }
        }
    }
}

#endif
