// The C ABI of the kernels, and definitions that every kernel file needs.
//
// An operator is ONE exported function, `repops_<name>`, of type `repops_operator`. Its caller
// (repops/host/cpu.py) has checked dtypes, shapes and attributes against the operator table. Outputs are
// allocated and never alias an input, and every array is C-contiguous. A kernel never fails on data; it can
// only run out of memory (it then returns 1).
//
// INVARIANT: the result does not depend on `threads` or `isa`.

#ifndef REPOPS_H
#define REPOPS_H

#include <float.h>
#include <stdint.h>
#include <stddef.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) ||               \
    defined(__NO_SIGNED_ZEROS__) || __FINITE_MATH_ONLY__ + 0 || FLT_EVAL_METHOD != 0
#error "repops is defined bit for bit: no fast-math, and float arithmetic in float (not x87)"
#endif

#define REPOPS_EXPORT __attribute__((visibility("default")))
#define MAX_RANK 8

enum dtype { F32 = 1, I64 = 2, BOOL = 3, BF16 = 4 };
enum isa { ISA_PORTABLE = 0, ISA_AVX2 = 1, ISA_AVX512 = 2, ISA_COUNT = 3 };

typedef struct {
    int64_t dtype;
    int64_t rank;
    int64_t dim[MAX_RANK];
} tensor;

// The fixed part of an (operator, shapes, attributes): read-only, built once by the caller. Attributes follow
// the tensors (inputs, then outputs) in schema order: an "int" or "dtype" is one word, "ints" are a count and
// the words.
typedef struct {
    int64_t inputs;
    int64_t outputs;
    tensor tensors[];
} signature;

typedef struct {
    const signature *sig;
    void *const *data; // inputs, then outputs
    int threads;
    enum isa isa;
} call;

typedef int repops_operator(const signature *sig, void *const *data, int threads, int isa);

#define OPERATOR(name)                                                                                       \
    REPOPS_EXPORT int repops_##name(const signature *sig, void *const *data, int threads, int isa)
#define CALL ((call){sig, data, threads, (enum isa)isa})

static inline const tensor *input(const signature *sig, int64_t i) {
    return &sig->tensors[i];
}
static inline const tensor *output(const signature *sig, int64_t i) {
    return &sig->tensors[sig->inputs + i];
}
static inline const int64_t *attributes(const signature *sig) {
    return (const int64_t *)&sig->tensors[sig->inputs + sig->outputs];
}

static inline int64_t product(const int64_t *dim, int64_t rank) {
    int64_t n = 1;
    for (int64_t d = 0; d < rank; d++) n *= dim[d];
    return n;
}
static inline int64_t elements(const tensor *t) {
    return product(t->dim, t->rank);
}
static inline int64_t item_size(int64_t dtype) {
    return dtype == I64 ? 8 : dtype == F32 ? 4 : dtype == BF16 ? 2 : 1;
}
static inline int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

// Work that justifies a second thread, in elements of the cheapest kind, some 0.1 ns each. Waking a sleeping
// thread takes tens of microseconds, and threads must sleep while they wait, because on a busy machine two
// spinning threads wait for one another (library.py).
#define THREAD_WORK 262144

// Run `body` over [0, total), split into at most `threads` ranges of at least `grain` items. Every kernel
// runs inside this function, which sets the standard floating-point environment and restores the old one.
typedef void range_body(void *context, int64_t begin, int64_t end);
void parallel(int threads, int64_t total, int64_t grain, range_body *body, void *context);

// Return the best instruction set of this machine.
REPOPS_EXPORT int repops_best_isa(void);

// Allows a loop to be vectorised: its iterations touch different elements, even if one array is another.
#if defined(__clang__)
#define NO_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_DEPENDENCE _Pragma("GCC ivdep")
#endif

// One body, three instruction sets. `name_body` is an always-inline function in plain C, which the compiler
// vectorises in each of the three functions below. None of its arithmetic may be reassociated
// (-ffp-contract=off, no fast-math), so the width of a vector does not affect the result.
#define BODY static inline __attribute__((always_inline)) void
#define TARGET_AVX2 __attribute__((target("avx2,fma")))
// NOTE: by default gcc vectorises with half of the register; clang does not know this target attribute.
#if defined(__clang__)
#define TARGET_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
#else
#define TARGET_AVX512                                                                                        \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,prefer-vector-width=512")))
#endif
#if defined(__x86_64__)
#define VARIANTS(name, parameters, arguments)                                                                \
    static void name##_portable parameters {                                                                 \
        name##_body arguments;                                                                               \
    }                                                                                                        \
    TARGET_AVX2 static void name##_avx2 parameters {                                                         \
        name##_body arguments;                                                                               \
    }                                                                                                        \
    TARGET_AVX512 static void name##_avx512 parameters {                                                     \
        name##_body arguments;                                                                               \
    }                                                                                                        \
    __attribute__((unused)) static void(*const name[ISA_COUNT])                                              \
        parameters = {name##_portable, name##_avx2, name##_avx512};
#else
#define VARIANTS(name, parameters, arguments)                                                                \
    static void name##_portable parameters {                                                                 \
        name##_body arguments;                                                                               \
    }                                                                                                        \
    static void(*const name[ISA_COUNT]) parameters = {name##_portable, name##_portable, name##_portable};
#endif

#endif
