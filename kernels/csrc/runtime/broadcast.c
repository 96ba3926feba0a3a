#include "broadcast.h"

broadcast broadcast_plan(const signature *sig) {
    const tensor *out = output(sig, 0);
    broadcast b = {.rank = 0, .operands = (int)sig->inputs};
    int64_t step[MAX_OPERANDS] = {1, 1, 1};
    int64_t merged[MAX_RANK], strides[MAX_OPERANDS][MAX_RANK]; // innermost first

    for (int64_t d = 0; d < out->rank; d++) {
        int64_t size = out->dim[out->rank - 1 - d];
        int64_t stride[MAX_OPERANDS];
        int joins = b.rank > 0;
        for (int o = 0; o < b.operands; o++) {
            const tensor *t = input(sig, o);
            int64_t own = d < t->rank ? t->dim[t->rank - 1 - d] : 1;
            stride[o] = own == 1 ? 0 : step[o];
            step[o] *= own;
            if (joins) joins = stride[o] == strides[o][b.rank - 1] * merged[b.rank - 1];
        }
        if (size == 1) continue;
        if (joins) {
            merged[b.rank - 1] *= size;
            continue;
        }
        merged[b.rank] = size;
        for (int o = 0; o < b.operands; o++) strides[o][b.rank] = stride[o];
        b.rank++;
    }
    for (int64_t d = 0; d < b.rank; d++) {
        b.dim[d] = merged[b.rank - 1 - d];
        for (int o = 0; o < b.operands; o++) b.stride[o][d] = strides[o][b.rank - 1 - d];
    }
    if (b.rank == 0) {
        b.rank = 1;
        b.dim[0] = 1;
        for (int o = 0; o < b.operands; o++) b.stride[o][0] = 1;
    }
    return b;
}

void broadcast_walk(const broadcast *b, int64_t begin, int64_t end, broadcast_row *row, void *context) {
    const int64_t inner = b->dim[b->rank - 1];
    for (int64_t at = begin; at < end;) {
        int64_t column = at % inner, rest = at / inner;
        int64_t operand[MAX_OPERANDS];
        for (int o = 0; o < b->operands; o++) operand[o] = column * b->stride[o][b->rank - 1];
        for (int64_t d = b->rank - 2; d >= 0; d--) {
            int64_t index = rest % b->dim[d];
            rest /= b->dim[d];
            for (int o = 0; o < b->operands; o++) operand[o] += index * b->stride[o][d];
        }
        int64_t count = min_i64(inner - column, end - at);
        row(context, count, at, operand);
        at += count;
    }
}
