// Sixteen floats as two AVX2 vectors, for files compiled for that instruction set. A chain of operations
// waits for each of them; two chains at once fill the gaps.

#ifndef REPOPS_PAIRS_AVX2_H
#define REPOPS_PAIRS_AVX2_H

#include <immintrin.h>
#include "shared/bits.h"

typedef struct {
    __m256 a, b;
} f32x16;

#define OF_TWO(name, operation)                                                                              \
    FN f32x16 name(f32x16 x, f32x16 y) {                                                                     \
        return (f32x16){operation(x.a, y.a), operation(x.b, y.b)};                                           \
    }
#define OF_THREE(name, operation)                                                                            \
    FN f32x16 name(f32x16 x, f32x16 y, f32x16 z) {                                                           \
        return (f32x16){operation(x.a, y.a, z.a), operation(x.b, y.b, z.b)};                                 \
    }
OF_TWO(add, _mm256_add_ps)
OF_TWO(sub, _mm256_sub_ps)
OF_TWO(mul, _mm256_mul_ps)
OF_TWO(lesser, _mm256_min_ps)      // y, if one of them is a NaN
OF_TWO(greater, _mm256_max_ps)     // likewise
OF_THREE(muladd, _mm256_fmadd_ps)  // x y + z
OF_THREE(mulsub, _mm256_fmsub_ps)  // x y - z
OF_THREE(negmul, _mm256_fnmadd_ps) // z - x y

// NOTE: on some processors the logic of floats has half the speed of that of integers.
#define OF_BITS(name, operation)                                                                             \
    FN __m256 name##_8(__m256 x, __m256 y) {                                                                 \
        return _mm256_castsi256_ps(operation(_mm256_castps_si256(x), _mm256_castps_si256(y)));               \
    }                                                                                                        \
    OF_TWO(name, name##_8)
OF_BITS(both, _mm256_and_si256)
OF_BITS(either, _mm256_or_si256)
OF_BITS(without, _mm256_andnot_si256) // the bits of y that x has not
OF_BITS(add_bits, _mm256_add_epi32)

#define COMPARE(x, y, how) ((f32x16){_mm256_cmp_ps((x).a, (y).a, how), _mm256_cmp_ps((x).b, (y).b, how)})

FN f32x16 all(float x) {
    return (f32x16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
FN f32x16 all_bits(uint32_t x) {
    const __m256 bits = _mm256_castsi256_ps(_mm256_set1_epi32((int)x));
    return (f32x16){bits, bits};
}
FN f32x16 load(const float *from) {
    return (f32x16){_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)};
}
FN void store(float *to, f32x16 x) {
    _mm256_storeu_ps(to, x.a);
    _mm256_storeu_ps(to + 8, x.b);
}
// The sign bit of each.
FN unsigned signs(f32x16 x) {
    return (unsigned)_mm256_movemask_ps(x.a) | (unsigned)_mm256_movemask_ps(x.b) << 8;
}
// table[i mod 8], i the bits of each.
FN f32x16 of_eight(const float *table, f32x16 i) {
    const __m256 t = _mm256_loadu_ps(table);
    return (f32x16){_mm256_permutevar8x32_ps(t, _mm256_castps_si256(i.a)),
                    _mm256_permutevar8x32_ps(t, _mm256_castps_si256(i.b))};
}

#endif
