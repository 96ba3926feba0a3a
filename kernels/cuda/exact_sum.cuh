// Sums without rounding, for the mode exact (docs/opset.md, section 2): compensated sums that know whether
// they are exact, sums in integer digits that always are, and the one rounding at the end.
//
// INVARIANT: every term is a multiple of 2^-298 below 2^257, and there are at most 2^30 of them, so no f64
// operation here overflows or underflows. Infinite terms and NaNs are added apart, in `beyond`.

#ifndef REPOPS_EXACT_SUM_CUH
#define REPOPS_EXACT_SUM_CUH

#include "common.cuh"

constexpr i64 FRACTION_BITS = 52, FRACTION = (1ll << FRACTION_BITS) - 1,
              F64_INF_BITS = 0x7FFll << FRACTION_BITS;

DEVICE int lowest_bit(u32 x) { // that is set
    return count_ones((x & (0 - x)) - 1);
}
DEVICE bool is_finite(double x) {
    return (bits64(x) & ~I64_MIN) < F64_INF_BITS;
}

// ------------------------------------------------------------------------------------------------- rounding

// Given a sum s + e, where s is its nearest f64: round it to odd. If it is not an f64, this is the one of its
// two neighbours whose last bit is 1; any later rounding to at most 51 bits gives what the sum itself would.
DEVICE double to_odd(double s, double e) {
    const i64 bits = bits64(s);
    if (e == 0 || bits & 1) return s;
    return f64_of((e > 0) == (s > 0) ? bits + 1 : bits - 1);
}

// The bits of an element. A zero is +0, NaN canonical.
template <class E> struct Bits;
template <> struct Bits<float> {
    typedef u32 Word;
    static constexpr Word NAN_ = 0x7FC00000, MINUS_ZERO = 0x80000000, OPEN = 0x7F800001;
    static DEVICE_MEMBER Word of(double x) { return (u32)bits_of((float)x); }
};
template <> struct Bits<bf16> {
    typedef uint16_t Word;
    static constexpr Word NAN_ = 0x7FC0, MINUS_ZERO = 0x8000, OPEN = 0x7F81;
    // Through a float that is rounded to odd.
    static DEVICE_MEMBER Word of(double x) {
        const float near = (float)x;
        const double back = near;
        u32 bits = (u32)bits_of(near);
        if (back != x) {
            if ((back > x) == (x > 0)) bits--;
            bits |= 1;
        }
        return to_bf16(f32_of((int)bits));
    }
};
// Round to an element: to nearest, ties to even.
template <class E> DEVICE typename Bits<E>::Word rounded(double x) {
    if (x != x) return Bits<E>::NAN_;
    const typename Bits<E>::Word bits = Bits<E>::of(x);
    return bits == Bits<E>::MINUS_ZERO ? 0 : bits;
}

// ---------------------------------------------------------------------------------------------- compensated

DEVICE double two_sum(double a, double b, double &error) {
    const double sum = add_rn(a, b), of_b = sub_rn(sum, a);
    error = add_rn(sub_rn(a, sub_rn(sum, of_b)), sub_rn(b, of_b));
    return sum;
}

// The sum of the finite terms is sum + rest, unless `inexact`.
struct Compensated {
    double sum, rest, beyond;
    int inexact;

    DEVICE_MEMBER void begin() { sum = rest = beyond = 0, inexact = 0; }
    DEVICE_MEMBER void add(double term) {
        if (is_finite(term))
            add_finite(term);
        else
            beyond = add_rn(beyond, term);
    }
    DEVICE_MEMBER void add_finite(double term) {
        double error;
        sum = two_sum(sum, term, error);
        add_rest(error);
    }
    DEVICE_MEMBER void add_rest(double term) {
        double lost;
        rest = two_sum(rest, term, lost);
        inexact |= lost != 0;
    }
    DEVICE_MEMBER void join(const Compensated &other) {
        add_finite(other.sum);
        add_rest(other.rest);
        beyond = add_rn(beyond, other.beyond);
        inexact |= other.inexact;
    }
    // The sum, rounded to odd, if it is exact.
    DEVICE_MEMBER double odd() const {
        double error;
        const double near = two_sum(sum, rest, error);
        return beyond != 0 ? beyond : to_odd(near, error);
    }
};

// --------------------------------------------------------------------------------------------------- digits

constexpr int DIGITS = 22, UNIT = 352; // digit i counts 2^(32 i - 352), in 64 bits, so that carries wait

struct Digits {
    i64 digit[DIGITS];
    double beyond;

    DEVICE_MEMBER void begin() {
        for (int i = 0; i < DIGITS; i++) digit[i] = 0;
        beyond = 0;
    }
    DEVICE_MEMBER void add(double term) {
        const u64 bits = (u64)bits64(term);
        const int exponent = (int)(bits >> FRACTION_BITS & 0x7FF);
        if (exponent == 0) return; // a zero
        if (exponent == 0x7FF) {
            beyond = add_rn(beyond, term);
            return;
        }
        const u64 mantissa = (bits & FRACTION) | 1ull << FRACTION_BITS;
        const int shift = exponent - 1075 + UNIT, place = shift / 32, by = shift % 32; // shift is at least 2
        const u64 low = mantissa << by, high = mantissa >> 1 >> (63 - by);
        const i64 sign = (i64)bits >> 63; // -1 for a negative term: (x ^ -1) - -1 is -x
        digit[place] += ((i64)(low & 0xFFFFFFFF) ^ sign) - sign;
        digit[place + 1] += ((i64)(low >> 32) ^ sign) - sign;
        digit[place + 2] += ((i64)high ^ sign) - sign;
    }
    DEVICE_MEMBER void set(const Compensated &sum) {
        begin();
        add(sum.sum);
        add(sum.rest);
        beyond = sum.beyond;
    }
    DEVICE_MEMBER void join(const Digits &other) {
        for (int i = 0; i < DIGITS; i++) digit[i] += other.digit[i];
        beyond = add_rn(beyond, other.beyond);
    }
    DEVICE_MEMBER double odd() const;
};

static DEVICE_CALL double odd_of_digits(const Digits &sum) {
    u64 digit[DIGITS]; // from 0 to 2^32 - 1, and the sign
    i64 carry = 0;
    for (int i = 0; i < DIGITS; i++) {
        carry += sum.digit[i];
        digit[i] = (u64)carry & 0xFFFFFFFF;
        carry >>= 32;
    }
    const u64 negative = carry < 0;
    u64 one = 1;
    for (int i = 0; negative && i < DIGITS; i++) {
        one += digit[i] ^ 0xFFFFFFFF;
        digit[i] = one & 0xFFFFFFFF;
        one >>= 32;
    }
    int top = DIGITS - 1;
    while (top >= 0 && digit[top] == 0) top--;
    if (top < 0) return 0;
    // The first 64 bits, the first of them set; those below only count as zero or not.
    // INVARIANT: a nonzero sum is at least 2^-298, so there are two digits below the first.
    int empty = 0;
    while (!(digit[top] >> (31 - empty) & 1)) empty++;
    const u64 low = digit[top - 2] << empty;
    const u64 first = (digit[top] << 32 | digit[top - 1]) << empty | low >> 32;
    u64 below = (low & 0xFFFFFFFF) | (first & 0x7FF);
    for (int i = 0; i < top - 2; i++) below |= digit[i];
    const u64 mantissa = first >> 11 | (below != 0);
    const u64 exponent = (u64)(32 * top + 31 - empty - UNIT + 1023);
    return f64_of((i64)(negative << 63 | ((exponent << FRACTION_BITS) + (mantissa & FRACTION))));
}
DEVICE_MEMBER double Digits::odd() const {
    return beyond != 0 ? beyond : odd_of_digits(*this);
}

// ------------------------------------------------------------------------------------------------ whole sums

constexpr int AT_ONCE = 8; // terms whose loads are in flight together

// Terms: raw(k) is what term k is made of, and wide(raw(k)) the term as an f64, 0 if it does not exist.
template <class Terms> DEVICE double term_of(const Terms &terms, i64 k) {
    return Terms::wide(terms.raw(k));
}
template <class Terms>
DEVICE void add_terms(Compensated &sum, const Terms &terms, i64 begin, i64 end, int step) {
    sum.begin();
    i64 k = begin;
#pragma unroll 1
    for (; k + (AT_ONCE - 1) * step < end; k += AT_ONCE * step) {
        typename Terms::Raw raw[AT_ONCE];
        double term[AT_ONCE];
        bool finite = true;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) raw[i] = terms.raw(k + i * step);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) term[i] = Terms::wide(raw[i]);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) finite &= is_finite(term[i]);
        if (!finite) { // NOTE: read again, because an array in registers is not for loops
#pragma unroll 1
            for (int i = 0; i < AT_ONCE; i++) sum.add(term_of(terms, k + i * step));
            continue;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) sum.add_finite(term[i]);
    }
#pragma unroll 1
    for (; k < end; k += step) sum.add(term_of(terms, k));
}
template <class Terms>
DEVICE_CALL void add_to_digits(Digits &sum, const Terms &terms, i64 begin, i64 end, int step) {
    sum.begin();
#pragma unroll 1
    for (i64 k = begin; k < end; k += step) sum.add(term_of(terms, k));
}

// A thread's sum of terms [begin, end), rounded to odd.
template <class Terms> DEVICE double thread_sum(const Terms &terms, i64 begin, i64 end) {
    Compensated sum;
    add_terms(sum, terms, begin, end, 1);
    if (!sum.inexact) return sum.odd();
    Digits digits;
    add_to_digits(digits, terms, begin, end, 1);
    return digits.odd();
}

DEVICE Compensated fold(Compensated sum) {
#pragma unroll
    for (int half = WARP / 2; half; half /= 2) {
        const Compensated other = {from_lane_above(sum.sum, half), from_lane_above(sum.rest, half),
                                   from_lane_above(sum.beyond, half), from_lane_above(sum.inexact, half)};
        sum.join(other);
    }
    return sum;
}
DEVICE void fold(Digits &sum) {
    for (int half = WARP / 2; half; half /= 2) {
        for (int i = 0; i < DIGITS; i++) sum.digit[i] += from_lane_above(sum.digit[i], half);
        sum.beyond = add_rn(sum.beyond, from_lane_above(sum.beyond, half));
    }
}

// A warp's sum of terms [begin, end), in lane 0.
template <class Terms> DEVICE void warp_digits(const Terms &terms, i64 begin, i64 end, Digits &digits) {
    add_to_digits(digits, terms, begin + thread_index() % WARP, end, WARP);
    fold(digits);
}
// The same: into `digits` if a compensated sum is not exact.
// NOTE: all lanes must call it; every lane gets the same answer whether digits were needed.
template <class Terms>
DEVICE bool warp_sum(const Terms &terms, i64 begin, i64 end, Compensated &sum, Digits &digits) {
    add_terms(sum, terms, begin + thread_index() % WARP, end, WARP);
    sum = fold(sum);
    if (!from_lane(sum.inexact, 0)) return false;
    warp_digits(terms, begin, end, digits);
    return true;
}

#endif
