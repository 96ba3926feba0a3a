// Threads, the floating-point environment, and the choice of instruction set.

#define _POSIX_C_SOURCE 199309L // for clock_gettime
#include "repops.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
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
// Return whether rounding is to nearest, without denormals-are-zero and flush-to-zero.
static int is_standard(void) {
    return !(_mm_getcsr() & 0xE040);
}

// Return the registers that the system saves on a thread switch: bits 1, 2 for AVX, 5 to 7 for AVX-512.
static unsigned saved_registers(void) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

// NOTE: this uses cpuid, not __builtin_cpu_supports, which needs a table that some compilers' runtimes lack.
int repops_best_isa(void) {
    const unsigned fma_osxsave_avx = bit_FMA | bit_OSXSAVE | bit_AVX;
    const unsigned avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & fma_osxsave_avx) != fma_osxsave_avx) return ISA_PORTABLE;
    const unsigned saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || (saved & 0x06) != 0x06)
        return ISA_PORTABLE;
    return (b & avx512) == avx512 && (saved & 0xE6) == 0xE6 ? ISA_AVX512 : ISA_AVX2;
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
// NOTE: where a register bit controls flushing, arithmetic itself shows whether that bit is set.
static int is_standard(void) {
    volatile float small = 0x1p-140f;
    volatile double wide = small;
    volatile float back = (float)(wide * 0.5);
    return fegetround() == FE_TONEAREST && wide == 0x1p-140 && (double)back == 0x1p-141;
}

int repops_best_isa(void) {
    return ISA_PORTABLE;
}
#endif

// The environment for code of other libraries, in the calling thread. `saved` has room for an environment.
REPOPS_EXPORT int64_t repops_environment_bytes(void) {
    return sizeof(environment);
}
// Both return whether the environment was standard: on entry, and until the end.
REPOPS_EXPORT int repops_environment_enter(void *saved) {
    int found = is_standard();
    *(environment *)saved = enter();
    return found;
}
REPOPS_EXPORT int repops_environment_leave(const void *saved) {
    int kept = is_standard();
    leave(*(const environment *)saved);
    return kept;
}

static void run(range_body *body, void *context, int64_t begin, int64_t end) {
    environment saved = enter();
    body(context, begin, end);
    leave(saved);
}

// Nanoseconds that this thread has had of a processor.
static int64_t busy(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

// Nanoseconds that the busiest threads of this thread's kernels have worked longer than this thread itself.
// Data can make one range a hundred times as slow as another, and this thread sleeps meanwhile.
static _Thread_local int64_t others;

REPOPS_EXPORT int64_t repops_others(void) {
    return others;
}

void parallel(int threads, int64_t total, int64_t grain, range_body *body, void *context) {
    if (total <= 0) return;
#if defined(REPOPS_GRAIN) // a test splits even the smallest work
    grain = REPOPS_GRAIN;
#endif
    int64_t parts = min_i64(threads, ceil_div(total, max_i64(grain, 1)));
    if (parts <= 1) {
        run(body, context, 0, total);
        return;
    }
    int64_t own = 0, most = 0;
    // NOTE: without OpenMP (a platform that lacks it), the same ranges run one after the other.
#if defined(_OPENMP)
#pragma omp parallel num_threads((int)parts) reduction(max : most)
#endif
    {
        const int64_t before = busy();
#if defined(_OPENMP)
#pragma omp for schedule(static, 1) nowait
#endif
        for (int64_t part = 0; part < parts; part++)
            run(body, context, total * part / parts, total * (part + 1) / parts);
        most = busy() - before;
#if defined(_OPENMP)
#pragma omp master
#endif
        own = most;
    }
    others += most - own;
}
