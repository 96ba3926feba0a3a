// The blocks of the mode tc16 with AVX2: 32 columns.

#include "runtime/repops.h"
#if defined(__x86_64__)
#include <immintrin.h>
#include "runtime/target_avx2.h"

#define ISA(name) avx2_##name
#define LANES 8
#define INLINE static inline __attribute__((always_inline))

typedef __m256i bytes;
typedef __m256i words;
typedef __m256 floats;

INLINE bytes load_bytes(const uint8_t *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}
INLINE bytes all_bytes(const uint32_t *x) {
    return _mm256_set1_epi32((int32_t)*x);
}
INLINE bytes plus(bytes a, bytes b) {
    return _mm256_adds_epu8(a, b);
}
INLINE bytes least_of(bytes a, bytes b) {
    return _mm256_min_epu8(a, b);
}
INLINE void put_bytes(uint8_t *to, bytes x) {
    _mm256_storeu_si256((__m256i *)to, x);
}
INLINE uint64_t equal(bytes x, uint8_t y) {
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)y)));
}
INLINE uint64_t above(bytes x, uint8_t y) {
    const bytes least = _mm256_min_epu8(x, _mm256_set1_epi8((char)y));
    return (uint32_t)~_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, least));
}
INLINE words load(const void *from) {
    return _mm256_loadu_si256(from);
}
INLINE floats load_floats(const float *from) {
    return _mm256_loadu_ps(from);
}
INLINE words widened(const uint8_t *from) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
}
INLINE words all_words(int32_t x) {
    return _mm256_set1_epi32(x);
}
INLINE floats all_floats(const float *x) {
    return _mm256_broadcast_ss(x);
}
INLINE words add(words a, words b) {
    return _mm256_add_epi32(a, b);
}
INLINE words less(words a, words b) {
    return _mm256_sub_epi32(a, b);
}
INLINE words most_of(words a, words b) {
    return _mm256_max_epi32(a, b);
}
INLINE words biased(words x) {
    return _mm256_srli_epi32(_mm256_slli_epi32(x, 1), 24);
}
INLINE words truncated(floats x) {
    return _mm256_cvttps_epi32(x);
}
INLINE floats converted(words x) {
    return _mm256_cvtepi32_ps(x);
}
INLINE floats power(words x) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(x, 23));
}
INLINE uint64_t signs(words x) {
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(x));
}
INLINE uint64_t overflowed(words a, words b, words sum) {
    return signs(_mm256_and_si256(_mm256_xor_si256(a, sum), _mm256_xor_si256(b, sum)));
}
INLINE uint64_t outside(words x, int32_t low, int32_t high) {
    return signs(_mm256_or_si256(_mm256_sub_epi32(x, all_words(low)), _mm256_sub_epi32(all_words(high), x)));
}
INLINE void put(uint32_t *to, words x) {
    _mm256_storeu_si256((__m256i *)to, x);
}
INLINE void put_some(uint32_t *to, words x, uint64_t mask) {
    const words bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const words chosen = _mm256_cmpeq_epi32(_mm256_and_si256(all_words((int32_t)(mask & 255)), bit), bit);
    _mm256_maskstore_epi32((int *)to, chosen, x);
}

#include "tc16_lanes_body.h"

#include "runtime/target_end.h"
#endif
