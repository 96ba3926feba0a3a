// Binary64 results on any machine, 6 x 4, with the two-lane vectors that compilers support.

#include "runtime/repops.h"

#define HEIGHT 6
#define LANES 2
#define TARGET
#define INLINE static inline __attribute__((always_inline))

typedef double vector __attribute__((vector_size(16)));

INLINE vector all_of(double x) {
    return (vector){x, x};
}
INLINE vector load(const float *from) {
    return (vector){from[0], from[1]};
}
INLINE vector load_some(uint32_t bits, const float *from) {
    return (vector){bits & 1 ? from[0] : 0, bits & 2 ? from[1] : 0};
}
INLINE vector mul_add(vector a, vector b, vector c) {
    return a * b + c;
}

#include "microkernel_f64.h"

static const product_kernel portable_f64 = F64_KERNEL;

#if defined(__x86_64__)
const product_kernel *const f64_kernels[ISA_COUNT] = {&portable_f64, &avx2_f64, &avx512_f64};
#else
const product_kernel *const f64_kernels[ISA_COUNT] = {&portable_f64, &portable_f64, &portable_f64};
#endif
