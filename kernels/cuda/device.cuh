// The machine as kernels may use it, in a few functions of our own, so that the tests can run the same
// sources on the host: tests/kernels/cuda/emulation/device.h is the other implementation of this file.
//
// A kernel takes ONE struct by value, whose members are all 8 bytes wide: the caller packs it as a list of
// 64-bit words. Blocks and grids have one dimension. A kernel's shared memory is one struct of at most 48 KB.

#ifndef REPOPS_DEVICE_CUH
#define REPOPS_DEVICE_CUH

#define KERNEL(name, Params, threads, blocks)                                                                \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Params p)
#define SHARED(Type, name) __shared__ __align__(16) Type name
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define DEVICE_CALL __device__ __noinline__

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

DEVICE int thread_index() {
    return (int)threadIdx.x;
}
DEVICE i64 block_index() {
    return blockIdx.x;
}
DEVICE int block_threads() {
    return (int)blockDim.x;
}
DEVICE i64 grid_blocks() {
    return gridDim.x;
}

DEVICE void sync_block() {
    __syncthreads();
}
DEVICE void sync_warp() {
    __syncwarp();
}

// All 32 lanes of a warp take part in each of these functions.
template <class T> DEVICE T from_lane(T value, int lane) {
    return __shfl_sync(0xFFFFFFFFu, value, lane);
}
template <class T> DEVICE T from_lane_above(T value, int distance) {
    return __shfl_down_sync(0xFFFFFFFFu, value, distance);
}
DEVICE u32 lanes_where(bool condition) {
    return __ballot_sync(0xFFFFFFFFu, condition);
}

DEVICE void atomic_increment(u32 *counter) {
    atomicAdd(counter, 1u);
}
DEVICE void atomic_add(u64 *total, u64 x) {
    atomicAdd(total, x);
}
DEVICE void atomic_max(u64 *largest, u64 x) {
    atomicMax(largest, x);
}

// Arithmetic that is rounded as written, under any compiler options.
DEVICE float add_rn(float a, float b) {
    return __fadd_rn(a, b);
}
DEVICE float sub_rn(float a, float b) {
    return __fsub_rn(a, b);
}
DEVICE float mul_rn(float a, float b) {
    return __fmul_rn(a, b);
}
DEVICE float div_rn(float a, float b) {
    return __fdiv_rn(a, b);
}
DEVICE float sqrt_rn(float a) {
    return __fsqrt_rn(a);
}
DEVICE float fma_rn(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
DEVICE double add_rn(double a, double b) {
    return __dadd_rn(a, b);
}
DEVICE double sub_rn(double a, double b) {
    return __dsub_rn(a, b);
}
DEVICE double mul_rn(double a, double b) {
    return __dmul_rn(a, b);
}
DEVICE double fma_rn(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
DEVICE double sqrt_rn(double a) {
    return __dsqrt_rn(a);
}
// Add the product of two matrices of f64, [8 x 4] and [4 x 8], that the warp holds: lane i has a[i / 4][i %
// 4], b[i % 4][i / 4], and of the sum c[i / 4][2 (i % 4) + (0, 1)]. INVARIANT: in whatever order, a lane's
// sum is off by at most 4 units of 2^-52 of the sum of the absolute values, and exact if all its partial sums
// are multiples of some unit below 2^53 of it.
DEVICE void multiply_8x8x4(double (&c)[2], double a, double b) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+d"(c[0]), "+d"(c[1])
        : "d"(a), "d"(b));
}
// Add the product of two matrices of signed bytes, [16 x 32] and [32 x 8], that the warp holds, to one of
// 32-bit integers, exactly. Lane i has, from the lowest byte of a word on, four neighbouring k of a row or
// column: in a[v] those of row i / 4 + 8 (v % 2) from 4 (i % 4) + 16 (v / 2) on, in b[v] those of column i /
// 4 from 4 (i % 4) + 16 v on; c[v] is of row i / 4 + 8 (v / 2) and column 2 (i % 4) + v % 2. SAFETY: sums
// must fit in 32 bits.
DEVICE void multiply_16x8x32(int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#include "tc16_fragments.cuh"
// Add the product of two matrices of bf16, [16 x 16] and [16 x 8], that the warp holds, to one of f32: a
// block of the mode tc16 for each element (docs/opset.md, section 2). Lane i has, the lower half of a word
// first, two neighbouring k of a row or column: in a[v] those of row i / 4 + 8 (v % 2) from 2 (i % 4) + 8 (v
// / 2) on, in b[v] those of column i / 4 from 2 (i % 4) + 8 v on; c[v] is of row i / 4 + 8 (v / 2) and column
// 2 (i % 4) + v % 2. NOTE: tensor cores before sm_90 add by other rules (docs/tensor-cores.md). A NaN may
// have any payload.
#if __CUDA_ARCH__ < 900
DEVICE void multiply_16x8x16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    multiply_by_the_rule(c, a, b);
}
#else
DEVICE void multiply_16x8x16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
// Load four matrices of 8 rows of 8 numbers of 16 bits from shared memory. Lane 8 j + r has the address of
// row r of matrix j, which is aligned to 16 bytes. Lane i gets, in words[j], the numbers 2 (i % 4) and 2 (i %
// 4) + 1 of row i / 4 of matrix j; if TURNED, of its column i / 4.
template <bool TURNED> DEVICE void load_8x8x4(u32 (&words)[4], const void *row) {
    const u32 from = (u32)__cvta_generic_to_shared(row);
    if constexpr (TURNED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(from)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(from)
                     : "memory");
}
DEVICE float f32_from_i64(i64 x) {
    return __ll2float_rn(x);
}
DEVICE u32 high_product(u32 a, u32 b) {
    return __umulhi(a, b);
}
DEVICE u32 rotate_right(u32 x, int by) {
    return __funnelshift_r(x, x, by);
}
DEVICE u32 pick_bytes(u32 low, u32 high, u32 selector) {
    return __byte_perm(low, high, selector);
}
DEVICE int count_ones(u32 x) {
    return __popc(x);
}

// Return x, hidden from the compiler, so that expressions of it are computed where they are written.
DEVICE i64 opaque(i64 x) {
    asm volatile("" : "+l"(x));
    return x;
}

// Asynchronous copies from global to shared memory, of 4 or 16 aligned bytes. The data is visible to the
// copying thread after copies_wait or copies_wait_but, to the others after a barrier that follows it.
template <int BYTES> DEVICE void copy_async(void *shared, const void *global) {
    const u32 to = (u32)__cvta_generic_to_shared(shared);
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(BYTES)
                     : "memory");
}
// Copy 4 bytes, if `wanted`, without a branch.
DEVICE void copy_async_if(bool wanted, void *shared, const void *global) {
    const u32 to = (u32)__cvta_generic_to_shared(shared);
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.u32 p, %2, 0;\n @p cp.async.ca.shared.global [%0], [%1], 4;\n}" ::"r"(
            to),
        "l"(global), "r"((u32)wanted)
        : "memory");
}
DEVICE void copies_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}
// Make a group of this thread's copies since the last one; wait for all groups but the last `LEFT`.
DEVICE void copies_end_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int LEFT> DEVICE void copies_wait_but() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

#endif
