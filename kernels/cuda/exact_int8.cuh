// Products of matrices of bf16 in the mode exact by integers (the scheme of Ozaki et al.): what is known of a
// line, that is of a row of A or a column of B, and what follows for a sum.
//
// The last place of a line's largest element is 2^e. With s = e - 14, each of its elements is
//
//     x = (X + u) 2^s,    X = 2^16 X2 + 2^8 X1 + X0,    X an integer,    -128 <= X0, X1 < 128,    |u| <= 1/2
//
// where u is 0 unless the element's exponent is more than 14 below the largest. `Planes` of all X2, all X1
// and all X0 are matrices of signed bytes. For a row (X, u, s) and a column (Y, v, t) tensor cores add up
//
//     X2 Y2,    X2 Y1 + X1 Y2,    X2 Y0 + X1 Y1 + X0 Y2,    X1 Y0 + X0 Y1
//
// over all k in 32 bits each, and V is their sum with the weights 2^32, 2^24, 2^16 and 2^8, in 64 bits.
//
// INVARIANT: V is exact. |X| <= 255 * 2^14, so |X2| <= 64, and a term of the third sum is at most 2 * 64 *
// 128
// + 128^2 = 2^15 in size, as one of the fourth; others are smaller. K <= 65535 terms are below 2^31. |V| is
// below 2^61, because |X Y| < 2^44 and |X0 Y0| <= 2^14.
//
// INVARIANT: the real sum, in units of 2^(s + t), is within
//
//     R = |X0| |Y0| + |X v| + |u Y| + |u| |v|,    |u Y| = min(|u| |Y|, sum of |u_k| times largest |Y_k|)
//
// of V, where |.| of one vector is its Euclidean norm. For x y = (X + u) (Y + v) = X Y + X v + u Y + u v, and
// X Y lacks in V only X0 Y0; each of these four sums is bounded by Hoelder's inequality, that of Cauchy and
// Schwarz or the other one, which is better if few u_k are not 0. Rounding is monotonic: if V - R and V + R
// are rounded alike, so is the sum. Where no element is far below its line's largest, u and v are 0, and
// where, besides, X0 or Y0 is 0 throughout, R is 0: nothing is left open, not even a tie.

#ifndef REPOPS_EXACT_INT8_CUH
#define REPOPS_EXACT_INT8_CUH

#include "exact_sum.cuh"

constexpr int PLANES = 3;
constexpr int BELOW = 14; // exponents below the largest whose elements are whole
constexpr u64 INFINITE = 0x7F80;

// What a bound follows from. Integers, so that parts may be added in any order.
// INVARIANT: none overflows, by |X| < 2^22, |u| <= 2^15 units, |X0| <= 2^7 and K < 2^16.
struct LineFacts {
    u64 largest;            // magnitude of any element, as bits; above INFINITE there is a NaN
    u64 squares;            // sum of X^2
    u64 low;                // sum of X0^2
    u64 rest, rest_squares; // sums of |u| and of u^2, each |u| in units of 2^-16 and rounded up
};

// The exponent field of an element, or of a line's largest; subnormals share that of the smallest normals.
DEVICE int exponent_of(u64 magnitude) {
    return magnitude >> 7 ? (int)(magnitude >> 7) : 1;
}

// An element as X, and |u| in units of 2^-16, rounded up.
struct Scaled {
    int whole;
    u32 rest;
};
DEVICE Scaled scaled(bf16 x, int largest_exponent) {
    const u32 magnitude = x & 0x7FFF, significand = (magnitude & 0x7F) | (magnitude >> 7 ? 0x80 : 0);
    const int up = BELOW - (largest_exponent - exponent_of(magnitude));
    Scaled s;
    if (up >= 0) {
        s.whole = (int)(significand << up), s.rest = 0;
    } else {
        // NOTE: 24 places take even 255 below 2^-16; farther down |u| is only rounded up further.
        const int down = -up < 24 ? -up : 24;
        s.whole = (int)((significand + (1u << (down - 1))) >> down);
        const int lost = (int)significand - (s.whole << down);
        s.rest = ((u32)(lost < 0 ? -lost : lost) * (1u << 16) + (1u << down) - 1) >> down;
    }
    if (x >> 15) s.whole = -s.whole;
    return s;
}
// X2, X1 and X0 as bytes 2, 1 and 0.
DEVICE u32 digits_of(int whole) {
    return ((u32)whole + 0x808080u) ^ 0x808080u;
}

// Norms of a line from above, in units of 2^scale.
struct LineBound {
    double size, low, rest, rest_sum, most; // |X|, |X0|, |u|, sum of |u_k|, largest |X_k|
    i64 scale;
    u64 largest;
};
// INVARIANT: the factor makes up for the roundings here, and in the radius.
DEVICE double root(u64 squares) {
    return mul_rn(sqrt_rn((double)(i64)squares), 1 + 0x1p-20);
}
DEVICE LineBound bound_of(const LineFacts &f) {
    const int exponent = exponent_of(f.largest);
    return {root(f.squares),
            root(f.low),
            mul_rn(root(f.rest_squares), 0x1p-16),
            mul_rn((double)(i64)f.rest, 0x1p-16),
            (double)scaled((bf16)f.largest, exponent).whole,
            exponent - 134 - BELOW, // field 1: multiples of 2^-133
            f.largest};
}

// A bound of the sum of u Y from above.
DEVICE double rest_times(const LineBound &u, const LineBound &y) {
    const double by_norms = mul_rn(u.rest, y.size), by_sum = mul_rn(mul_rn(u.rest_sum, y.most), 1 + 0x1p-20);
    return by_norms < by_sum ? by_norms : by_sum;
}
DEVICE double radius_of(const LineBound &row, const LineBound &column) {
    const double one = add_rn(rest_times(row, column), rest_times(column, row));
    return add_rn(add_rn(mul_rn(row.low, column.low), one), mul_rn(row.rest, column.rest));
}

// An integer below 2^62 in size as an f64, rounded to odd (see to_odd).
DEVICE double odd_of(i64 x) {
    constexpr i64 WHOLE = 1ll << 53;
    if (-WHOLE <= x && x <= WHOLE) return (double)x;
    const i64 kept = x >> 9 | ((x & 511) != 0); // INVARIANT: from 2^44 to 2^53 in size
    return mul_rn((double)kept, 512.0);
}

// A bound for a quick decision in f32, as LineBound.
struct QuickBound {
    float size, low, rest, rest_sum, most;
    int scale; // far beyond any exponent if the line has an infinity or a NaN
};
DEVICE QuickBound quick(const LineBound &b) {
    // INVARIANT: the factor makes up for the roundings here, and in `decided_quickly`. `most` is exact.
    constexpr double MORE = 1 + 0x1p-16;
    return {(float)mul_rn(b.size, MORE),
            (float)mul_rn(b.low, MORE),
            (float)mul_rn(b.rest, MORE),
            (float)mul_rn(b.rest_sum, MORE),
            (float)b.most,
            b.largest < INFINITE ? (int)b.scale : 1 << 20};
}
DEVICE float smaller(float a, float b) {
    return a < b ? a : b;
}
// Whether a result of bf16 is certain already in f32; then its bits. V is not 0.
//
// INVARIANT: t = RN(V) is off by at most 2^-24 |V|, and t - e and t + e, for e = r + 2^-21 |t|, by at most
// 2^-24
// (|t| + e). So the real sum, which is within R <= r / (1 + 2^-17) of V, is between these two as they are
// computed. If both round to the same 8 bits, so does the sum; and also in its own units, if the result is
// normal there.
DEVICE bool decided_quickly(i64 sum, const QuickBound &row, const QuickBound &column, u32 &result) {
    const float u_y = smaller(mul_rn(row.rest, column.size), mul_rn(row.rest_sum, column.most));
    const float x_v = smaller(mul_rn(column.rest, row.size), mul_rn(column.rest_sum, row.most));
    const float r =
        add_rn(add_rn(mul_rn(row.low, column.low), mul_rn(row.rest, column.rest)), add_rn(u_y, x_v));
    const float t = f32_from_i64(sum), e = add_rn(mul_rn(f32_of(bits_of(t) & 0x7FFFFFFF), 0x1p-21f), r);
    const u32 low = (u32)bits_of(sub_rn(t, e)), high = (u32)bits_of(add_rn(t, e));
    const u32 least = (low + 0x7FFF + (low >> 16 & 1)) >> 16, most = (high + 0x7FFF + (high >> 16 & 1)) >> 16;
    const int scale = row.scale + column.scale, exponent = (int)(least >> 7 & 0xFF) + scale;
    result = least + ((u32)scale << 7);
    return least == most && sum != 0 && (u32)(exponent - 1) < 254;
}

// The bits of a result from V, or OPEN.
template <class E>
DEVICE typename Bits<E>::Word decided(i64 sum, const LineBound &row, const LineBound &column) {
    typedef typename Bits<E>::Word Word;
    if (row.largest > INFINITE || column.largest > INFINITE) return Bits<E>::NAN_;
    if (row.largest == INFINITE || column.largest == INFINITE) return Bits<E>::OPEN;
    const double r = radius_of(row, column);
    const i64 radius = r == 0 ? 0 : (i64)r + 1;
    const double unit = f64_of((1023 + row.scale + column.scale) << FRACTION_BITS);
    const Word least = rounded<E>(mul_rn(odd_of(sum - radius), unit));
    const Word most = rounded<E>(mul_rn(odd_of(sum + radius), unit));
    return least == most ? least : Bits<E>::OPEN;
}

#endif
