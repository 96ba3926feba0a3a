// Binary64 results with AVX-512: 12 x 16, 24 accumulators.

#include "runtime/repops.h"
#if defined(__x86_64__)
#include <immintrin.h>

#define HEIGHT 12
#define LANES 8
#define TARGET TARGET_AVX512
#define INLINE TARGET_AVX512 static inline __attribute__((always_inline))

typedef __m512d vector;

INLINE vector all_of(double x) {
    return _mm512_set1_pd(x);
}
INLINE vector load(const float *from) {
    return _mm512_cvtps_pd(_mm256_loadu_ps(from));
}
INLINE vector load_some(uint32_t bits, const float *from) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)bits, from));
}
INLINE vector mul_add(vector a, vector b, vector c) {
    return _mm512_fmadd_pd(a, b, c);
}

#include "microkernel_f64.h"

const product_kernel avx512_f64 = F64_KERNEL;
#endif
