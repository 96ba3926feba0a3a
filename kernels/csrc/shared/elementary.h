// exp, log, log1p, tanh, erf, sin, cos and pow of one binary32 value, correctly rounded, in the common subset
// of C11 and CUDA C++. Every instruction set uses these functions where it has no faster way.
//
// A function evaluates in binary64 (`name_f64`, relative error below 2^-51) and rounds to binary32. This goes
// wrong only where the true value is within the error of a midpoint of two floats. Where the binary64 value
// is within UNDECIDED, twice that error, of a midpoint, the result comes from a table (hard_cases.h) if the
// input is there; the table holds all inputs whose true value is that near. So binary64 values may differ
// between machines (with or without fma), but results do not.

#ifndef REPOPS_ELEMENTARY_H
#define REPOPS_ELEMENTARY_H

#include "bits.h"

// MULADD: a b + c, rounded once or twice, whichever is faster here.
#if !defined(MULADD) && defined(__CUDACC__)
#define MULADD(a, b, c) fma(a, b, c)
#elif !defined(MULADD) && defined(FP_FAST_FMA)
#define MULADD(a, b, c) __builtin_fma(a, b, c)
#elif !defined(MULADD)
#define MULADD(a, b, c) ((a) * (b) + (c))
#endif

#define UNDECIDED 0x1p-50
#define INFINITE f32_of(0x7F800000)
#define NOT_A_NUMBER f32_of(0x7FC00000)
#define ROUND_MAGIC 0x1.8p52 // adding and subtracting it rounds to an integer, which is in the low bits
#define INV_LN2 0x1.71547652b82fep+0
#define LN2_HI 0x1.62e42feep-1 // 32 bits, so products with integers below 2^21 are exact
#define LN2_LO 0x1.a39ef35793c76p-33

FN float magnitude(float x) {
    return f32_of(bits_of(x) & 0x7FFFFFFF);
}
FN float with_sign_of(float x, float sign) {
    return f32_of(bits_of(x) ^ (bits_of(sign) & (int32_t)0x80000000));
}

// NOTE: these work on bits; for comparisons of the sign gcc would split the loop and vectorise neither half.
FN double magnitude64(double x) {
    return f64_of(bits64(x) & 0x7FFFFFFFFFFFFFFF);
}
FN double with_sign_of64(double x, double sign) {
    return f64_of(bits64(x) ^ (bits64(sign) & ~0x7FFFFFFFFFFFFFFF));
}

#include "hard_cases.h"

// Round y to binary32, or take the result from the table for x if y is too near to a midpoint.
FN float decide(double y, float x, const uint32_t (*hard)[2], int rows) {
    const float low = (float)(y - y * UNDECIDED), high = (float)(y + y * UNDECIDED);
    if (low == high) return low;
    for (int i = 0; i < rows; i++)
        if (hard[i][0] == (uint32_t)bits_of(x)) return f32_of((int32_t)hard[i][1]);
    return (float)y;
}

// exp(x) = 2^k (1 + tail): x = k ln2 + r, |r| <= ln2 / 2.
FN double exp_parts(double x, double *scale) {
    const double shifted = MULADD(x, INV_LN2, ROUND_MAGIC);
    const double k = shifted - ROUND_MAGIC;
    const double r = MULADD(-k, LN2_LO, MULADD(-k, LN2_HI, x));
    double p = 0x1.6124613a86d09p-33; // 1/13!
    p = MULADD(p, r, 0x1.1eed8eff8d898p-29);
    p = MULADD(p, r, 0x1.ae64567f544e4p-26);
    p = MULADD(p, r, 0x1.27e4fb7789f5cp-22);
    p = MULADD(p, r, 0x1.71de3a556c734p-19);
    p = MULADD(p, r, 0x1.a01a01a01a01ap-16);
    p = MULADD(p, r, 0x1.a01a01a01a01ap-13);
    p = MULADD(p, r, 0x1.6c16c16c16c17p-10);
    p = MULADD(p, r, 0x1.1111111111111p-7);
    p = MULADD(p, r, 0x1.5555555555555p-5);
    p = MULADD(p, r, 0x1.5555555555555p-3);
    p = MULADD(p, r, 0.5);
    *scale = f64_of((int64_t)(((uint64_t)bits64(shifted) + 1023) << 52)); // 2^k, normal as |k| <= 152
    return MULADD(r * r, p, r);
}

FN double exp_f64(double x) {
    // Clamped, so that 2^k is normal: beyond these bounds the result is 0 or infinite for every input.
    const double above = x > -105.0 ? x : -105.0;
    double scale;
    const double tail = exp_parts(above < 90.0 ? above : 90.0, &scale);
    return MULADD(scale, tail, scale);
}

FN float exp_f32(float x) {
    if (x != x) return x;
    return decide(exp_f64((double)x), x, exp_hard, HARD(exp_hard));
}

// k ln2 + log(1 + f), 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = 2 atanh(s), s = f / (f + 2).
FN double log_of_parts(double k, double f) {
    const double s = f / (f + 2.0);
    const double z = s * s;
    double p = 2.0 / 23.0;
    p = MULADD(p, z, 2.0 / 21.0);
    p = MULADD(p, z, 2.0 / 19.0);
    p = MULADD(p, z, 2.0 / 17.0);
    p = MULADD(p, z, 2.0 / 15.0);
    p = MULADD(p, z, 2.0 / 13.0);
    p = MULADD(p, z, 2.0 / 11.0);
    p = MULADD(p, z, 2.0 / 9.0);
    p = MULADD(p, z, 2.0 / 7.0);
    p = MULADD(p, z, 2.0 / 5.0);
    p = MULADD(p, z, 2.0 / 3.0);
    // 2 atanh(s) = f - (f^2/2 - s (f^2/2 + z p)): the large term, f, is exact.
    const double half = 0.5 * f * f;
    return MULADD(k, LN2_HI, f - (half - MULADD(s, MULADD(z, p, half), k * LN2_LO)));
}

// Split x = 2^k m, m in [sqrt(1/2), sqrt(2)), for positive, finite, normal x.
FN double split(double x, double *k) {
    const uint64_t b = (uint64_t)bits64(x);
    const int64_t n = (int64_t)(b - 0x3FE6A09E667F3BCD) >> 52;
    *k = f64_of(n + 0x4338000000000000) - ROUND_MAGIC;
    return f64_of((int64_t)(b - ((uint64_t)n << 52)));
}

FN double log_f64(double x) {
    double k;
    const double m = split(x, &k);
    return log_of_parts(k, m - 1.0);
}

FN float log_f32(float x) {
    if (x == 0.0f) return -INFINITE;
    if (x < 0.0f) return NOT_A_NUMBER;
    if (!(x < INFINITE)) return x;
    return decide(log_f64((double)x), x, log_hard, HARD(log_hard));
}

// NOTE: 1 + x is exact, except if x is so small that k = 0, where x itself is used, or above 2^29, where the
// relative error of 2^-53 in the argument changes the result by far less.
FN double log1p_f64(double x) {
    double k;
    const double m = split(1.0 + x, &k);
    return log_of_parts(k, k == 0.0 ? x : m - 1.0);
}

FN float log1p_f32(float x) {
    if (x == -1.0f) return -INFINITE;
    if (x < -1.0f) return NOT_A_NUMBER;
    if (!(x < INFINITE) || x == 0.0f) return x;
    return decide(log1p_f64((double)x), x, log1p_hard, HARD(log1p_hard));
}

// tanh(a) = t / (t + 2), t = exp(2 a) - 1 = 2^k tail + (2^k - 1), whose last term is exact. From 10 on, the
// result rounds to 1.
FN double tanh_f64(double x) {
    const double size = magnitude64(x);
    double scale;
    const double tail = exp_parts(2.0 * (size < 10.0 ? size : 10.0), &scale);
    const double t = MULADD(scale, tail, scale - 1.0);
    return with_sign_of64(t / (t + 2.0), x);
}

FN float tanh_f32(float x) {
    const float size = magnitude(x);
    if (x != x || x == 0.0f) return x;
    return with_sign_of(decide(tanh_f64((double)size), size, tanh_hard, HARD(tanh_hard)), x);
}

// erf(x) / x around c = 0, 1/4, ..., 4 as a polynomial in |x| - c, coefficients ascending: Chebyshev
// interpolations on [c - 1/8, c + 1/8], relative errors below 2^-53.
#define ERF_COEFFICIENTS 12
TABLE double erf_table[17 * ERF_COEFFICIENTS] = {
    // clang-format off
    0x1.20dd750429b6dp+0, 0, -0x1.812746b0379ap-2, 0,
    0x1.ce2f21a00f2fcp-4, 0, -0x1.b82ce2367f627p-6, 0,
    0x1.565a247787ddap-8, 0, -0x1.bd39fdb90fa3ap-11, 0,
    0x1.1af54e232d609p+0, -0x1.73070406af8f7p-3, -0x1.57664ffe806fap-2, 0x1.acf0ba5b49195p-4,
    0x1.6cb169fedeb3p-4, -0x1.265cd0856cffbp-5, -0x1.2d72a57385683p-6, 0x1.24caf7493b39p-7,
    0x1.8ebf3399384ccp-9, -0x1.caf012b3760ebp-10, -0x1.ae90c3a8575bp-12, 0x1.2756657e3711cp-12,
    0x1.0a7ef5c18edd2p+0, -0x1.4c3884e5e2e4cp-2, -0x1.d6dd158f0876ap-3, 0x1.55cfc81134df5p-3,
    0x1.0915aeb6e3102p-5, -0x1.9a2fb0043b9b4p-5, 0x1.f3a5e45fd825fp-15, 0x1.5e5513486054ap-7,
    -0x1.5178bb274f3ebp-10, -0x1.cd5e410a8a1c8p-10, 0x1.8bf5c2751d2edp-12, 0x1.e580518875d52p-13,
    0x1.e57b7477c132ap-1, -0x1.a0cdd9ab35663p-2, -0x1.9a7d8dd5f74dfp-4, 0x1.5acfc2be8b52ep-3,
    -0x1.97842b845fc2dp-6, -0x1.35e003bdd2002p-5, 0x1.de96cef91903cp-7, 0x1.4ea8656ea8c5ap-8,
    -0x1.ea250d8b11fe1p-9, -0x1.3fbb951c4e492p-12, 0x1.550e814889b3fp-11, -0x1.5056bafc900c8p-15,
    0x1.af767a741088bp-1, -0x1.b5db0451254fp-2, 0x1.99227745318aep-7, 0x1.01cf239aff6a4p-3,
    -0x1.d079f84d51d87p-5, -0x1.992277458c35dp-7, 0x1.1822a4ed9493ep-6, -0x1.fd726139368aap-10,
    -0x1.736923bf84badp-9, 0x1.f140cfe9a964fp-11, 0x1.22f11a25beff7p-12, -0x1.90b3dd9a65cadp-13,
    0x1.7a0517ad564cdp-1, -0x1.9b12df9c9f1cep-2, 0x1.5aa538fffff3bp-4, 0x1.0faa3ba2d589dp-4,
    -0x1.db07bcfdd8b4dp-5, 0x1.1b462fd4a6442p-7, 0x1.4bc7e053203e4p-7, -0x1.54be48443e50ep-8,
    -0x1.a2161f85c22afp-12, 0x1.0ba94ca065be7p-10, -0x1.78fcd25f7dd9ep-13, -0x1.db16319bb22d4p-14,
    0x1.49c38e4b7a74p-1, -0x1.667ed552b838ep-2, 0x1.d4d9711bbe524p-4, 0x1.0946e1047d69p-6,
    -0x1.4bfeaee208c8p-5, 0x1.1847c30976525p-6, 0x1.83d63018fa749p-10, -0x1.0fddd942bfe77p-8,
    0x1.380fef36b6266p-10, 0x1.6b12fc0c33e3fp-12, -0x1.314a001f532dap-12, 0x1.a3e1e15c68437p-16,
    0x1.20ac0448e30d1p-1, -0x1.2b07a606936a4p-2, 0x1.d3549a3f1bdf9p-4, -0x1.c0361d5090e02p-7,
    -0x1.424946c7da189p-6, 0x1.ec5d8e9165451p-7, -0x1.c6170d54d7deep-9, -0x1.849ec2e041f4dp-10,
    0x1.4b6da2fc1563p-10, -0x1.bb8539377eed1p-13, -0x1.15555f308dcbap-13, 0x1.2debc5d90b822p-14,
    0x1.fd9ae142795e3p-2, -0x1.e8712759a9c41p-3, 0x1.93ca3fb66b594p-4, -0x1.9c899bc85e251p-6,
    -0x1.2f9e2e44bfdabp-8, 0x1.225b2bb76166p-7, -0x1.134e913838a17p-8, 0x1.aef1d794262abp-12,
    0x1.355985e827e7bp-11, -0x1.4f9e80848443p-12, 0x1.d3bcfd05d7e54p-16, 0x1.3b1a348089417p-15,
    0x1.c672068e64fbdp-2, -0x1.8d734c1fef1dcp-3, 0x1.4408c71d2d851p-4, -0x1.a1de1a059624cp-6,
    0x1.7610514ee18c3p-9, 0x1.c69ab0b9340cp-9, -0x1.733cc6bab7cb9p-9, 0x1.f7c0030fc56c9p-11,
    0x1.2071682ecdcedp-16, -0x1.684fa1fa090fdp-13, 0x1.2926d8bb00653p-14, -0x1.5880a13ca85bdp-19,
    0x1.996eed90a1655p-2, -0x1.45c31f8201853p-3, 0x1.f76000f8a0115p-5, -0x1.5bfa13d2d0b0fp-6,
    0x1.4abb8b53c469ap-8, 0x1.c11cfacd5ac69p-12, -0x1.525ab230a5918p-10, 0x1.806f607f7f40dp-11,
    -0x1.8c6e2a573503dp-13, -0x1.9b15e5404a51cp-16, 0x1.5aae0c73f9cacp-15, -0x1.e2ccf58f9d40ep-17,
    0x1.74537fc603cfbp-2, -0x1.0e5896d12aaf3p-3, 0x1.846d86b723abbp-5, -0x1.0a0c0d51b37ccp-6,
    0x1.355523835a97cp-8, -0x1.767b3000aaaabp-11, -0x1.6796ed46f90b6p-12, 0x1.7918728be45d6p-12,
    -0x1.5622e31d31143p-13, 0x1.18630666a52a4p-15, 0x1.0b840dc778549p-17, -0x1.210faeae36798p-17,
    0x1.5553672d623fcp-2, -0x1.c6e932c0394c7p-4, 0x1.2e2218ebc155ap-5, -0x1.8a39a4ff11288p-7,
    0x1.e000cccee8f84p-9, -0x1.ce5982e4c04f1p-11, 0x1.9226f6f00573bp-15, 0x1.df088bf4e45b8p-14,
    -0x1.5c1d83ad462d6p-14, 0x1.0ef6893bf4bf3p-15, -0x1.7038d9e29afffp-18, -0x1.da4bc8edb7f19p-20,
    0x1.3b135862188d2p-2, -0x1.83bf9f6f554bp-4, 0x1.dcc02f5d976cfp-6, -0x1.23692b411d71p-7,
    0x1.5b1a27bd090c1p-9, -0x1.7894c29475ccp-11, 0x1.256f7696db28fp-13, 0x1.36760ede25e74p-17,
    -0x1.d54027513c59dp-16, 0x1.1628fcda51c8cp-16, -0x1.8576b971f24a3p-18, 0x1.e14b15ef7a439p-21,
    0x1.24923ae50c3a4p-2, -0x1.4e5c5c0d426e6p-4, 0x1.7e09c39c98081p-6, -0x1.b3d2b39abdde8p-8,
    0x1.ed02f45e19798p-10, -0x1.0d6b8e80d577bp-11, 0x1.0553507ab5906p-13, -0x1.3e5e724feb17ep-16,
    -0x1.250696df1d0e1p-18, 0x1.79ad8f1264aafp-18, -0x1.8ab7e4ca5706ap-19, 0x1.02933bc170dd8p-20,
    0x1.11110f080c546p-2, -0x1.234526458097ep-4, 0x1.36ac76646eecap-6, -0x1.4b3ef89efcd6bp-8,
    0x1.605c898b88ed6p-10, -0x1.72b720a33c035p-12, 0x1.75df9efc8a478p-14, -0x1.45fbe434001e6p-16,
    0x1.29276eb255a49p-19, 0x1.16cfdd8f082e9p-20, -0x1.06911d38fbf4dp-20, 0x1.f54d77b8943e6p-22,
    0x1.ffffff7b91176p-3, -0x1.ffffee707c8ebp-5, 0x1.fffeddbf3403bp-7, -0x1.fff3dbec9bbd8p-9,
    0x1.ffa17bb40acabp-11, -0x1.fdc71ca32f694p-13, 0x1.f54499c89c2efp-15, -0x1.d56cd3619c16ep-17,
    0x1.733ccc85e9b73p-19, -0x1.e4ac5a307bb8dp-23, -0x1.967c7aeacbbbbp-23, 0x1.3d38ecce3a4efp-23,
    // clang-format on
};

FN double erf_f64(double x) {
    const double size = magnitude64(x);
    const double a = size < 4.0 ? size : 4.0; // from 3.92 on the result rounds to 1
    const int32_t row = (int32_t)(a * 4.0 + 0.5);
    const double *c = erf_table + ERF_COEFFICIENTS * row;
    const double t = a - 0.25 * (double)row;
    double p = c[11];
    p = MULADD(p, t, c[10]);
    p = MULADD(p, t, c[9]);
    p = MULADD(p, t, c[8]);
    p = MULADD(p, t, c[7]);
    p = MULADD(p, t, c[6]);
    p = MULADD(p, t, c[5]);
    p = MULADD(p, t, c[4]);
    p = MULADD(p, t, c[3]);
    p = MULADD(p, t, c[2]);
    p = MULADD(p, t, c[1]);
    p = MULADD(p, t, c[0]);
    return with_sign_of64(a * p, x);
}

FN float erf_f32(float x) {
    const float size = magnitude(x);
    if (x != x) return x;
    return with_sign_of(decide(erf_f64((double)size), size, erf_hard, HARD(erf_hard)), x);
}

#include "trig.h"
#include "pow.h"

#endif
