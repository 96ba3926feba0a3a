// Threads, the floating-point environment, and the choice of instruction set.

#include "repops.h"

#if defined(__x86_64__)
#include <immintrin.h>

typedef unsigned environment;

// SAFETY: a library built with -ffast-math, or torch.set_flush_denormal, sets flush-to-zero for a whole
// thread. 0x1F80: all exceptions masked, round to nearest, neither flush-to-zero nor denormals-are-zero.
static environment enter(void) {
    environment saved = _mm_getcsr();
    _mm_setcsr(0x1F80);
    return saved;
}
static void leave(environment saved) {
    _mm_setcsr(saved);
}

int repops_best_isa(void) {
    __builtin_cpu_init();
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx512 ? ISA_AVX512 : avx2 ? ISA_AVX2 : ISA_PORTABLE;
}
#else
#include <fenv.h>

typedef fenv_t environment;

static environment enter(void) {
    environment saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    return saved;
}
static void leave(environment saved) {
    fesetenv(&saved);
}

int repops_best_isa(void) {
    return ISA_PORTABLE;
}
#endif

static void run(range_body *body, void *context, int64_t begin, int64_t end) {
    environment saved = enter();
    body(context, begin, end);
    leave(saved);
}

void parallel(int threads, int64_t total, int64_t grain, range_body *body, void *context) {
    if (total <= 0) return;
    int64_t parts = min_i64(threads, ceil_div(total, max_i64(grain, 1)));
    if (parts <= 1) {
        run(body, context, 0, total);
        return;
    }
    // NOTE: built without OpenMP (a platform that lacks it), the same ranges run one after the other.
#if defined(_OPENMP)
#pragma omp parallel for num_threads((int)parts) schedule(static, 1)
#endif
    for (int64_t part = 0; part < parts; part++)
        run(body, context, total * part / parts, total * (part + 1) / parts);
}
