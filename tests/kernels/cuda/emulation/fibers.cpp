// Runs the threads of emulated blocks (device.h). x86-64 only: fibers are switched by hand, a thousand times
// faster than by the C library.

#include "fibers.h"
#include <cstdlib>
#include <vector>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

Emulation emulation;

namespace {

constexpr size_t STACK = 128 << 10, SHARED_LIMIT = 48 << 10, SHARED_LARGE_LIMIT = 227 << 10;
constexpr int LANES = 32;
enum State { READY, AT_WARP, AT_BLOCK, POLLED, ENDED };

struct Copy {
    void *to;
    const void *from;
    int bytes, group;
};
struct Fiber {
    void *sp;
    State state;
    int exchanges, groups; // groups of copies that have ended
    std::vector<Copy> pending;
};

Fiber fibers[MAX_THREADS];
char *stacks;
void *scheduler;
emulated_body *body;
const void *params;
const char *failure;
char *shared_memory;
size_t launched_with; // bytes of shared memory
bool shared_taken[MAX_THREADS], all_is_poison, moved;
u64 slots[MAX_THREADS / LANES][2][LANES];

extern "C" void fiber_switch(void **save, void *to);
asm(R"(
.text
fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");

void leave(State state) {
    const int thread = emulation.thread;
    fibers[thread].state = state;
    fiber_switch(&fibers[thread].sp, scheduler);
}

void fail(const char *why) {
    if (!failure) failure = why;
}

void fiber_main() {
    body(params);
    if (!fibers[emulation.thread].pending.empty()) fail("a thread ended without waiting for its copies");
    if (emulated_has_products()) fail("a thread ended without waiting for its products");
    leave(ENDED);
}

void start(int thread) {
    void **top = (void **)(stacks + (thread + 1) * STACK) - 2;
    *top = (void *)fiber_main; // popped by `ret`: the stack is then as after a call
    for (int i = 1; i <= 6; i++) top[-i] = nullptr;
    fibers[thread].sp = top - 6;
    fibers[thread].state = READY;
    fibers[thread].exchanges = fibers[thread].groups = 0;
    fibers[thread].pending.clear();
    shared_taken[thread] = false;
}

// Run the lanes of a warp until each has ended, or waits for the block or at a barrier of copies; false if
// they wait for one another.
bool run_warp(int first, int lanes, bool backwards) {
    for (;;) {
        int waiting = 0, polled = 0;
        for (int i = 0; i < lanes; i++) {
            const int thread = first + (backwards ? lanes - 1 - i : i);
            if (fibers[thread].state == READY) {
                emulation.thread = thread;
                fiber_switch(&scheduler, fibers[thread].sp);
            }
        }
        for (int i = 0; i < lanes; i++) {
            waiting += fibers[first + i].state == AT_WARP;
            polled += fibers[first + i].state == POLLED;
        }
        if (!waiting || polled) return true;
        if (waiting != LANES) return false; // SAFETY: a collective of fewer than all lanes is undefined
        for (int i = 0; i < lanes; i++) fibers[first + i].state = READY;
    }
}

void run_block(bool backwards) {
    const int threads = emulation.threads, warps = (threads + LANES - 1) / LANES;
    memset(shared_memory, 0xFF, SHARED_LIMIT); // NaN, and indices out of range
    all_is_poison = false;
    emulated_begin_block(backwards);
    for (int t = 0; t < threads; t++) start(t);
    for (;;) {
        int ended = 0, polled = 0;
        moved = false;
        for (int i = 0; i < warps; i++) {
            const int first = (backwards ? warps - 1 - i : i) * LANES;
            if (!run_warp(first, threads - first < LANES ? threads - first : LANES, backwards))
                return fail("lanes of a warp wait for lanes that do not come");
        }
        for (int t = 0; t < threads; t++) {
            ended += fibers[t].state == ENDED;
            polled += fibers[t].state == POLLED;
        }
        if (ended == threads) break;
        if (!polled && ended) return fail("threads wait at a barrier for threads that have ended");
        if (polled && !moved && !emulated_copy_one_box())
            return fail("threads wait at a barrier for copies that do not come");
        for (int t = 0; t < threads; t++)
            if (!polled || fibers[t].state == POLLED) fibers[t].state = READY;
    }
    if (emulated_copy_one_box()) fail("a block ended without waiting for a box");
}

} // namespace

void emulated_fail(const char *why) {
    fail(why);
}

void emulated_moved() {
    moved = true;
}
void emulated_leave_polled() {
    leave(POLLED);
}
void emulated_sync_block() {
    leave(AT_BLOCK);
}
void emulated_sync_warp() {
    leave(AT_WARP);
}

void *emulated_shared(size_t bytes) {
    if (bytes > SHARED_LIMIT) fail("more than 48 KB of shared memory");
    if (shared_taken[emulation.thread]) fail("two structs of shared memory in one kernel");
    shared_taken[emulation.thread] = true;
    return shared_memory;
}

void *emulated_shared_large(size_t bytes) {
    if (bytes > SHARED_LARGE_LIMIT) fail("more than 227 KB of shared memory");
    if (bytes > launched_with) fail("more shared memory than the launch gives");
    if (!all_is_poison) memset(shared_memory, 0xFF, SHARED_LARGE_LIMIT);
    all_is_poison = true;
    return shared_memory;
}

// NOTE: two sets of slots, because a lane may be at its next exchange while others still read from this one.
void emulated_exchange(u64 value, u64 of_lane[LANES]) {
    const int warp = emulation.thread / LANES, lane = emulation.thread % LANES;
    u64 *slot = slots[warp][fibers[emulation.thread].exchanges++ & 1];
    slot[lane] = value;
    leave(AT_WARP);
    memcpy(of_lane, slot, LANES * sizeof *slot);
}

// The copy is made when a kernel waits for it, and its place is poison from now on: a kernel that reads too
// early, or still reads what was there before, reads the poison.
void emulated_copy_later(void *to, const void *from, int bytes) {
    if (((uintptr_t)to | (uintptr_t)from) % bytes) fail("an asynchronous copy is not aligned");
    memset(to, 0xFF, (size_t)bytes);
    Fiber &fiber = fibers[emulation.thread];
    fiber.pending.push_back({to, from, bytes, fiber.groups});
}

void emulated_copies_end_group() {
    fibers[emulation.thread].groups++;
}
void emulated_copies_wait_but(int groups_left) {
    Fiber &fiber = fibers[emulation.thread];
    size_t left = 0;
    for (const Copy &copy : fiber.pending)
        if (copy.group < fiber.groups - groups_left)
            memcpy(copy.to, copy.from, (size_t)copy.bytes);
        else
            fiber.pending[left++] = copy;
    fiber.pending.resize(left);
}
void emulated_copies_wait() {
    emulated_copies_end_group();
    emulated_copies_wait_but(0);
}

// With AddressSanitizer, forbidden memory must not even be read.
extern "C" void emulate_forbid(const void *memory, size_t bytes, int forbidden) {
#ifdef __SANITIZE_ADDRESS__
    if (forbidden)
        __asan_poison_memory_region(memory, bytes);
    else
        __asan_unpoison_memory_region(memory, bytes);
#else
    (void)memory, (void)bytes, (void)forbidden;
#endif
}

// With `shared` bytes of shared memory besides what a kernel declares. Order: bit 0 runs blocks from the last
// to the first, bit 1 does the same for warps and lanes.
extern "C" const char *emulate_launch(emulated_body *kernel, const void *arguments, int threads, i64 blocks,
                                      int order, i64 shared) {
    if (!stacks) {
        stacks = (char *)malloc(STACK * MAX_THREADS);
        shared_memory = (char *)aligned_alloc(1024, SHARED_LARGE_LIMIT);
    }
    if (threads < 1 || threads > MAX_THREADS) return "a block has 1 to 1024 threads";
    if (blocks < 1 || blocks >= 1ll << 31) return "a grid has 1 to 2^31 - 1 blocks";
    body = kernel;
    params = arguments;
    launched_with = (size_t)shared;
    failure = nullptr;
    emulation.threads = threads;
    emulation.blocks = blocks;
    for (i64 i = 0; i < blocks && !failure; i++) {
        emulation.block = order & 1 ? blocks - 1 - i : i;
        run_block(order & 2);
    }
    return failure;
}
