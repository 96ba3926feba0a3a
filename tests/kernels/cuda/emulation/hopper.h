// kernels/cuda/hopper.cuh on the host: see device.h. What the machine does later, it does here as late as a
// kernel's waits allow, and whoever does not wait finds poison.

#ifndef REPOPS_HOPPER_CUH
#define REPOPS_HOPPER_CUH

#include "common.cuh"

constexpr int WARPGROUP = 128, BOX_WIDTH = 64, BOX_ROW = 128;
constexpr int PANEL = 64 * BOX_ROW;

struct alignas(64) TensorMap { // as tests/kernels/cuda/emulation/__init__.py packs it
    const u8 *start;
    i64 size[3], step[2]; // in elements, in bytes
    i64 box[2];           // columns and rows
    i64 unused[8];
};
struct Barrier {
    int8_t arrivals, missing, phase, begun;
    int bytes; // that are under way
};

void *emulated_shared_large(size_t bytes);
bool emulated_poll(Barrier *b, int odd);
void emulated_arrival(Barrier *b, int bytes);
void emulated_copy_box(const TensorMap &map, void *to, Barrier *b, int x, int y, int z);
void emulated_multiply(float *d, int columns, const void *a, const void *b, bool rows_are_k, bool add);
void emulated_products_begin();
void emulated_products_end_group();
void emulated_products_wait_but(int groups_left, float *d);

#define SHARED_LARGE(Type, name) Type &name = *(Type *)emulated_shared_large(sizeof(Type))

DEVICE void barrier_begin(Barrier *b, int arrivals) {
    *b = {(int8_t)arrivals, (int8_t)arrivals, 0, 1, 0};
}
DEVICE void barriers_have_begun() {}
DEVICE void barrier_arrive(Barrier *b) {
    emulated_arrival(b, 0);
}
DEVICE void barrier_arrive_and_expect(Barrier *b, int bytes) {
    emulated_arrival(b, bytes);
}
DEVICE void barrier_wait(Barrier *b, int odd) {
    while (!emulated_poll(b, odd)) {
    }
}
DEVICE void copy_box(const TensorMap &map, void *to, Barrier *b, int x, int y, int z) {
    emulated_copy_box(map, to, b, x, y, z);
}
template <int REGISTERS> void take_registers() {}
template <int REGISTERS> void leave_registers() {}
DEVICE void products_begin() {
    emulated_products_begin();
}
DEVICE void products_end_group() {
    emulated_products_end_group();
}
template <int SUMS> void products_wait_but_one(float (&d)[SUMS]) {
    emulated_products_wait_but(1, d);
}
template <int SUMS> void products_wait(float (&d)[SUMS]) {
    emulated_products_wait_but(0, d);
}
template <bool ROWS_ARE_K, int SUMS>
void multiply_64x16(float (&d)[SUMS], const void *a, const void *b, bool add) {
    emulated_multiply(d, 2 * SUMS, a, b, ROWS_ARE_K, add);
}

#endif
