// The micro-kernel of the mode exact with AVX-512: 12 x 16, 24 accumulators.

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
INLINE vector add(vector a, vector b) {
    return _mm512_add_pd(a, b);
}
INLINE vector mul_add(vector a, vector b, vector c) {
    return _mm512_fmadd_pd(a, b, c);
}
INLINE vector choose(uint32_t bits, vector a, vector b) {
    return _mm512_mask_blend_pd((__mmask8)bits, b, a);
}

#include "microkernel_exact.h"

const exact_kernel avx512_exact = EXACT_KERNEL;
#endif
