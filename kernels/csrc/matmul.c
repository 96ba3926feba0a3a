// mm and bmm: the contraction of gemm.h over plain row-major operands.

#include "gemm.h"
#include "vector.h"

#define FEW 16 // columns, of which a panel would hold mostly none

static int product_of(call c, int64_t batch) {
    const tensor *a = input(c.sig, 0), *b = input(c.sig, 1);
    const int64_t m = a->dim[a->rank - 2], k = a->dim[a->rank - 1], n = b->dim[b->rank - 1];
    // Turned, C transposed is B transposed times A transposed.
    const int turn = n <= FEW && m != 1 && (m > n || n == 1);
    if (m == 1 || n == 1) {
        vector_product(c.data[turn], c.data[!turn], turn, batch, k, turn ? m : n, c.data[2], c.threads,
                       c.isa);
        return 0;
    }
    const gemm g = {
        .batch = batch,
        .rows = turn ? n : m,
        .columns = {{1, 1, turn ? m : n}},
        .taps = {{1, 1, k}},
        .number = {0, {0, 0, 1}},
        .a = c.data[turn],
        .a_batch = turn ? k * n : m * k,
        .a_row = turn ? 1 : k,
        .a_tap = {0, {0, 0, turn ? n : 1}},
        .b = c.data[!turn],
        .b_batch = turn ? m * k : k * n,
        .b_column = {0, {0, 0, turn ? k : 1}},
        .b_tap = {0, {0, 0, turn ? 1 : n}},
        .c = c.data[2],
        .c_batch = m * n,
        .c_row = turn ? 1 : n,
        .c_column = {0, {0, 0, turn ? n : 1}},
    };
    return gemm_run(&g, c.threads, c.isa);
}

OPERATOR(mm) {
    return product_of(CALL, 1);
}

OPERATOR(bmm) {
    return product_of(CALL, input(sig, 0)->dim[0]);
}
