// Merkle trees: SHA-256 of tagged leaves, then of tagged pairs of nodes, up to the root (docs/protocol.md,
// section 2). One tree is over a tensor's bytes, in leaves of 1024; the other over a few leaves of any length
// at any places. The caller chooses the tags and the hash of an absent leaf.

#include "sha256.h"
#include <stdlib.h>
#include <string.h>

#define LEAF 1024
#define LENGTH 8 // bytes of a message's length, at its end
// Number of messages that justifies a second thread.
#define LEAF_GRAIN 128
#define NODE_GRAIN 1024

// Message i is `tag` and data[i * length ...]; all but the last have `length` bytes of data.
typedef struct {
    const uint8_t *data;
    int64_t bytes, length;
    uint8_t tag;
    int floats; // bytes of an f32 or bf16 item, whose NaNs are hashed in canonical form; else 0
    uint8_t *hashes;
    enum isa isa;
    int sha;
} messages;

#define CANONICAL(name, T, infinity, nan)                                                                    \
    BODY name##_body(uint8_t *to, const uint8_t *from, int64_t count) {                                      \
        for (int64_t i = 0; i < count; i++) {                                                                \
            T word;                                                                                          \
            memcpy(&word, from + sizeof word * i, sizeof word);                                              \
            word = (word & (T)(((T) - 1) >> 1)) > infinity ? nan : word;                                     \
            memcpy(to + sizeof word * i, &word, sizeof word);                                                \
        }                                                                                                    \
    }                                                                                                        \
    VARIANTS(name, (uint8_t *to, const uint8_t *from, int64_t count), (to, from, count))
CANONICAL(canonical_f32, uint32_t, 0x7F800000, 0x7FC00000)
CANONICAL(canonical_bf16, uint16_t, 0x7F80, 0x7FC0)

static int64_t blocks_of(int64_t length) {
    return ceil_div(1 + length + 1 + LENGTH, BLOCK);
}

// Write the tag, the data, the end mark, zeros and the length in bits.
static void write_message(const messages *m, const uint8_t *data, int64_t length, uint8_t *to) {
    to[0] = m->tag;
    if (m->floats)
        (m->floats == 4 ? canonical_f32 : canonical_bf16)[m->isa](to + 1, data, length / m->floats);
    else
        memcpy(to + 1, data, (size_t)length);
    const int64_t end = blocks_of(length) * BLOCK;
    memset(to + 1 + length, 0, (size_t)(end - 1 - length));
    to[1 + length] = 0x80;
    const int64_t bits = 8 * (1 + length);
    to[end - 1] = (uint8_t)bits, to[end - 2] = (uint8_t)(bits >> 8);
}

// Hash `count` messages of one length.
static void hash_some(const messages *m, int64_t first, int64_t count, int64_t length, uint8_t *space) {
    const hasher *all = hashers[m->isa], *few = m->sha ? sha_hasher : all;
    if (m->sha && m->isa < ISA_AVX512) all = few;
    uint8_t hashes[MAX_WAYS * HASH];
    for (int64_t done = 0, n; done < count; done += n) {
        const hasher *h = count - done < all->ways ? few : all;
        n = min_i64(h->ways, count - done);
        for (int64_t i = 0; i < n; i++)
            write_message(m, m->data + (first + done + i) * m->length, length, space + i * MESSAGE);
        h->digest(space, blocks_of(length), hashes);
        memcpy(m->hashes + (first + done) * HASH, hashes, (size_t)(n * HASH));
    }
}

static void range(void *context, int64_t begin, int64_t end) {
    const messages *m = context;
    _Alignas(64) uint8_t space[MAX_WAYS * MESSAGE] = {0};
    const int64_t whole = min_i64(end, m->bytes / m->length);
    hash_some(m, begin, whole - begin, m->length, space);
    if (whole < end) hash_some(m, whole, 1, m->bytes - whole * m->length, space);
}

static void hash_all(messages *m, int threads, int64_t grain) {
    parallel(threads, ceil_div(m->bytes, m->length), grain, range, m);
}

typedef struct {
    uint8_t leaf_tag, node_tag, empty[HASH]; // the hash of an absent leaf
} tree_kind;

// Compute the root of the tree over `bytes` of data. Return 1 if there is no memory.
REPOPS_EXPORT int repops_tree_root(const void *data, int64_t bytes, int floats, const tree_kind *kind,
                                   uint8_t *root, int threads, int isa, int sha) {
    uint8_t empty[2 * HASH]; // the absent subtree of this height, twice: as both nodes of a pair
    memcpy(empty, kind->empty, HASH);
    memcpy(root, kind->empty, HASH);
    if (bytes == 0) return 0;
    int64_t count = ceil_div(bytes, LEAF);
    uint8_t *below = malloc((size_t)(count + 1) * HASH); // with room for an absent sibling
    uint8_t *above = malloc((size_t)(ceil_div(count, 2) + 1) * HASH);
    const int failed = !below || !above;
    if (!failed) {
        messages m = {data, bytes, LEAF, kind->leaf_tag, floats, below, (enum isa)isa, sha};
        hash_all(&m, threads, LEAF_GRAIN);
        m.length = 2 * HASH, m.tag = kind->node_tag, m.floats = 0;
        while (count > 1) {
            memcpy(below + count * HASH, empty, HASH);
            memcpy(empty + HASH, empty, HASH);
            count = ceil_div(count, 2);
            m.data = below, m.bytes = count * m.length, m.hashes = above;
            hash_all(&m, threads, NODE_GRAIN);
            m.data = empty, m.bytes = m.length, m.hashes = empty;
            hash_all(&m, 1, 1);
            uint8_t *const level = above;
            above = below, below = level;
        }
        memcpy(root, below, HASH);
    }
    free(below), free(above);
    return failed;
}

// Hash leaves of any length. Leaf i is bytes ends[i - 1] (0 for the first) to ends[i] of the data.
static void hash_leaves(const messages *m, const int64_t *ends, int64_t count, uint8_t *space) {
    const hasher *all = hashers[m->isa], *few = m->sha ? sha_hasher : all;
    if (m->sha && m->isa < ISA_AVX512) all = few;
    uint8_t hashes[MAX_WAYS * HASH];
    for (int64_t done = 0, n; done < count; done += n) {
        const int64_t from = done ? ends[done - 1] : 0, blocks = blocks_of(ends[done] - from);
        // Together with the next leaves of as many blocks; a long leaf alone, as it would overlap the next.
        for (n = 1; n < all->ways && done + n < count && blocks * BLOCK <= MESSAGE; n++)
            if (blocks_of(ends[done + n] - ends[done + n - 1]) != blocks) break;
        const hasher *h = n < all->ways ? few : all;
        n = min_i64(n, h->ways);
        for (int64_t i = 0; i < n; i++) {
            const int64_t start = done + i ? ends[done + i - 1] : 0;
            write_message(m, m->data + start, ends[done + i] - start, space + i * MESSAGE);
        }
        h->digest(space, blocks, hashes);
        memcpy(m->hashes + done * HASH, hashes, (size_t)(n * HASH));
    }
}

// Pair up the nodes at ascending places; siblings may be absent. `at` becomes the pairs' places. Return the
// number of pairs.
static int64_t pair_up(const uint8_t *nodes, int64_t *at, int64_t count, const uint8_t *absent,
                       uint8_t *pairs) {
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++, found++) {
        uint8_t *pair = pairs + found * 2 * HASH;
        const int64_t place = at[i];
        const int right = place & 1, both = !right && i + 1 < count && at[i + 1] == place + 1;
        memcpy(pair + right * HASH, nodes + i * HASH, HASH);
        memcpy(pair + !right * HASH, both ? nodes + (i + 1) * HASH : absent, HASH);
        at[found] = place >> 1;
        i += both;
    }
    return found;
}

// Compute the root of a tree of this depth in which all leaves but `count`, at ascending places, are absent.
// The places are overwritten. `longest` is the length of the longest leaf. Return 1 if there is no memory.
REPOPS_EXPORT int repops_sparse_root(const void *data, const int64_t *ends, int64_t *at, int64_t count,
                                     int64_t longest, int depth, const tree_kind *kind, uint8_t *root,
                                     int isa, int sha) {
    uint8_t empty[2 * HASH]; // the absent subtree of this height, twice: as both nodes of a pair
    memcpy(empty, kind->empty, HASH);
    // SAFETY: a hasher reads all blocks of each of its ways, even of ways without a message.
    uint8_t *space = aligned_alloc(64, (size_t)(MAX_WAYS * MESSAGE + blocks_of(longest) * BLOCK));
    uint8_t *nodes = malloc((size_t)(count + 1) * HASH), *pairs = malloc((size_t)(count + 1) * 2 * HASH);
    const int failed = !space || !nodes || !pairs;
    if (!failed) {
        memset(space, 0, (size_t)(MAX_WAYS * MESSAGE + blocks_of(longest) * BLOCK));
        messages m = {data, 0, 0, kind->leaf_tag, 0, nodes, (enum isa)isa, sha};
        hash_leaves(&m, ends, count, space);
        m.length = 2 * HASH, m.tag = kind->node_tag;
        for (int height = 0; height < depth; height++) {
            count = pair_up(nodes, at, count, empty, pairs);
            m.data = pairs, m.bytes = count * m.length;
            if (count) hash_some(&m, 0, count, m.length, space);
            memcpy(empty + HASH, empty, HASH);
            m.data = empty, m.bytes = m.length, m.hashes = empty;
            hash_some(&m, 0, 1, m.length, space);
            m.hashes = nodes;
        }
        memcpy(root, count ? nodes : empty, HASH);
    }
    free(space), free(nodes), free(pairs);
    return failed;
}
