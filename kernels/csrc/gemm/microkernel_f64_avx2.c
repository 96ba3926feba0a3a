// Binary64 results with AVX2: 6 x 8, 12 accumulators.

#include "runtime/repops.h"
#if defined(__x86_64__)
#include <immintrin.h>

#define HEIGHT 6
#define LANES 4
#define TARGET TARGET_AVX2
#define INLINE TARGET_AVX2 static inline __attribute__((always_inline))

typedef __m256d vector;

INLINE vector all_of(double x) {
    return _mm256_set1_pd(x);
}
INLINE vector load(const float *from) {
    return _mm256_cvtps_pd(_mm_loadu_ps(from));
}
INLINE vector load_some(uint32_t bits, const float *from) {
    const __m128i select = _mm_setr_epi32(1, 2, 4, 8);
    const __m128i chosen = _mm_cmpeq_epi32(_mm_and_si128(_mm_set1_epi32((int)bits), select), select);
    return _mm256_cvtps_pd(_mm_maskload_ps(from, chosen));
}
INLINE vector mul_add(vector a, vector b, vector c) {
    return _mm256_fmadd_pd(a, b, c);
}

#include "microkernel_f64.h"

const product_kernel avx2_f64 = F64_KERNEL;
#endif
