// The common parts of kernels of fused expressions; repops/cuda/fusion.py writes the rest.

#ifndef REPOPS_FUSED_CUH
#define REPOPS_FUSED_CUH

#include "operators.cuh"
#include "order.cuh"

// A reduction of a row that its warp processes in blocks: `lane` is this lane of the current block, `blocks`
// this lane of the next level, whose elements are the results of the blocks.
template <class Op, class T> struct Reducer {
    T lane, blocks;
    DEVICE_MEMBER void begin() { lane = blocks = Op::identity(T()); }
    DEVICE_MEMBER void take(T x) { lane = Op::of(lane, x); }
    DEVICE_MEMBER void end_block(i64 number) {
        const T result = from_lane(fold<Op>(lane), 0);
        if (number % LANES == thread_index() % WARP) blocks = Op::of(blocks, result);
        lane = Op::identity(T());
    }
    DEVICE_MEMBER T of_blocks() const { return from_lane(fold<Op>(blocks), 0); }
    DEVICE_MEMBER T of_one_block() const { return from_lane(fold<Op>(lane), 0); }
};

// The offsets of one row (or element) of each operand.
template <int OPERANDS> struct Rows {
    i64 rank;
    Divisor dim[MAX_RANK];
    i64 stride[OPERANDS][MAX_RANK];
};
template <int OPERANDS> DEVICE void offsets_of(const Rows<OPERANDS> &rows, i64 index, i64 (&at)[OPERANDS]) {
#pragma unroll
    for (int o = 0; o < OPERANDS; o++) at[o] = 0;
#pragma unroll 1
    for (int d = (int)rows.rank - 1; d >= 0; d--) {
        const i64 rest = d ? quotient(index, rows.dim[d]) : 0, place = index - rest * rows.dim[d].d;
#pragma unroll
        for (int o = 0; o < OPERANDS; o++) at[o] += place * rows.stride[o][d];
        index = rest;
    }
}

#endif
