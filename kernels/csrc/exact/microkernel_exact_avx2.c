// The micro-kernel of the mode exact with AVX2: 6 x 8, 12 accumulators.

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
INLINE vector add(vector a, vector b) {
    return _mm256_add_pd(a, b);
}
INLINE vector mul_add(vector a, vector b, vector c) {
    return _mm256_fmadd_pd(a, b, c);
}
INLINE vector choose(uint32_t bits, vector a, vector b) {
    const __m256i select = _mm256_setr_epi64x(1, 2, 4, 8);
    const __m256i chosen = _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(bits), select), select);
    return _mm256_blendv_pd(b, a, _mm256_castsi256_pd(chosen));
}

#include "microkernel_exact.h"

const exact_kernel avx2_exact = EXACT_KERNEL;
#endif
