// SHA-256 in vectors, with a message in each lane, or with the processor's SHA instructions, two messages
// side by side.

#include "sha256.h"
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include "runtime/transpose_avx512.h"
#endif

static const uint32_t ROUND[64] __attribute__((aligned(64))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

// Words are big-endian in messages and hashes.
static inline uint32_t big_endian(uint32_t word) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}
static inline uint32_t read_word(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return big_endian(word);
}
static inline void write_word(uint8_t *p, uint32_t word) {
    word = big_endian(word);
    memcpy(p, &word, sizeof word);
}

// word[j] of `width` messages; lane i is message i.
#define READ_BLOCK(word, width, from)                                                                        \
    do {                                                                                                     \
        uint32_t lanes[16][width] __attribute__((aligned(64)));                                              \
        for (int i = 0; i < width; i++)                                                                      \
            for (int j = 0; j < 16; j++) lanes[j][i] = read_word((from) + i * MESSAGE + 4 * j);              \
        memcpy(word, lanes, sizeof lanes);                                                                   \
    } while (0)

#define ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))

// `width` lanes: the same plain C for every instruction set, in vectors of 4 * width bytes.
#define LANES_HASHER(name, target, width, read_block)                                                        \
    target static void name##_digest(const uint8_t *messages, int64_t blocks, uint8_t *hashes) {             \
        typedef uint32_t lane __attribute__((vector_size(4 * width)));                                       \
        lane state[8], word[16];                                                                             \
        for (int i = 0; i < 8; i++) state[i] = START[i] - (lane){0};                                         \
        for (int64_t block = 0; block < blocks; block++) {                                                   \
            read_block(word, width, messages + block * BLOCK);                                               \
            lane a = state[0], b = state[1], c = state[2], d = state[3];                                     \
            lane e = state[4], f = state[5], g = state[6], h = state[7];                                     \
            for (int round = 0; round < 64; round += 16) {                                                   \
                _Pragma("GCC unroll 16") for (int i = 0; i < 16; i++) {                                      \
                    const lane first = h + (ROTATE(e, 6) ^ ROTATE(e, 11) ^ ROTATE(e, 25)) +                  \
                                       (g ^ (e & (f ^ g))) + (word[i] + ROUND[round + i]);                   \
                    const lane second =                                                                      \
                        (ROTATE(a, 2) ^ ROTATE(a, 13) ^ ROTATE(a, 22)) + ((a & b) | (c & (a | b)));          \
                    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;             \
                    const lane x = word[(i + 1) % 16], y = word[(i + 14) % 16];                              \
                    word[i] += word[(i + 9) % 16] + (ROTATE(x, 7) ^ ROTATE(x, 18) ^ x >> 3) +                \
                               (ROTATE(y, 17) ^ ROTATE(y, 19) ^ y >> 10);                                    \
                }                                                                                            \
            }                                                                                                \
            state[0] += a, state[1] += b, state[2] += c, state[3] += d;                                      \
            state[4] += e, state[5] += f, state[6] += g, state[7] += h;                                      \
        }                                                                                                    \
        uint32_t lanes[8][width];                                                                            \
        memcpy(lanes, state, sizeof lanes);                                                                  \
        for (int i = 0; i < width; i++)                                                                      \
            for (int j = 0; j < 8; j++) write_word(hashes + i * HASH + 4 * j, lanes[j][i]);                  \
    }                                                                                                        \
    static const hasher name = {width, name##_digest};

LANES_HASHER(portable, , 4, READ_BLOCK)

#if defined(__x86_64__)
LANES_HASHER(avx2, TARGET_AVX2, 8, READ_BLOCK)

TARGET_AVX512 static inline __attribute__((always_inline)) void read_block_avx512(void *word,
                                                                                  const uint8_t *from) {
    const __m512i swapped =
        _mm512_broadcast_i32x4(_mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
    __m512 row[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        row[i] = _mm512_castsi512_ps(_mm512_shuffle_epi8(_mm512_load_si512(from + i * MESSAGE), swapped));
    transpose_block(row);
    memcpy(word, row, sizeof row);
}
#define READ_BLOCK_AVX512(word, width, from) read_block_avx512(word, from)
LANES_HASHER(avx512, TARGET_AVX512, 16, READ_BLOCK_AVX512)

// Two messages, so that the rounds of one run while the other's wait for results.
#define SHA_WAYS 2
__attribute__((target("sha,ssse3,sse4.1"))) static void sha_digest(const uint8_t *messages, int64_t blocks,
                                                                   uint8_t *hashes) {
    const __m128i swapped = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
    // The instructions hold a state as words f e b a and h g d c, lowest first.
    const __m128i start[2] = {_mm_setr_epi32((int)START[5], (int)START[4], (int)START[1], (int)START[0]),
                              _mm_setr_epi32((int)START[7], (int)START[6], (int)START[3], (int)START[2])};
    __m128i abef[SHA_WAYS], cdgh[SHA_WAYS];
    for (int s = 0; s < SHA_WAYS; s++) abef[s] = start[0], cdgh[s] = start[1];
    for (int64_t block = 0; block < blocks; block++) {
        __m128i word[SHA_WAYS][4], before[SHA_WAYS][2];
#pragma GCC unroll 2
        for (int s = 0; s < SHA_WAYS; s++) {
            before[s][0] = abef[s], before[s][1] = cdgh[s];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                word[s][i] = _mm_shuffle_epi8(
                    _mm_load_si128((const __m128i *)(messages + s * MESSAGE + block * BLOCK) + i), swapped);
        }
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) {
            const __m128i constants = _mm_load_si128((const __m128i *)ROUND + i);
#pragma GCC unroll 2
            for (int s = 0; s < SHA_WAYS; s++) {
                __m128i *w = word[s], *now = &w[i % 4];
                const __m128i added = _mm_add_epi32(*now, constants);
                cdgh[s] = _mm_sha256rnds2_epu32(cdgh[s], abef[s], added);
                abef[s] = _mm_sha256rnds2_epu32(abef[s], cdgh[s], _mm_shuffle_epi32(added, 0x0E));
                if (i >= 12) continue;
                const __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(*now, w[(i + 1) % 4]),
                                                   _mm_alignr_epi8(w[(i + 3) % 4], w[(i + 2) % 4], 4));
                *now = _mm_sha256msg2_epu32(next, w[(i + 3) % 4]);
            }
        }
#pragma GCC unroll 2
        for (int s = 0; s < SHA_WAYS; s++) {
            abef[s] = _mm_add_epi32(abef[s], before[s][0]);
            cdgh[s] = _mm_add_epi32(cdgh[s], before[s][1]);
        }
    }
    const __m128i reversed = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    for (int s = 0; s < SHA_WAYS; s++) {
        const __m128i ab = _mm_unpackhi_epi64(cdgh[s], abef[s]), ef = _mm_unpacklo_epi64(cdgh[s], abef[s]);
        _mm_storeu_si128((__m128i *)(hashes + s * HASH), _mm_shuffle_epi8(ab, reversed));
        _mm_storeu_si128((__m128i *)(hashes + s * HASH) + 1, _mm_shuffle_epi8(ef, reversed));
    }
}
static const hasher sha = {SHA_WAYS, sha_digest};

int repops_has_sha(void) {
    unsigned a, b, c, d;
    const unsigned sse = bit_SSSE3 | bit_SSE4_1;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & sse) != sse) return 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

const hasher *const hashers[ISA_COUNT] = {&portable, &avx2, &avx512}, *const sha_hasher = &sha;
#else
int repops_has_sha(void) {
    return 0;
}

const hasher *const hashers[ISA_COUNT] = {&portable, &portable, &portable}, *const sha_hasher = 0;
#endif
