// The common parts of kernels of fused expressions; repops/cuda/fusion.py writes the rest.

#ifndef REPOPS_FUSED_CUH
#define REPOPS_FUSED_CUH

#include "operators.cuh"
#include "order.cuh"

// A reduction of a row, by a warp, or by several, each of which has some of the row's blocks.
template <class Op, class T> struct Reducer {
    T lane;
    DEVICE_MEMBER void begin() { lane = Op::identity(T()); }
    DEVICE_MEMBER void take(T x) { lane = Op::of(lane, x); }
    DEVICE_MEMBER void end_block(T &result) {
        const T whole = fold<Op>(lane);
        if (thread_index() % WARP == 0) result = whole;
        begin();
    }
    // The results of the blocks are the elements of the next level.
    DEVICE_MEMBER T of_blocks(const T *results, int blocks) const {
        T own = Op::identity(T());
        for (int i = thread_index() % WARP; i < blocks; i += LANES) own = Op::of(own, results[i]);
        return from_lane(fold<Op>(own), 0);
    }
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
