// The micro-kernel of the mode exact on any machine, 3 x 8, with the two-lane vectors that compilers support.

#include "runtime/repops.h"

#define HEIGHT 3
#define LANES 4
#define TARGET
#define INLINE static inline __attribute__((always_inline))

typedef double pair __attribute__((vector_size(16)));
typedef struct {
    pair half[2];
} vector;

INLINE vector all_of(double x) {
    return (vector){{{x, x}, {x, x}}};
}
INLINE vector add(vector a, vector b) {
    return (vector){{a.half[0] + b.half[0], a.half[1] + b.half[1]}};
}
INLINE vector mul_add(vector a, vector b, vector c) {
    return (vector){{a.half[0] * b.half[0] + c.half[0], a.half[1] * b.half[1] + c.half[1]}};
}
INLINE pair choose_pair(uint32_t bits, pair a, pair b) {
    return (pair){bits & 1 ? a[0] : b[0], bits & 2 ? a[1] : b[1]};
}
INLINE vector choose(uint32_t bits, vector a, vector b) {
    return (vector){{choose_pair(bits, a.half[0], b.half[0]), choose_pair(bits >> 2, a.half[1], b.half[1])}};
}

#include "microkernel_exact.h"

static const exact_kernel portable_exact = EXACT_KERNEL;

#if defined(__x86_64__)
const exact_kernel *const exact_kernels[ISA_COUNT] = {&portable_exact, &avx2_exact, &avx512_exact};
#else
const exact_kernel *const exact_kernels[ISA_COUNT] = {&portable_exact, &portable_exact, &portable_exact};
#endif
