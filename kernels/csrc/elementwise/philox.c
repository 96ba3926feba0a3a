// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): ten rounds of
// multiplication make four random words of a counter and a key. Elements share no state.
//
// docs/opset.md, section 9, defines counter and key: element i is word i mod 4 of block i div 4.

#include "runtime/repops.h"

#define ROUNDS 10
#define WORDS 4
#define LANES 16 // blocks computed side by side
#define GRAIN (THREAD_WORK / 4)

typedef struct {
    uint32_t key[2];
    uint32_t site, step[2];
    void *out;
} job;

// Compute the words of blocks [block, block + LANES), transposed: word[w][lane].
static inline __attribute__((always_inline)) void blocks(const job *j, int64_t block,
                                                         uint32_t word[WORDS][LANES]) {
    for (int i = 0; i < LANES; i++) {
        const uint64_t at = (uint64_t)block + (uint64_t)i;
        word[0][i] = (uint32_t)at;
        word[1][i] = (uint32_t)(at >> 32) | j->site << 8; // a tensor has fewer than 2^38 blocks
        word[2][i] = j->step[0];
        word[3][i] = j->step[1];
    }
    uint32_t k0 = j->key[0], k1 = j->key[1];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < LANES; i++) {
            const uint64_t p0 = (uint64_t)0xD2511F53 * word[0][i], p1 = (uint64_t)0xCD9E8D57 * word[2][i];
            word[0][i] = (uint32_t)(p1 >> 32) ^ word[1][i] ^ k0;
            word[1][i] = (uint32_t)p1;
            word[2][i] = (uint32_t)(p0 >> 32) ^ word[3][i] ^ k1;
            word[3][i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

#define FILL(name, T, convert)                                                                               \
    BODY name##_body(const job *j, int64_t begin, int64_t end) {                                             \
        T *out = j->out;                                                                                     \
        uint32_t word[WORDS][LANES];                                                                         \
        for (int64_t at = begin - begin % WORDS; at < end; at += WORDS * LANES) {                            \
            blocks(j, at / WORDS, word);                                                                     \
            if (at >= begin && at + WORDS * LANES <= end) {                                                  \
                for (int i = 0; i < LANES; i++)                                                              \
                    for (int w = 0; w < WORDS; w++) out[at + WORDS * i + w] = convert(word[w][i]);           \
                continue;                                                                                    \
            }                                                                                                \
            for (int64_t i = max_i64(at, begin); i < min_i64(at + WORDS * LANES, end); i++)                  \
                out[i] = convert(word[(i - at) % WORDS][(i - at) / WORDS]);                                  \
        }                                                                                                    \
    }                                                                                                        \
    VARIANTS(name, (const job *j, int64_t begin, int64_t end), (j, begin, end))

#define UNIFORM(word) ((float)((word) >> 8) * 0x1p-24f) // both operations are exact

FILL(uniform, float, UNIFORM)
FILL(words, int64_t, (int64_t))

typedef struct {
    job job;
    void (*fill)(const job *j, int64_t begin, int64_t end);
} work;

static void range(void *context, int64_t begin, int64_t end) {
    const work *w = context;
    w->fill(&w->job, begin, end);
}

OPERATOR(philox) {
    const int64_t *attr = attributes(sig); // rank, shape..., dtype, site
    const uint64_t seed = *(const uint64_t *)data[0], step = *(const uint64_t *)data[1];
    work w = {
        .job = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                .site = (uint32_t)attr[attr[0] + 2],
                .step = {(uint32_t)step, (uint32_t)(step >> 32)},
                .out = data[2]},
        .fill = output(sig, 0)->dtype == F32 ? uniform[isa] : words[isa],
    };
    parallel(threads, elements(output(sig, 0)), GRAIN, range, &w);
    return 0;
}
