// The blocks of the mode tc16 with AVX-512: 64 columns.

#include "runtime/repops.h"
#if defined(__x86_64__)
#include <immintrin.h>
#include "runtime/target_avx512.h"

#define ISA(name) avx512_##name
#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef __m512i bytes;
typedef __m512i words;
typedef __m512 floats;

INLINE bytes load_bytes(const uint8_t *from) {
    return _mm512_loadu_si512(from);
}
INLINE bytes all_bytes(const uint32_t *x) {
    return _mm512_set1_epi32((int32_t)*x);
}
INLINE bytes plus(bytes a, bytes b) {
    return _mm512_adds_epu8(a, b);
}
INLINE bytes least_of(bytes a, bytes b) {
    return _mm512_min_epu8(a, b);
}
INLINE void put_bytes(uint8_t *to, bytes x) {
    _mm512_storeu_si512(to, x);
}
INLINE uint64_t equal(bytes x, uint8_t y) {
    return _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8((char)y));
}
INLINE uint64_t above(bytes x, uint8_t y) {
    return _mm512_cmpgt_epu8_mask(x, _mm512_set1_epi8((char)y));
}
INLINE words load(const void *from) {
    return _mm512_loadu_si512(from);
}
INLINE floats load_floats(const float *from) {
    return _mm512_loadu_ps(from);
}
INLINE words widened(const uint8_t *from) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
}
INLINE words all_words(int32_t x) {
    return _mm512_set1_epi32(x);
}
INLINE floats all_floats(const float *x) {
    return _mm512_set1_ps(*x);
}
INLINE words add(words a, words b) {
    return _mm512_add_epi32(a, b);
}
INLINE words less(words a, words b) {
    return _mm512_sub_epi32(a, b);
}
INLINE words most_of(words a, words b) {
    return _mm512_max_epi32(a, b);
}
INLINE words biased(words x) {
    return _mm512_srli_epi32(_mm512_slli_epi32(x, 1), 24);
}
INLINE words truncated(floats x) {
    return _mm512_cvttps_epi32(x);
}
INLINE floats converted(words x) {
    return _mm512_cvtepi32_ps(x);
}
INLINE floats power(words x) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 23));
}
INLINE uint64_t overflowed(words a, words b, words sum) {
    return _mm512_movepi32_mask(_mm512_and_si512(_mm512_xor_si512(a, sum), _mm512_xor_si512(b, sum)));
}
INLINE uint64_t outside(words x, int32_t low, int32_t high) {
    return _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(x, _mm512_set1_epi32(low)),
                                   _mm512_set1_epi32(high - low));
}
INLINE void put(uint32_t *to, words x) {
    _mm512_storeu_si512(to, x);
}
INLINE void put_some(uint32_t *to, words x, uint64_t mask) {
    _mm512_mask_storeu_epi32(to, (__mmask16)mask, x);
}

#include "tc16_lanes_body.h"

#include "runtime/target_end.h"
#endif
