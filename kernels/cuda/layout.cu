// Operators that only move elements (permute, expand, slice, cat, take) or create them from attributes.

#include "common.cuh"

constexpr int THREADS = 256;

// out[i0, i1, ...] = in[offset + i0 stride[0] + i1 stride[1] + ...]
struct Move {
    i64 n;
    Axes axes;
    i64 offset;
    const void *in;
    void *out;
};

// Move several neighbours at once if whole rows are contiguous and everything is aligned.
template <class T> DEVICE void move(const Move &p) {
    constexpr int V = 16 / (int)sizeof(T);
    const int last = (int)p.axes.rank - 1;
    const T *in = (const T *)p.in + p.offset;
    T *out = (T *)p.out;
    bool wide =
        p.axes.stride[last] == 1 && p.axes.dim[last].d % V == 0 && aligned(in, 16) && aligned(out, 16);
    for (int d = 0; d < last; d++) wide = wide && p.axes.stride[d] % V == 0;
    if (wide)
        for (i64 i = global_thread(); i < p.n / V; i += global_threads())
            *(Pack<T, V> *)(out + i * V) = *(const Pack<T, V> *)(in + axes_offset(p.axes, i * V));
    else
#pragma unroll 4
        for (i64 i = global_thread(); i < p.n; i += global_threads()) out[i] = in[axes_offset(p.axes, i)];
}

KERNEL(move_1, Move, THREADS, 4) {
    move<u8>(p);
}
KERNEL(move_2, Move, THREADS, 4) {
    move<uint16_t>(p);
}
KERNEL(move_4, Move, THREADS, 4) {
    move<u32>(p);
}
KERNEL(move_8, Move, THREADS, 4) {
    move<u64>(p);
}

// A move whose input is contiguous along another dimension, `line`, than the output: tiles of 32 x 32 are
// transposed in shared memory, so that both sides are read and written in runs.
struct Transposition {
    i64 lines, columns;      // sizes of dimension `line` and of the last
    i64 line_step;           // output elements from one line to the next
    i64 column_step;         // input elements from one column to the next
    i64 tiles;               // in all
    Axes others;             // the remaining dimensions: offsets in the input
    i64 other_out[MAX_RANK]; // and in the output
    i64 offset;
    const void *in;
    void *out;
};

constexpr int TILE = 32, TILE_ROWS = THREADS / TILE;

template <class T> DEVICE void transpose(const Transposition &p) {
    struct Square {
        T at[TILE][TILE + 1];
    };
    SHARED(Square, square);
    const int x = thread_index() % TILE, y = thread_index() / TILE;
    const i64 down = (p.lines + TILE - 1) / TILE, across = (p.columns + TILE - 1) / TILE;
    for (i64 tile = block_index(); tile < p.tiles; tile += grid_blocks()) {
        const i64 line = tile % down * TILE, column = tile / down % across * TILE;
        i64 index = tile / down / across;
        const T *in = (const T *)p.in + p.offset;
        T *out = (T *)p.out;
        for (int d = (int)p.others.rank - 1; d >= 0; d--) {
            const i64 rest = quotient(index, p.others.dim[d]), place = index - rest * p.others.dim[d].d;
            in += place * p.others.stride[d];
            out += place * p.other_out[d];
            index = rest;
        }
        sync_block(); // the last tile has been read
#pragma unroll
        for (int j = y; j < TILE; j += TILE_ROWS)
            if (line + x < p.lines && column + j < p.columns)
                square.at[j][x] = in[line + x + (column + j) * p.column_step];
        sync_block();
#pragma unroll
        for (int i = y; i < TILE; i += TILE_ROWS)
            if (line + i < p.lines && column + x < p.columns)
                out[(line + i) * p.line_step + column + x] = square.at[x][i];
    }
}

KERNEL(transpose_1, Transposition, THREADS, 4) {
    transpose<u8>(p);
}
KERNEL(transpose_2, Transposition, THREADS, 4) {
    transpose<uint16_t>(p);
}
KERNEL(transpose_4, Transposition, THREADS, 4) {
    transpose<u32>(p);
}
KERNEL(transpose_8, Transposition, THREADS, 4) {
    transpose<u64>(p);
}

// One input of cat: runs of `run` bytes, `pitch` bytes apart in the output.
struct Part {
    i64 bytes, run, pitch;
    const u8 *in;
    u8 *out; // destination of its first run
};

template <class T> DEVICE void copy_runs(const Part &p) {
    const i64 run = p.run / (i64)sizeof(T);
    for (i64 i = global_thread(); i < p.bytes / (i64)sizeof(T); i += global_threads())
        *(T *)(p.out + i / run * p.pitch + i % run * (i64)sizeof(T)) = ((const T *)p.in)[i];
}

KERNEL(cat_part, Part, THREADS, 4) {
    const u64 all = (u64)p.run | (u64)p.pitch | (u64)p.in | (u64)p.out;
    if (all % 16 == 0)
        copy_runs<Pack<u32, 4>>(p);
    else if (all % 4 == 0)
        copy_runs<u32>(p);
    else if (all % 2 == 0)
        copy_runs<uint16_t>(p);
    else
        copy_runs<u8>(p);
}

// --------------------------------------------------------------------------------------------- rows by index

// out[i, :] = x[index[i], :], or zeros if that row does not exist.
struct Take {
    i64 bytes, rows, row_bytes; // bytes of the output
    const u8 *x;
    const i64 *index;
    u8 *out;
};

template <class T> DEVICE void take_rows(const Take &p) {
    const i64 width = p.row_bytes / (i64)sizeof(T);
    for (i64 i = global_thread(); i < p.bytes / (i64)sizeof(T); i += global_threads()) {
        const i64 row = p.index[i / width];
        T value = {};
        if (row >= 0 && row < p.rows) value = ((const T *)p.x)[row * width + i % width];
        ((T *)p.out)[i] = value;
    }
}

KERNEL(take, Take, THREADS, 4) {
    const u64 all = (u64)p.row_bytes | (u64)p.x | (u64)p.out;
    if (all % 16 == 0)
        take_rows<Pack<u32, 4>>(p);
    else if (all % 4 == 0)
        take_rows<u32>(p);
    else if (all % 2 == 0)
        take_rows<uint16_t>(p);
    else
        take_rows<u8>(p);
}

// ----------------------------------------------------------------------------------- tensors from attributes

struct Fill {
    i64 n;
    u64 bits;
    void *out;
};

template <class T> DEVICE void fill(const Fill &p) {
    for (i64 i = global_thread(); i < p.n; i += global_threads()) ((T *)p.out)[i] = (T)p.bits;
}
KERNEL(fill_1, Fill, THREADS, 4) {
    fill<u8>(p);
}
KERNEL(fill_2, Fill, THREADS, 4) {
    fill<uint16_t>(p);
}
KERNEL(fill_4, Fill, THREADS, 4) {
    fill<u32>(p);
}
KERNEL(fill_8, Fill, THREADS, 4) {
    fill<u64>(p);
}

KERNEL(arange, Fill, THREADS, 4) {
    for (i64 i = global_thread(); i < p.n; i += global_threads()) ((i64 *)p.out)[i] = i;
}

// Philox 4x32-10; docs/opset.md, section 9, defines counter and key. A thread makes the four words of a
// block.
struct Philox {
    i64 n;
    u64 site;
    const u64 *seed, *step;
    void *out;
};

DEVICE void put_random(float *to, u32 word) {
    *to = mul_rn((float)(word >> 8), 0x1p-24f); // both operations are exact
}
DEVICE void put_random(i64 *to, u32 word) {
    *to = word;
}

template <class T> DEVICE void philox(const Philox &p) {
    const u64 seed = *p.seed, step = *p.step;
    for (i64 block = global_thread(); block < (p.n + 3) / 4; block += global_threads()) {
        u32 c[4] = {(u32)block, (u32)((u64)block >> 32) | (u32)p.site << 8, (u32)step, (u32)(step >> 32)};
        u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
        for (int round = 0; round < 10; round++) {
            const u32 h0 = high_product(0xD2511F53u, c[0]), h1 = high_product(0xCD9E8D57u, c[2]);
            const u32 l0 = 0xD2511F53u * c[0], l1 = 0xCD9E8D57u * c[2];
            c[0] = h1 ^ c[1] ^ k0;
            c[1] = l1;
            c[2] = h0 ^ c[3] ^ k1;
            c[3] = l0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (4 * block + i < p.n) put_random((T *)p.out + 4 * block + i, c[i]);
    }
}
KERNEL(philox_f32, Philox, THREADS, 4) {
    philox<float>(p);
}
KERNEL(philox_i64, Philox, THREADS, 4) {
    philox<i64>(p);
}
