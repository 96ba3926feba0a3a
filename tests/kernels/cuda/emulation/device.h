// kernels/cuda/device.cuh on the host: the threads of a block are fibers of one thread, so barriers and
// exchanges between lanes are real; blocks run one after the other. Behaviour that is undefined on a GPU is
// an error here.

#ifndef REPOPS_DEVICE_CUH
#define REPOPS_DEVICE_CUH

#include <cmath>
#include <cstdint>
#include <cstring>

typedef long long i64;
typedef unsigned long long u64;
typedef unsigned int u32;
typedef unsigned char u8;

struct Emulation { // of the current thread
    int thread, threads;
    i64 block, blocks;
};
extern Emulation emulation;

typedef void emulated_body(const void *params);
void emulated_sync_block();
void emulated_sync_warp();
void *emulated_shared(size_t bytes);
void emulated_exchange(u64 value, u64 of_lane[32]);
void emulated_copy_later(void *to, const void *from, int bytes);
void emulated_copies_end_group();
void emulated_copies_wait_but(int groups_left);
void emulated_copies_wait();
void emulated_fail(const char *why);

#define KERNEL(name, Params, threads_, blocks_)                                                              \
    static void name##_body(const Params &p);                                                                \
    extern "C" const int name##_bytes = sizeof(Params), name##_threads = threads_;                           \
    extern "C" void name(const void *params) {                                                               \
        Params aligned_params;                                                                               \
        memcpy(&aligned_params, params, sizeof aligned_params);                                              \
        name##_body(aligned_params);                                                                         \
    }                                                                                                        \
    static void name##_body(const Params &p)
#define SHARED(Type, name) Type &name = *(Type *)emulated_shared(sizeof(Type))
#define DEVICE static inline
#define DEVICE_MEMBER inline
#define DEVICE_CALL inline
#define __device__
#define __forceinline__ inline

DEVICE int thread_index() {
    return emulation.thread;
}
DEVICE i64 block_index() {
    return emulation.block;
}
DEVICE int block_threads() {
    return emulation.threads;
}
DEVICE i64 grid_blocks() {
    return emulation.blocks;
}

DEVICE void sync_block() {
    emulated_sync_block();
}
DEVICE void sync_warp() {
    emulated_sync_warp();
}

template <class T> T from_lane(T value, int lane) {
    u64 own = 0, all[32];
    memcpy(&own, &value, sizeof value);
    emulated_exchange(own, all);
    memcpy(&value, &all[lane & 31], sizeof value);
    return value;
}
template <class T> T from_lane_above(T value, int distance) {
    const int lane = emulation.thread % 32;
    return from_lane(value, lane + distance < 32 ? lane + distance : lane);
}
DEVICE u32 lanes_where(bool condition) {
    u64 all[32];
    u32 mask = 0;
    emulated_exchange(condition, all);
    for (int i = 0; i < 32; i++) mask |= (u32)all[i] << i;
    return mask;
}

DEVICE void atomic_increment(u32 *counter) {
    ++*counter;
}
DEVICE void atomic_add(u64 *total, u64 x) {
    *total += x;
}
DEVICE void atomic_max(u64 *largest, u64 x) {
    if (x > *largest) *largest = x;
}

DEVICE float add_rn(float a, float b) {
    return a + b;
}
DEVICE float sub_rn(float a, float b) {
    return a - b;
}
DEVICE float mul_rn(float a, float b) {
    return a * b;
}
DEVICE float div_rn(float a, float b) {
    return a / b;
}
DEVICE float sqrt_rn(float a) {
    return sqrtf(a);
}
DEVICE float fma_rn(float a, float b, float c) {
    return fmaf(a, b, c);
}
DEVICE double add_rn(double a, double b) {
    return a + b;
}
DEVICE double sub_rn(double a, double b) {
    return a - b;
}
DEVICE double mul_rn(double a, double b) {
    return a * b;
}
DEVICE double fma_rn(double a, double b, double c) {
    return fma(a, b, c);
}
DEVICE double sqrt_rn(double a) {
    return sqrt(a);
}
DEVICE void multiply_8x8x4(double (&c)[2], double a, double b) {
    u64 own_a, own_b, all_a[32], all_b[32];
    memcpy(&own_a, &a, sizeof a);
    memcpy(&own_b, &b, sizeof b);
    emulated_exchange(own_a, all_a);
    emulated_exchange(own_b, all_b);
    const int lane = emulation.thread % 32;
    for (int j = 0; j < 2; j++)
        for (int k = 0; k < 4; k++) {
            double x, y;
            memcpy(&x, &all_a[lane / 4 * 4 + k], sizeof x);
            memcpy(&y, &all_b[(2 * (lane % 4) + j) * 4 + k], sizeof y);
            c[j] = fma(x, y, c[j]);
        }
}
// Fragments as in the PTX ISA, "Matrix Fragments for mma.m16n8k32": from the matrices' own indices to lane,
// register and byte. The hardware wraps around where a sum does not fit, which no kernel may rely on.
DEVICE void multiply_16x8x32(int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    const auto words = [](u32 low, u32 high) { return (u64)high << 32 | low; };
    u64 all_a[2][32], all_b[32];
    emulated_exchange(words(a[0], a[1]), all_a[0]); // k below 16: rows below 8, rows from 8 on
    emulated_exchange(words(a[2], a[3]), all_a[1]);
    emulated_exchange(words(b[0], b[1]), all_b);
    const int lane = emulation.thread % 32, group = lane / 4, in_group = lane % 4;
    for (int v = 0; v < 4; v++) {
        const int row = group + (v < 2 ? 0 : 8), column = 2 * in_group + (v & 1);
        i64 sum = c[v];
        for (int k = 0; k < 32; k++) {
            const int holder_of_a = row % 8 * 4 + k % 16 / 4, holder_of_b = column * 4 + k % 16 / 4;
            const int x = (int8_t)(all_a[k / 16][holder_of_a] >> (row < 8 ? 0 : 32) >> 8 * (k % 4));
            const int y = (int8_t)(all_b[holder_of_b] >> 32 * (k / 16) >> 8 * (k % 4));
            sum += x * y;
        }
        if (sum != (int)sum) emulated_fail("a sum of products of bytes does not fit in 32 bits");
        c[v] = (int)sum;
    }
}
#include "tc16_fragments.cuh"
DEVICE void multiply_16x8x16(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    multiply_by_the_rule(c, a, b);
}
// A lane reads two words of each matrix's rows itself, when all lanes have said where they are.
template <bool TURNED> void load_8x8x4(u32 (&words)[4], const void *row) {
    u64 rows[32];
    if ((uintptr_t)row % 16) emulated_fail("a row of a matrix is not aligned");
    emulated_exchange((u64)row, rows);
    const int lane = emulation.thread % 32, group = lane / 4, first = 2 * (lane % 4);
    for (int j = 0; j < 4; j++) {
        uint16_t pair[2];
        for (int v = 0; v < 2; v++) {
            const uint16_t *from = (const uint16_t *)rows[8 * j + (TURNED ? first + v : group)];
            pair[v] = from[TURNED ? group : first + v];
        }
        memcpy(&words[j], pair, sizeof pair);
    }
}
DEVICE float f32_from_i64(i64 x) {
    return (float)x;
}
DEVICE u32 high_product(u32 a, u32 b) {
    return (u32)((u64)a * b >> 32);
}
DEVICE u32 rotate_right(u32 x, int by) {
    return x >> (by & 31) | x << (-by & 31);
}
DEVICE u32 pick_bytes(u32 low, u32 high, u32 selector) {
    const u64 both = (u64)high << 32 | low;
    u32 out = 0;
    for (int i = 0; i < 4; i++) out |= (u32)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return out;
}
DEVICE int count_ones(u32 x) {
    return __builtin_popcount(x);
}

DEVICE i64 opaque(i64 x) {
    return x;
}

template <int BYTES> void copy_async(void *shared, const void *global) {
    emulated_copy_later(shared, global, BYTES);
}
DEVICE void copy_async_if(bool wanted, void *shared, const void *global) {
    if (wanted) emulated_copy_later(shared, global, 4);
}
DEVICE void copies_wait() {
    emulated_copies_wait();
}
DEVICE void copies_end_group() {
    emulated_copies_end_group();
}
template <int LEFT> void copies_wait_but() {
    emulated_copies_wait_but(LEFT);
}

#include "hopper.h"

#endif
