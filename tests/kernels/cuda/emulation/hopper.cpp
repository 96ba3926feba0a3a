// Boxes, barriers and products of warpgroups (hopper.h). A box is copied when nothing else can go on, and its
// place is poison until then; products are made when a thread waits for them, and their sums are poison until
// then.

#include "fibers.h"
#include "tc16_rule.h"
#include <vector>

namespace {

struct Box {
    TensorMap map;
    u8 *to;
    Barrier *barrier;
    int x, y, z;
    size_t bytes() const { return (size_t)map.box[1] * BOX_ROW; }
};
struct Product {
    float *d;
    int columns;
    const u8 *a, *b;
    bool rows_are_k, add;
    int group;
    bool of(const Product &other) const {
        return columns == other.columns && a == other.a && b == other.b && rows_are_k == other.rows_are_k &&
               add == other.add;
    }
};
struct Worker { // a thread
    std::vector<Product> pending;
    std::vector<float> sums;
    size_t made;
    int groups; // that have ended
    bool begun;
};

std::vector<Box> boxes;
std::vector<Product> of_warpgroup[MAX_THREADS / WARPGROUP]; // since the block began
Worker workers[MAX_THREADS];
bool last_first;

// See hopper.cuh: the pieces of a row are exchanged by its number.
u8 *swizzled(const u8 *p) {
    const u64 at = (u64)p;
    return (u8 *)(at ^ (at >> 7 & 7) << 4);
}
uint16_t number_at(const u8 *p) {
    uint16_t x;
    memcpy(&x, swizzled(p), sizeof x);
    return x;
}

void look(Barrier *b) {
    if (b->missing < 0) emulated_fail("more arrivals at a barrier than it waits for");
    if (b->missing || b->bytes) return;
    b->phase ^= 1, b->missing = b->arrivals;
    emulated_moved();
}

float multiplied(const Product &p, int row, int column, float c) {
    const int panel = column / BOX_WIDTH * PANEL + column % BOX_WIDTH * 2; // where rows are k
    const u8 *a = p.a + row * BOX_ROW, *b = p.b + (p.rows_are_k ? panel : column * BOX_ROW);
    const int step = p.rows_are_k ? BOX_ROW : 2;
    tc16_sum sum;
    tc16_begin(&sum);
    for (int k = 0; k < TC16_TERMS; k++)
        tc16_add_product(&sum, number_at(a + 2 * k), number_at(b + k * step));
    const uint32_t bits = tc16_end(&sum, p.add ? (uint32_t)bits_of(c) : 0);
    return f32_of(bits == TC16_NAN ? 0x7FFFFFFF : (int32_t)bits);
}

} // namespace

void emulated_begin_block(bool backwards) {
    boxes.clear();
    for (auto &products : of_warpgroup) products.clear();
    for (auto &worker : workers)
        worker.pending.clear(), worker.made = 0, worker.groups = 0, worker.begun = false;
    last_first = backwards;
}

bool emulated_poll(Barrier *b, int odd) {
    if (b->begun != 1) emulated_fail("a barrier that has not begun");
    if (b->phase != odd || b->begun != 1) return true;
    emulated_leave_polled();
    return b->phase != odd;
}
void emulated_arrival(Barrier *b, int bytes) {
    b->missing--, b->bytes += bytes;
    emulated_moved();
    look(b);
}

void emulated_copy_box(const TensorMap &map, void *to, Barrier *b, int x, int y, int z) {
    if ((u64)to % 1024) emulated_fail("a box is not aligned to 1024 bytes");
    if (((u64)map.start | (u64)map.step[0] | (u64)map.step[1]) % 16)
        emulated_fail("a tensor of boxes is not aligned to 16 bytes");
    const Box box = {map, (u8 *)to, b, x, y, z};
    memset(to, 0xFF, box.bytes());
    boxes.push_back(box);
}
bool emulated_copy_one_box() {
    if (boxes.empty()) return false;
    const size_t which = last_first ? boxes.size() - 1 : 0;
    const Box box = boxes[which];
    boxes.erase(boxes.begin() + (long)which);
    const TensorMap &map = box.map;
    for (int row = 0; row < map.box[1]; row++)
        for (int i = 0; i < BOX_WIDTH; i++) {
            const i64 x = box.x + i, y = box.y + row, z = box.z;
            const bool there =
                x >= 0 && x < map.size[0] && y >= 0 && y < map.size[1] && z >= 0 && z < map.size[2];
            uint16_t value = 0;
            if (there) memcpy(&value, map.start + z * map.step[1] + y * map.step[0] + x * 2, sizeof value);
            memcpy(swizzled(box.to + row * BOX_ROW + 2 * i), &value, sizeof value);
        }
    box.barrier->bytes -= (int)box.bytes();
    emulated_moved();
    look(box.barrier);
    return true;
}

void emulated_products_begin() {
    workers[emulation.thread].begun = true;
}
void emulated_multiply(float *d, int columns, const void *a, const void *b, bool rows_are_k, bool add) {
    Worker &own = workers[emulation.thread];
    const Product product = {d, columns, (const u8 *)a, (const u8 *)b, rows_are_k, add, own.groups};
    auto &all = of_warpgroup[emulation.thread / WARPGROUP];
    if (!own.begun) emulated_fail("products have not begun");
    if (own.made == all.size()) all.push_back(product);
    if (!all[own.made++].of(product)) emulated_fail("the threads of a warpgroup multiply different matrices");
    if (own.pending.empty()) {
        own.sums.assign(d, d + columns / 2);
        memset(d, 0xFF, (size_t)columns / 2 * sizeof *d);
    } else if (own.pending[0].d != d) {
        emulated_fail("products of one group have different sums");
    }
    own.pending.push_back(product);
}
void emulated_products_end_group() {
    workers[emulation.thread].groups++;
}
void emulated_products_wait_but(int groups_left, float *d) {
    Worker &own = workers[emulation.thread];
    const int warp = emulation.thread % WARPGROUP / 32, lane = emulation.thread % 32;
    if (own.pending.empty() || own.pending[0].d != d) return emulated_fail("no products of these sums");
    size_t left = 0;
    for (const Product &p : own.pending) {
        if (p.group >= own.groups - groups_left) {
            own.pending[left++] = p;
            continue;
        }
        for (int j = 0; j < p.columns / 8; j++)
            for (int v = 0; v < 4; v++) {
                float &sum = own.sums[(size_t)(4 * j + v)];
                sum = multiplied(p, 16 * warp + lane / 4 + 8 * (v / 2), 8 * j + 2 * (lane % 4) + v % 2, sum);
            }
    }
    own.pending.resize(left);
    own.begun = false;
    if (!left) memcpy(d, own.sums.data(), own.sums.size() * sizeof *d);
}
bool emulated_has_products() {
    return !workers[emulation.thread].pending.empty();
}
