// The elementary functions over arrays, each a table by instruction set. `out` must not overlap `in`.

#ifndef REPOPS_UNARY_H
#define REPOPS_UNARY_H

#include "runtime/repops.h"
#include "runtime/rows.h"

typedef void map(float *restrict out, const float *in, int64_t n);

extern map *const exp_map[ISA_COUNT], *const log_map[ISA_COUNT], *const log1p_map[ISA_COUNT];
extern map *const tanh_map[ISA_COUNT], *const erf_map[ISA_COUNT];
extern map *const sin_map[ISA_COUNT], *const cos_map[ISA_COUNT];
extern row_kernel *const pow_rows[ISA_COUNT], *const exp_sub_rows[ISA_COUNT];

// The functions of one instruction set, which have a file of their own because it is compiled for that set.
#define DECLARE_MAPS(isa)                                                                                    \
    map exp_##isa, log_##isa, log1p_##isa, tanh_##isa, erf_##isa, sin_##isa, cos_##isa;                      \
    row_kernel pow_##isa, exp_sub_##isa;

DECLARE_MAPS(portable)
DECLARE_MAPS(avx2)
DECLARE_MAPS(avx512)

#endif
