// Polynomials of binary64 lanes, in short: a template for the headers of vectors, which say what LANES_F64 is
// and define ALL and FMA.

#ifndef REPOPS_POLYNOMIAL_H
#define REPOPS_POLYNOMIAL_H

#define POLYNOMIAL(x, square, c) polynomial(x, square, c, (int)(sizeof(c) / sizeof *(c)))

// Coefficients ascend. Pairs are evaluated first, which halves the chain of dependent operations.
FN LANES_F64 polynomial(LANES_F64 x, LANES_F64 square, const double *c, int count) {
    int i = (count - 1) & ~1;
    LANES_F64 p = i + 1 < count ? FMA(ALL(c[i + 1]), x, ALL(c[i])) : ALL(c[i]);
#pragma GCC unroll 8
    for (i -= 2; i >= 0; i -= 2) p = FMA(p, square, FMA(ALL(c[i + 1]), x, ALL(c[i])));
    return p;
}

#endif
