// exp and erf in short, for files compiled for AVX2: a value is a float near it and a second float, so that
// eight lanes do what binary64 does in four.
//
// The result is high + low. low is below 2^-14 of it, and the error of low is a few of its roundings, 2^-24
// of low each. If high + (low - bound) and high + (low + bound) round to one float, so does the value. That
// the bounds hold is shown by all floats (tests/kernels/exhaustive_elementary.c).

#ifndef REPOPS_EXP_ERF_AVX2_H
#define REPOPS_EXP_ERF_AVX2_H

#include "shared/bits.h"
#include "erf_near.h"
#include "pairs_avx2.h"

#define EXP_WIDTH 16
#define ERF_WIDTH 16

// ---------------------------------------------------------------------------------------------------- exp

// ln2 / 8 in three parts. The first two are short, so that k times either is exact for every k.
#define EIGHTH_1 0x1.62ep-4f
#define EIGHTH_2 0x1.0cp-18f
#define EIGHTH_3 -0x1.05c61p-32f
#define EXP_BOUND 0x1p-36f // of a value in [0.95, 2.1]
#define SHIFT 0x1.8p23f    // x + SHIFT is the integer next to x, in the low bits

// 2^(j/8), and what it lacks.
static const float eighths[] = {0x1p+0f,        0x1.172b84p+0f, 0x1.306fep+0f,  0x1.4bfdaep+0f,
                                0x1.6a09e6p+0f, 0x1.8ace54p+0f, 0x1.ae89fap+0f, 0x1.d5818ep+0f};
static const float eighths_rest[] = {0x0p+0f,         -0x1.c15742p-27f, 0x1.4636e2p-25f,  -0x1.593abcp-25f,
                                     0x1.9fcef4p-26f, 0x1.15506ep-27f,  -0x1.a94b14p-26f, -0x1.822dbcp-27f};

// 2^floor(k/8), k the low bits, as what it adds to the exponent of a float. INVARIANT: SHIFT's own bits go.
FN __m256 exponent_8(__m256 k) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(_mm256_castps_si256(k), 3), 23));
}

// exp(x) = 2^(k/8) exp(r), x = k ln2/8 + r + rest. Below -104 the result is 0 and needs no second look. NaNs,
// results that may be subnormal and those above 2^127 are left to the scalar function.
FN unsigned exp_short(float *out, const float *in) {
    const f32x16 x = load(in), near = lesser(all(90.0f), greater(all(-105.0f), x));
    const f32x16 shifted = muladd(near, all(0x1.715476p+3f), all(SHIFT)), k = sub(shifted, all(SHIFT));
    const f32x16 r = negmul(k, all(EIGHTH_2), negmul(k, all(EIGHTH_1), near)), rest = mul(k, all(-EIGHTH_3));
    // exp(r + rest) = 1 + u + v: u = r + r^2/2, and v is what its rounding lost, the cube, and rest (1 + u).
    const f32x16 half = mul(r, all(0.5f)), u = muladd(r, half, r), lost = muladd(r, half, sub(r, u));
    const f32x16 terms = muladd(muladd(r, all(0x1.111368p-6f), all(0x1.55596ep-4f)), r, all(0x1.555556p-2f));
    const f32x16 v = muladd(mul(mul(r, half), r), terms, add(lost, muladd(rest, u, rest)));
    const f32x16 power = of_eight(eighths, shifted), lack = of_eight(eighths_rest, shifted);
    const f32x16 high = muladd(power, u, power), left = mulsub(power, u, sub(high, power));
    const f32x16 low = add(muladd(power, v, muladd(lack, u, lack)), left);
    const f32x16 least = add(high, sub(low, all(EXP_BOUND))), most = add(high, add(low, all(EXP_BOUND)));
    const f32x16 zero = COMPARE(x, all(-104.0f), _CMP_LT_OQ);
    const f32x16 from_middle = both(add(x, all(-0.7f)), all_bits(0x7FFFFFFF));
    const f32x16 doubt =
        either(COMPARE(least, most, _CMP_NEQ_UQ), COMPARE(from_middle, all(88.0f), _CMP_NLE_UQ));
    const f32x16 y = add_bits(least, (f32x16){exponent_8(shifted.a), exponent_8(shifted.b)});
    store(out, without(zero, y));
    return signs(without(zero, doubt));
}

// ---------------------------------------------------------------------------------------------------- erf

#define ERF_BOUND 0x1p-35f // of the value

// Eight rows of the table, as columns.
FN void erf_columns(__m256i row, __m256 column[4]) {
    const __m256i at = _mm256_slli_epi32(row, 2);
    const __m128i low = _mm256_castsi256_si128(at), high = _mm256_extracti128_si256(at, 1);
    const uint64_t two[4] = {(uint64_t)_mm_cvtsi128_si64(low), (uint64_t)_mm_extract_epi64(low, 1),
                             (uint64_t)_mm_cvtsi128_si64(high), (uint64_t)_mm_extract_epi64(high, 1)};
    __m256 r[4]; // rows i and i + 4
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const uint64_t first = i % 2 ? two[i / 2] >> 32 : (uint32_t)two[i / 2];
        const uint64_t second = i % 2 ? two[i / 2 + 2] >> 32 : (uint32_t)two[i / 2 + 2];
        r[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps(erf_near[0] + first)),
                                    _mm_load_ps(erf_near[0] + second), 1);
    }
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(r[0], r[1]));
    const __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(r[0], r[1]));
    const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(r[2], r[3]));
    const __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(r[2], r[3]));
    column[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    column[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    column[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    column[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
}

// erf(c + t) = F + D (t - c t^2 + (2c^2 - 1)/3 t^3 + (c/2 - c^3/3) t^4 + ...), F = erf(c), D = erf'(c), c the
// nearest 64th: |t| <= 1/128, t is exact, and 1/10 will do for the next coefficient. From 3.92 on the result
// rounds to 1. NaNs are left to the scalar function, and so are numbers so small that parts are subnormal.
FN unsigned erf_short(float *out, const float *in) {
    const f32x16 x = load(in), size = both(x, all_bits(0x7FFFFFFF)), a = lesser(size, all(3.9375f));
    const f32x16 by_step = mul(a, all(ERF_STEPS));
    const __m256i row_a = _mm256_cvtps_epi32(by_step.a), row_b = _mm256_cvtps_epi32(by_step.b);
    __m256 of_a[4], of_b[4];
    erf_columns(row_a, of_a);
    erf_columns(row_b, of_b);
    const f32x16 F = {of_a[0], of_b[0]}, F_rest = {of_a[1], of_b[1]};
    const f32x16 D = {of_a[2], of_b[2]}, D_rest = {of_a[3], of_b[3]};

    const f32x16 row = {_mm256_cvtepi32_ps(row_a), _mm256_cvtepi32_ps(row_b)};
    const f32x16 c = mul(row, all(1.0f / ERF_STEPS)), t = sub(a, c), square = mul(c, c);
    const f32x16 cube = muladd(square, all(2.0f / 3.0f), all(-1.0f / 3.0f));
    const f32x16 fourth = mul(c, negmul(square, all(1.0f / 3.0f), all(0.5f)));
    const f32x16 terms = mulsub(t, muladd(t, muladd(t, all(0.1f), fourth), cube), c);

    const f32x16 high = muladd(D, t, F), left = mulsub(D, t, sub(high, F));
    const f32x16 low = add(muladd(mul(mul(D, t), t), terms, muladd(D_rest, t, F_rest)), left);
    const f32x16 least = add(high, negmul(high, all(ERF_BOUND), low));
    const f32x16 most = add(high, muladd(high, all(ERF_BOUND), low));
    const f32x16 small = COMPARE(size, all(0x1p-100f), _CMP_NGE_UQ), zero = COMPARE(size, all(0), _CMP_EQ_OQ);
    store(out, either(least, without(all_bits(0x7FFFFFFF), x)));
    return signs(either(COMPARE(least, most, _CMP_NEQ_UQ), without(zero, small)));
}

#endif
