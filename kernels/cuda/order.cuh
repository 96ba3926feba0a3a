// The operations of a reduction, and the last part of its order: the fold of a block's 32 lanes.

#ifndef REPOPS_ORDER_CUH
#define REPOPS_ORDER_CUH

#include "common.cuh"

constexpr int BLOCK = 4096, LANES = 32;

struct Sum {
    static DEVICE_MEMBER float identity(float) { return minus_zero(); }
    static DEVICE_MEMBER i64 identity(i64) { return 0; }
    static DEVICE_MEMBER float of(float a, float b) { return add_rn(a, b); }
    static DEVICE_MEMBER i64 of(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
};
struct Largest {
    static DEVICE_MEMBER float identity(float) { return f32_of((int)0xFF800000u); }
    static DEVICE_MEMBER i64 identity(i64) { return I64_MIN; }
    static DEVICE_MEMBER float of(float a, float b) { return larger(a, b); }
    static DEVICE_MEMBER i64 of(i64 a, i64 b) { return larger(a, b); }
};

// Give lane j of the warp op(lane[j], lane[j + half]); only lane 0's final value is meaningful.
template <class Op, class T> DEVICE T fold(T value) {
#pragma unroll
    for (int half = LANES / 2; half; half /= 2) value = Op::of(value, from_lane_above(value, half));
    return value;
}

#endif
