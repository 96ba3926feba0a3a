// Broadcasting: walks the operands of an elementwise operator in the order of the output.

#ifndef REPOPS_BROADCAST_H
#define REPOPS_BROADCAST_H

#include "repops.h"

#define MAX_OPERANDS 3

// The output's dimensions, merged where possible. stride[o][d] is in elements, 0 where operand o is
// broadcast. INVARIANT: along the last dimension every stride is 0 or 1.
typedef struct {
    int64_t rank;
    int64_t dim[MAX_RANK];
    int64_t stride[MAX_OPERANDS][MAX_RANK];
    int operands;
} broadcast;

broadcast broadcast_plan(const signature *sig);

// Call `row` for every run of output elements in [begin, end) along the last dimension: `count` output
// elements from `out` on, and each operand's first element.
typedef void broadcast_row(void *context, int64_t count, int64_t out, const int64_t *operand);
void broadcast_walk(const broadcast *b, int64_t begin, int64_t end, broadcast_row *row, void *context);

#endif
