// The Merkle tree over a tensor's bytes, on the tensor's device: SHA-256 of tagged leaves of 1024 bytes, and
// of tagged pairs of nodes. f32 and bf16 data is hashed with every NaN canonical.
//
// The tag shifts all data by one byte: word j of a message is the last byte of data word j - 1 and three
// bytes of data word j.

#include "common.cuh"

constexpr int THREADS = 128, WARPS = THREADS / WARP;
constexpr int LEAF = 1024, BLOCK = 64, BLOCK_WORDS = 16, HASH_WORDS = 8;
constexpr u32 SHIFTED = 0x3456; // pick_bytes(word j - 1, word j): big-endian, one byte late
constexpr u32 REVERSED = 0x0123;

TABLE u32 ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

struct Hash {
    u32 word[HASH_WORDS];
};

DEVICE Hash start() {
    return {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

DEVICE void compress(Hash &state, u32 (&w)[BLOCK_WORDS]) {
    u32 a = state.word[0], b = state.word[1], c = state.word[2], d = state.word[3];
    u32 e = state.word[4], f = state.word[5], g = state.word[6], h = state.word[7];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        u32 &now = w[i % 16];
        if (i >= 16) {
            const u32 x = w[(i + 1) % 16], y = w[(i + 14) % 16];
            now += w[(i + 9) % 16] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) +
                   (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
        }
        const u32 first = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) +
                          ((e & f) ^ (~e & g)) + ROUND[i] + now;
        const u32 second =
            (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const u32 end[HASH_WORDS] = {a, b, c, d, e, f, g, h};
#pragma unroll
    for (int i = 0; i < HASH_WORDS; i++) state.word[i] += end[i];
}

DEVICE void store(Hash *to, const Hash &hash) { // as bytes, so big-endian
#pragma unroll
    for (int i = 0; i < HASH_WORDS; i++) to->word[i] = pick_bytes(hash.word[i], 0, REVERSED);
}

// --------------------------------------------------------------------------------------------------- leaves

struct Leaves {
    i64 bytes, leaves;
    i64 floats; // bytes of an f32 or bf16 element; else 0
    i64 tag;
    const u8 *data;
    Hash *out;
};

DEVICE u32 canonical_half(u32 half) {
    return (half & 0x7FFF) > 0x7F80 ? 0x7FC0 : half;
}
DEVICE u32 canonical(u32 word, int floats) {
    if (floats == 4) return (word & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC00000 : word;
    return floats == 2 ? canonical_half(word >> 16) << 16 | canonical_half(word & 0xFFFF) : word;
}

// Return data words [at, at + 4) of the tensor, zero beyond its end.
DEVICE Pack<u32, 4> four_words(const Leaves &p, i64 at, bool wide) {
    if (wide && at + 16 <= p.bytes) return *(const Pack<u32, 4> *)(p.data + at);
    Pack<u32, 4> words = {};
    for (int i = 0; i < 16 && at + i < p.bytes; i++) words.at[i / 4] |= (u32)p.data[at + i] << i % 4 * 8;
    return words;
}

// A lane hashes a leaf. The warp fetches 64 bytes of all its leaves at once, through shared memory.
KERNEL(hash_leaves, Leaves, THREADS, 6) {
    struct Fetched {
        u32 word[WARPS][WARP][BLOCK_WORDS + 1];
    };
    SHARED(Fetched, fetched);
    const int lane = thread_index() % WARP, warp = thread_index() / WARP;
    const bool wide = aligned(p.data, 16);
    const int floats = (int)p.floats;
    for (i64 first = (block_index() * WARPS + warp) * WARP; first < p.leaves;
         first += grid_blocks() * THREADS) {
        const i64 leaf = first + lane;
        const int length =
            leaf < p.leaves ? 1 + (int)min_i64(LEAF, p.bytes - leaf * LEAF) : 0; // with the tag
        const int blocks = leaf < p.leaves ? (length + 9 + BLOCK - 1) / BLOCK : 0;
        const int most = from_lane(blocks, 0); // the first leaf of a warp is the longest
        Hash state = start();
        u32 previous = (u32)p.tag << 24;
        for (int b = 0; b < most; b++) {
            sync_warp(); // the block before has been read
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int row = i * 8 + lane / 4, x = lane % 4 * 4;
                Pack<u32, 4> words = {};
                if (b * BLOCK < LEAF && first + row < p.leaves)
                    words = four_words(p, (first + row) * LEAF + b * BLOCK + x * 4, wide);
#pragma unroll
                for (int d = 0; d < 4; d++) fetched.word[warp][row][x + d] = canonical(words.at[d], floats);
            }
            sync_warp();
            u32 w[BLOCK_WORDS];
#pragma unroll
            for (int i = 0; i < BLOCK_WORDS; i++) {
                const u32 word = fetched.word[warp][lane][i];
                w[i] = pick_bytes(previous, word, SHIFTED);
                previous = word;
                // The end mark, behind the last byte.
                if (b * BLOCK_WORDS + i == length / 4) w[i] |= 0x80000000u >> length % 4 * 8;
            }
            if (b == blocks - 1) w[BLOCK_WORDS - 1] = (u32)length * 8;
            if (b < blocks) compress(state, w);
        }
        if (leaf < p.leaves) store(p.out + leaf, state);
    }
}

// ----------------------------------------------------------------------------------------------------- nodes

constexpr int LEVELS = 9;

// Turns `count` nodes of a height into those of the next `levels` heights; a block reduces 512 of them as far
// as possible. A missing right sibling is the empty subtree of its height.
struct Nodes {
    i64 count, levels, tag;
    const Hash *in;
    Hash *out[LEVELS];
    Hash empty[LEVELS]; // for the heights of `in` and above
};

// H(tag, left, right): 65 bytes.
DEVICE Hash parent(u32 tag, const Hash &left, const Hash &right) {
    Hash state = start();
    u32 w[BLOCK_WORDS], previous = tag << 24;
#pragma unroll
    for (int i = 0; i < BLOCK_WORDS; i++) {
        const u32 word = i < HASH_WORDS ? left.word[i % HASH_WORDS] : right.word[i % HASH_WORDS];
        w[i] = pick_bytes(previous, word, SHIFTED);
        previous = word;
    }
    compress(state, w);
#pragma unroll
    for (int i = 0; i < BLOCK_WORDS; i++) w[i] = 0;
    w[0] = (previous & 0xFF000000u) | 0x00800000u; // the last byte, and the end mark
    w[BLOCK_WORDS - 1] = (1 + 2 * 4 * HASH_WORDS) * 8;
    compress(state, w);
    return state;
}

KERNEL(hash_nodes, Nodes, 256, 2) {
    const Hash *in = p.in;
    i64 count = p.count;
    for (int level = 0; level < p.levels; level++) {
        const int width = 256 >> level; // nodes made by this block
        const i64 above = (count + 1) / 2, index = block_index() * width + thread_index();
        if (thread_index() < width && index < above) {
            const Hash left = in[2 * index],
                       right = 2 * index + 1 < count ? in[2 * index + 1] : p.empty[level];
            store(p.out[level] + index, parent((u32)p.tag, left, right));
        }
        sync_block();
        in = p.out[level];
        count = above;
    }
}

// The root of a tree without leaves.
struct Root {
    Hash *out;
    Hash empty;
};

KERNEL(hash_nothing, Root, 32, 1) {
    if (thread_index() == 0) *p.out = p.empty;
}
