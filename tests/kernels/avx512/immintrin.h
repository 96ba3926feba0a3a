// AVX-512 for a processor that has AVX2 only: SIMDe (libsimde-dev, 0.7.4 or later) and what it lacks, as
// Intel's Intrinsics Guide defines it. For tests: the kernels' files for AVX-512 include this in place of the
// compiler's.

#ifndef TEST_IMMINTRIN_H
#define TEST_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EMULATED(type, name) static inline __attribute__((always_inline, unused)) type emulated_##name

// A register as an array of its lanes.
typedef union {
    __m512 ps;
    __m512d pd;
    __m512i si;
    __m256 half_ps[2];
    __m256i half_si[2];
    __m128 quarter[4];
    float f32[16];
    double f64[8];
    uint16_t u16[32];
    uint32_t u32[16];
    uint64_t u64[8];
} lanes;

// Loads and stores of some lanes: memory of the others is not touched.
EMULATED(void, copy)(uint64_t mask, char *to, const char *from, int count, int size) {
    for (int i = 0; i < count; i++)
        if (mask >> i & 1) memcpy(to + i * size, from + i * size, (size_t)size);
}
EMULATED(__m512, mask_loadu_ps)(__m512 otherwise, __mmask16 mask, const void *from) {
    lanes r = {.ps = otherwise};
    emulated_copy(mask, (char *)&r, from, 16, 4);
    return r.ps;
}
EMULATED(__m512, maskz_loadu_ps)(__mmask16 mask, const void *from) {
    return emulated_mask_loadu_ps((lanes){.u64 = {0}}.ps, mask, from);
}
EMULATED(__m256, maskz_loadu_ps_256)(__mmask8 mask, const void *from) {
    lanes r = {.u64 = {0}};
    emulated_copy(mask, (char *)&r, from, 8, 4);
    return r.half_ps[0];
}
EMULATED(__m512i, maskz_loadu_epi16)(__mmask32 mask, const void *from) {
    lanes r = {.u64 = {0}};
    emulated_copy(mask, (char *)&r, from, 32, 2);
    return r.si;
}
EMULATED(void, mask_storeu_ps)(void *to, __mmask16 mask, __m512 x) {
    emulated_copy(mask, to, (const char *)&x, 16, 4);
}
EMULATED(void, mask_storeu_epi32)(void *to, __mmask16 mask, __m512i x) {
    emulated_copy(mask, to, (const char *)&x, 16, 4);
}

// Masks.
EMULATED(__mmask16, cmplt_epu32_mask)(__m512i a, __m512i b) {
    const lanes x = {.si = a}, y = {.si = b};
    unsigned r = 0;
    for (int i = 0; i < 16; i++) r |= (unsigned)(x.u32[i] < y.u32[i]) << i;
    return (__mmask16)r;
}
EMULATED(__mmask8, cmplt_epu64_mask)(__m512i a, __m512i b) {
    const lanes x = {.si = a}, y = {.si = b};
    unsigned r = 0;
    for (int i = 0; i < 8; i++) r |= (unsigned)(x.u64[i] < y.u64[i]) << i;
    return (__mmask8)r;
}
EMULATED(__mmask16, kunpackb)(__mmask16 high, __mmask16 low) {
    return (__mmask16)((high & 0xFF) << 8 | (low & 0xFF));
}

// Conversions and moves.
EMULATED(__m256i, cvtepi32_epi16)(__m512i x) {
    const lanes from = {.si = x};
    lanes to;
    for (int i = 0; i < 16; i++) to.u16[i] = (uint16_t)from.u32[i];
    return to.half_si[0];
}
EMULATED(__m512i, cvtepu16_epi32)(__m256i x) {
    lanes from, to;
    from.half_si[0] = x;
    for (int i = 0; i < 16; i++) to.u32[i] = from.u16[i];
    return to.si;
}
EMULATED(__m256, cvtpd_ps)(__m512d x) {
    const lanes from = {.pd = x};
    lanes to;
    for (int i = 0; i < 8; i++) to.f32[i] = (float)from.f64[i];
    return to.half_ps[0];
}
EMULATED(__m512d, cvtps_pd)(__m256 x) {
    lanes from, to;
    from.half_ps[0] = x;
    for (int i = 0; i < 8; i++) to.f64[i] = from.f32[i];
    return to.pd;
}
EMULATED(float, cvtss_f32)(__m512 x) {
    return (lanes){.ps = x}.f32[0];
}
EMULATED(__m256, extractf32x8_ps)(__m512 x, int half) {
    return (lanes){.ps = x}.half_ps[half];
}
EMULATED(__m512, permute_ps)(__m512 x, int control) {
    const lanes from = {.ps = x};
    lanes to;
    for (int i = 0; i < 16; i++) to.f32[i] = from.f32[(i & ~3) + (control >> 2 * (i & 3) & 3)];
    return to.ps;
}
EMULATED(__m512, shuffle_f32x4)(__m512 a, __m512 b, int control) {
    const lanes from[2] = {{.ps = a}, {.ps = b}};
    lanes to;
    for (int i = 0; i < 4; i++) to.quarter[i] = from[i / 2].quarter[control >> 2 * i & 3];
    return to.ps;
}

// Arithmetic.
EMULATED(__m512, mask3_fmadd_ps)(__m512 a, __m512 b, __m512 c, __mmask16 mask) {
    const lanes x = {.ps = a}, y = {.ps = b};
    lanes z = {.ps = c};
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1) z.f32[i] = fmaf(x.f32[i], y.f32[i], z.f32[i]);
    return z.ps;
}
// The larger, which is what the kernels ask for: a number before a NaN, and +0 before -0, which SIMDe does
// not tell apart.
EMULATED(__m512, range_ps)(__m512 a, __m512 b) {
    const lanes x = {.ps = a}, y = {.ps = b};
    lanes r = {.ps = a};
    for (int i = 0; i < 16; i++) {
        const int above = x.f32[i] == y.f32[i] ? signbit(x.f32[i]) != 0 : !(y.f32[i] <= x.f32[i]);
        if (above && !isnan(y.f32[i])) r.f32[i] = y.f32[i];
    }
    return r.ps;
}
EMULATED(__m512d, getexp_pd)(__m512d x) {
    lanes r = {.pd = x};
    for (int i = 0; i < 8; i++) r.f64[i] = logb(r.f64[i]);
    return r.pd;
}
// For the interval [0.75, 1.5) and the argument's sign, which is what the kernels ask for.
EMULATED(__m512d, getmant_pd)(__m512d x) {
    lanes r = {.pd = x};
    for (int i = 0; i < 8; i++) {
        int exponent;
        if (isnan(r.f64[i])) continue;
        double m = isinf(r.f64[i]) || r.f64[i] == 0 ? 1 : frexp(fabs(r.f64[i]), &exponent);
        r.f64[i] = copysign(m < 0.75 ? 2 * m : m, r.f64[i]);
    }
    return r.pd;
}
// NOTE: processors differ in this one; its error is below 2^-14, and kernels may not depend on more. This one
// errs by more than half of that.
EMULATED(__m512d, rcp14_pd)(__m512d x) {
    lanes r = {.pd = x};
    for (int i = 0; i < 8; i++) r.f64[i] = 1 / r.f64[i] * (1 + 0x1.4p-15);
    return r.pd;
}

#define _mm512_mask_loadu_ps emulated_mask_loadu_ps
#define _mm512_maskz_loadu_ps emulated_maskz_loadu_ps
#define _mm256_maskz_loadu_ps emulated_maskz_loadu_ps_256
#define _mm512_maskz_loadu_epi16 emulated_maskz_loadu_epi16
#define _mm512_mask_storeu_ps emulated_mask_storeu_ps
#define _mm512_mask_storeu_epi32 emulated_mask_storeu_epi32
#define _mm512_cmplt_epu32_mask emulated_cmplt_epu32_mask
#define _mm512_cmplt_epu64_mask emulated_cmplt_epu64_mask
#define _mm512_mask_cmp_ps_mask(mask, a, b, predicate)                                                       \
    ((__mmask16)((mask) & _mm512_cmp_ps_mask(a, b, predicate)))
#define _mm512_mask_cmp_pd_mask(mask, a, b, predicate)                                                       \
    ((__mmask8)((mask) & _mm512_cmp_pd_mask(a, b, predicate)))
#define _mm512_kunpackb emulated_kunpackb
#define _mm512_cvtepi32_epi16 emulated_cvtepi32_epi16
#define _mm512_cvtepu16_epi32 emulated_cvtepu16_epi32
#define _mm512_cvtpd_ps emulated_cvtpd_ps
#define _mm512_cvtps_pd emulated_cvtps_pd
#define _mm512_cvtss_f32 emulated_cvtss_f32
#define _mm512_extractf32x8_ps emulated_extractf32x8_ps
#define _mm512_permute_ps emulated_permute_ps
#define _mm512_shuffle_f32x4 emulated_shuffle_f32x4
#define _mm512_mask3_fmadd_ps emulated_mask3_fmadd_ps
#define _mm512_getexp_pd emulated_getexp_pd
#define ONLY_IF(asked) (void)sizeof(char[(asked) ? 1 : -1])
#undef _mm512_range_ps
#define _mm512_range_ps(a, b, control) (ONLY_IF((control) == 5), emulated_range_ps(a, b))
#define _mm512_getmant_pd(x, interval, sign)                                                                 \
    (ONLY_IF((interval) == _MM_MANT_NORM_p75_1p5 && (sign) == _MM_MANT_SIGN_src), emulated_getmant_pd(x))
#define _mm512_rcp14_pd emulated_rcp14_pd

#endif
