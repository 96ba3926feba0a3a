// Panels in binary64 for the mode exact, with what the bounds of a sum must know of rows and columns.

#ifndef REPOPS_EXACT_OPERANDS_H
#define REPOPS_EXACT_OPERANDS_H

#include "runtime/repops.h"

// Of each lane of a panel, that is a row of A or a column of B.
typedef struct {
    double *squares; // sum of the squares
    uint32_t *set;   // bits that are set in any element
    uint32_t *least; // the smallest magnitude of a nonzero element, as bits, less 1
} lane_facts;

// Make `count` lanes those of panels without elements.
void facts_clear(const lane_facts *facts, int64_t count);

// Add to these facts, and convert: to[k * to_stride + i] = from[k * from_stride + i], for i < 8 and k <
// steps. `from` may be read up to the eighth lane of the last step, whether these are lanes of the panel or
// not.
//
// With `exists`, an element is 0 if bit i of exists[k] >> shift is clear. With `nonfinite`, facts are of
// finite elements, and *nonfinite is set if there are others.
typedef struct {
    const float *from;
    int64_t from_stride, steps;
    const uint32_t *exists;
    int shift;
    int *nonfinite;
    double *to;
    int64_t to_stride;
} conversion;

#define LANES_CONVERTED 8

// `i`: where the facts of the first lane are.
extern void (*const exact_convert[ISA_COUNT])(const conversion *c, const lane_facts *facts, int64_t i);

// A bound of the Euclidean norm from above, and the norm in units of a power of two of which all elements are
// multiples.
typedef struct {
    double norm, in_units;
} lane_bound;

lane_bound bound_of(const lane_facts *facts, int64_t i);

#endif
