// What sm_90a adds to device.cuh: boxes of a tensor that are copied as a whole, barriers that wait for them,
// and products of a warpgroup (128 threads that begin at a multiple of 128).
// tests/kernels/cuda/emulation/hopper.h is the other implementation of this file.
//
// In shared memory a matrix is in rows of 128 bytes, 64 numbers of bf16, and begins at a multiple of 1024
// bytes; the eight pieces of 16 bytes of row r are exchanged: piece i is at place i ^ r % 8.

#ifndef REPOPS_HOPPER_CUH
#define REPOPS_HOPPER_CUH

#include "common.cuh"

constexpr int WARPGROUP = 128, BOX_WIDTH = 64, BOX_ROW = 128;
constexpr int PANEL = 64 * BOX_ROW; // bytes of a box of 64 rows

// A tensor of bf16 of three dimensions, and the size of its boxes; the driver makes it (repops.cuda.device).
struct alignas(64) TensorMap {
    u64 opaque_words[16];
};
// A count of arrivals, and of bytes that are under way. Its phases are even and odd in turns, from even on.
struct Barrier {
    u64 state;
};

#define SHARED_LARGE(Type, name)                                                                             \
    extern __shared__ __align__(1024) u8 name##_bytes[];                                                     \
    Type &name = *(Type *)name##_bytes

DEVICE u32 place_in_shared(const void *p) {
    return (u32)__cvta_generic_to_shared(p);
}

// One thread prepares barriers, then all of the block meet at sync_block.
DEVICE void barrier_begin(Barrier *b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(place_in_shared(b)), "r"(arrivals));
}
DEVICE void barriers_have_begun() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
DEVICE void barrier_arrive(Barrier *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(place_in_shared(b)) : "memory");
}
// Arrive, and let the phase wait for so many bytes.
DEVICE void barrier_arrive_and_expect(Barrier *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(place_in_shared(b)),
                 "r"(bytes)
                 : "memory");
}
// Wait for the end of the current phase if it is odd or even, as `odd` says; else there is nothing to wait
// for.
DEVICE void barrier_wait(Barrier *b, int odd) {
    asm volatile("{\n .reg .pred p;\n again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 " @p bra done;\n bra again;\n done:\n}" ::"r"(place_in_shared(b)),
                 "r"(odd)
                 : "memory");
}

// One thread copies a box: the numbers from (x, y, z) on, those outside the tensor as zeros.
DEVICE void copy_box(const TensorMap &map, void *to, Barrier *b, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, "
        "{%3, %4, %5}], [%2];" ::"r"(place_in_shared(to)),
        "l"(&map), "r"(place_in_shared(b)), "r"(x), "r"(y), "r"(z)
        : "memory");
}

// All threads of a warpgroup change the number of their registers.
template <int REGISTERS> DEVICE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> DEVICE void leave_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Products of a warpgroup are made later: from products_begin until they have been waited for, their factors
// may not be touched, nor their sums before products_wait.
DEVICE void products_begin() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Make a group of the products since the last one; wait for all groups but the last.
DEVICE void products_end_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int SUMS> DEVICE void products_wait_but_one(float (&)[SUMS]) {
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}
#define PRODUCTS_WAIT "wgmma.wait_group.sync.aligned 0;"

// A matrix in shared memory: its first 16 k; 8 rows are 1024 bytes after the 8 before them, 64 columns of a
// matrix whose rows are k PANEL bytes after those before them.
DEVICE u64 matrix_of(const void *p) {
    return (u64)((place_in_shared(p) & 0x3FFFF) >> 4) | (u64)(PANEL >> 4) << 16 | (u64)(1024 >> 4) << 32 |
           1ull << 62;
}

#define SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SUMS_32(i)                                                                                           \
    SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12), SUMS_4(i + 16), SUMS_4(i + 20), SUMS_4(i + 24), \
        SUMS_4(i + 28)

// d = a b + d, or a b + 0 if not `add`: a block of the mode tc16 for each element, of a [64 x 16] and b [16 x
// N]. In memory the rows of a are its own; those of b are k if ROWS_ARE_K, else its columns. Of a warp w,
// lane i has, in d[4 j + v], row 16 w + i / 4 + 8 (v / 2) and column 8 j + 2 (i % 4) + v % 2.
template <bool ROWS_ARE_K>
DEVICE void multiply_64x16(float (&d)[64], const void *a, const void *b, bool add) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %66, 0;\n"
        " wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
        "%10, "
        "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
        "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "
        "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, %67;\n}"
        : SUMS_32(0), SUMS_32(32)
        : "l"(matrix_of(a)), "l"(matrix_of(b)), "r"((int)add), "n"((int)ROWS_ARE_K));
}
template <bool ROWS_ARE_K>
DEVICE void multiply_64x16(float (&d)[96], const void *a, const void *b, bool add) {
    asm volatile(
        "{\n .reg .pred p;\n setp.ne.b32 p, %98, 0;\n"
        " wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
        "%10, "
        "%11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, "
        "%31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "
        "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, "
        "%71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, "
        "%91, %92, %93, %94, %95}, %96, %97, p, 1, 1, 0, %99;\n}"
        : SUMS_32(0), SUMS_32(32), SUMS_32(64)
        : "l"(matrix_of(a)), "l"(matrix_of(b)), "r"((int)add), "n"((int)ROWS_ARE_K));
}

// NOTE: the sums are named, or the compiler might use them before it has waited.
DEVICE void products_wait(float (&d)[64]) {
    asm volatile(PRODUCTS_WAIT : SUMS_32(0), SUMS_32(32)::"memory");
}
DEVICE void products_wait(float (&d)[96]) {
    asm volatile(PRODUCTS_WAIT : SUMS_32(0), SUMS_32(32), SUMS_32(64)::"memory");
}

#endif
