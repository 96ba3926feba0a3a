"""Controls: the emulation of boxes, barriers and warpgroups does what the machine does, and notices mistakes."""

import subprocess

import numpy as np
import pytest
from repops.block_data import DRAWERS, drawn
from repops.cuda.plan import Boxes, LaunchPlan, Ref, launch
from repops.reference.tensor_core import block
from repops.tensors import canonical

from . import emulation
from .emulation import Guarded, needs_gcc, run

pytestmark = needs_gcc

POISON_WORD = 0xFFFFFFFF
SHARED = 128 << 10

SOURCE = """
#include "hopper.cuh"
struct Boxed { TensorMap map; u32 *out; i64 x, y, z, unused[4]; };
struct alignas(1024) Memory { bf16 box[64 * 64 + 64]; Barrier full; };

// The words of a box, as they are in memory; 128 threads.
DEVICE void copy_out(const Boxed &p, const Memory &memory) {
    for (int i = thread_index(); i < 64 * 32; i += 128) p.out[i] = ((const u32 *)memory.box)[i];
}
#define BOX_KERNEL(name, begin, meet, late)                                                                \\
    KERNEL(name, Boxed, 128, 1) {                                                                          \\
        SHARED_LARGE(Memory, memory);                                                                      \\
        const bool first = thread_index() == 0;                                                            \\
        Barrier *full = &memory.full;                                                                      \\
        if (first) { begin; }                                                                              \\
        sync_block();                                                                                      \\
        meet;                                                                                              \\
        copy_out(p, memory);                                                                               \\
        late;                                                                                              \\
    }
#define COPY copy_box(p.map, memory.box, full, (int)p.x, (int)p.y, (int)p.z)
#define WAIT barrier_wait(full, 0)

BOX_KERNEL(right, barrier_begin(full, 1); barrier_arrive_and_expect(full, 8192); COPY, WAIT, )
BOX_KERNEL(copied_before_it_is_expected, barrier_begin(full, 1); COPY; barrier_arrive_and_expect(full, 8192), WAIT, )
BOX_KERNEL(no_wait, barrier_begin(full, 1); barrier_arrive_and_expect(full, 8192); COPY, , WAIT)
BOX_KERNEL(too_few_bytes, barrier_begin(full, 1); barrier_arrive_and_expect(full, 8192 + 16); COPY, WAIT, )
BOX_KERNEL(no_arrival, barrier_begin(full, 1); COPY, WAIT, )
BOX_KERNEL(not_begun, , WAIT, )
BOX_KERNEL(two_arrivals, barrier_begin(full, 1); barrier_arrive_and_expect(full, 8192); barrier_arrive(full), WAIT, )
BOX_KERNEL(not_waited_for, barrier_begin(full, 1); barrier_arrive_and_expect(full, 8192); COPY, , )
BOX_KERNEL(not_aligned, barrier_begin(full, 1); copy_box(p.map, memory.box + 64, full, 0, 0, 0), , )

KERNEL(phases, Boxed, 128, 1) { // a box in each of two phases
    SHARED_LARGE(Memory, memory);
    const bool first = thread_index() == 0;
    if (first) barrier_begin(&memory.full, 1);
    sync_block();
    for (int phase = 0; phase < 2; phase++) {
        if (first) {
            barrier_arrive_and_expect(&memory.full, 8192);
            copy_box(p.map, memory.box, &memory.full, (int)p.x, phase * (int)p.y, (int)p.z);
        }
        barrier_wait(&memory.full, phase);
        sync_block();
    }
    copy_out(p, memory);
}

struct Factors { const bf16 *a, *b; float *c; };
struct alignas(1024) Both { bf16 a[64 * 64], b[3 * 64 * 64]; };
template <bool ROWS_ARE_K, int SUMS> DEVICE Both &factors(const Factors &p, float (&d)[SUMS]) {
    SHARED_LARGE(Both, both);
    for (int i = thread_index(); i < 64 * 64; i += WARPGROUP) both.a[i] = p.a[i];
    for (int i = thread_index(); i < 3 * 64 * 64; i += WARPGROUP) both.b[i] = p.b[i];
    for (int i = 0; i < SUMS; i++) d[i] = p.c[thread_index() * SUMS + i];
    sync_block();
    return both;
}
template <int SUMS> DEVICE void put(const Factors &p, const float (&d)[SUMS]) {
    for (int i = 0; i < SUMS; i++) p.c[thread_index() * SUMS + i] = d[i];
}
template <bool ROWS_ARE_K, int SUMS> DEVICE void multiply_all(const Factors &p) {
    float d[SUMS];
    Both &both = factors<ROWS_ARE_K>(p, d);
    products_begin();
    for (int k = 0; k < 64; k += 16)
        multiply_64x16<ROWS_ARE_K>(d, both.a + k, both.b + (ROWS_ARE_K ? k * 64 : k), true);
    products_end_group();
    products_wait(d);
    put(p, d);
}
KERNEL(rows_are_k_128, Factors, 128, 1) { multiply_all<true, 64>(p); }
KERNEL(rows_are_k_192, Factors, 128, 1) { multiply_all<true, 96>(p); }
KERNEL(rows_are_n_128, Factors, 128, 1) { multiply_all<false, 64>(p); }
KERNEL(rows_are_n_192, Factors, 128, 1) { multiply_all<false, 96>(p); }

#define PRODUCT_KERNEL(name, before, b_of, after)                                                           \\
    KERNEL(name, Factors, 128, 1) {                                                                         \\
        float d[64];                                                                                        \\
        Both &both = factors<true>(p, d);                                                                   \\
        before;                                                                                             \\
        multiply_64x16<true>(d, both.a, b_of, true);                                                        \\
        products_end_group();                                                                               \\
        after;                                                                                              \\
    }
PRODUCT_KERNEL(sums_read_early, products_begin(), both.b, put(p, d); products_wait(d))
PRODUCT_KERNEL(sums_read_before_the_last_group, products_begin(), both.b,
               products_wait_but_one(d); put(p, d); products_wait(d))
PRODUCT_KERNEL(factors_written_early, products_begin(), both.b,
               sync_block(); both.a[thread_index()] = 0x7FFF; sync_block(); products_wait(d); put(p, d))
PRODUCT_KERNEL(products_not_begun, , both.b, products_wait(d))
PRODUCT_KERNEL(products_not_waited_for, products_begin(), both.b, )
PRODUCT_KERNEL(different_matrices, products_begin(), both.b + thread_index() / 32 * 1024, products_wait(d))
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    (folder / "controls.cu").write_text(SOURCE)
    made = folder / "controls.so"
    files = [str(folder / "controls.cu"), *map(str, emulation.MACHINE)]
    subprocess.run(
        ["g++", *emulation.OPTIONS, "-O1", *emulation.SHIM, *files, "-shared", "-o", made], check=True
    )
    return emulation.load(made)


# ------------------------------------------------------------------------------------------------- boxes, barriers


def box(kernels, name, x=0, y=0, z=0, order=0, shared=SHARED, sizes=(80, 70, 2)):
    """Return a box of 64 x 64 numbers of a tensor, as words in shared memory, and the tensor."""
    tensor = np.arange(1, 1 + 2 * 70 * 80, dtype=np.uint16).reshape(2, 70, 80)
    boxes = Boxes(Ref(0), sizes, (160, 160 * 70), 64)
    out = Guarded(64 * 32 * 4)
    call = launch(f"controls.{name}", 1, 128, [boxes, Ref(1), x, y, z, 0, 0, 0, 0], shared)
    run(LaunchPlan((call,)), [Guarded(tensor.nbytes, tensor.tobytes()), out], order, kernels)
    return out.view.view(np.uint32).reshape(64, 32), tensor


def exchanged(numbers):
    """Return rows of 64 numbers with pieces of eight exchanged, as the 128-byte swizzle does (PTX ISA, "Swizzling
    modes")."""
    pieces = numbers.reshape(64, 8, 8)
    return np.stack([row[np.arange(8) ^ r % 8] for r, row in enumerate(pieces)]).reshape(64, 64)


@pytest.mark.parametrize("order", range(4))
@pytest.mark.parametrize("name", ["right", "copied_before_it_is_expected"])
@pytest.mark.parametrize("at", [(0, 0, 0), (16, 6, 1), (40, 30, 1), (-8, -3, 0), (64, 64, 1), (0, 0, 2)])
def test_a_box_is_a_part_of_the_tensor_with_zeros_outside(kernels, name, at, order):
    words, tensor = box(kernels, name, *at, order=order)
    x, y, z = at
    wide = np.zeros((4, 300, 300), np.uint16)
    wide[:2, 100:170, 100:180] = tensor
    wanted = exchanged(wide[z, 100 + y : 164 + y, 100 + x : 164 + x].copy())
    assert (words.view(np.uint16).reshape(64, 64) == wanted).all()


def test_a_barrier_has_one_phase_after_the_other(kernels):
    for order in range(4):
        words, _ = box(kernels, "phases", y=6, order=order)
        again, _ = box(kernels, "right", y=6, order=order)
        assert (words == again).all()


def test_what_is_not_waited_for_is_poison(kernels):
    assert (box(kernels, "no_wait")[0] == POISON_WORD).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("too_few_bytes", "threads wait at a barrier for copies that do not come"),
        ("no_arrival", "threads wait at a barrier for copies that do not come"),
        ("not_begun", "a barrier that has not begun"),
        ("two_arrivals", "more arrivals at a barrier than it waits for"),
        ("not_waited_for", "a block ended without waiting for a box"),
        ("not_aligned", "a box is not aligned to 1024 bytes"),
    ],
)
def test_mistakes_with_boxes_are_reported(kernels, name, message):
    with pytest.raises(AssertionError, match=message):
        box(kernels, name)


def test_a_launch_gives_the_memory_that_a_kernel_takes(kernels):
    with pytest.raises(AssertionError, match="more shared memory than the launch gives"):
        box(kernels, "right", shared=8192)


# -------------------------------------------------------------------------------------------------------- products


def product(kernels, name, a, b, c):
    """Return a b + c by a warpgroup; a [64, 64] and b [64, n] are bits of bf16, c [64, n] is f32."""
    columns = c.shape[1]
    if "rows_are_n" in name:
        of_b = np.zeros((192, 64), np.uint16)
        of_b[:columns] = b.T
        panels = [exchanged(part) for part in np.split(of_b, 3)]
    else:
        of_b = np.zeros((64, 192), np.uint16)
        of_b[:, :columns] = b
        panels = [exchanged(part.copy()) for part in np.split(of_b, 3, axis=1)]
    lane, v = np.arange(128)[:, None], np.arange(columns // 2)[None]
    row = (
        16 * (lane // 32) + lane % 32 // 4 + 8 * (v % 4 // 2)
    )  # PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"
    column = 8 * (v // 4) + 2 * (lane % 4) + v % 2
    sums = Guarded(4 * c.size)
    sums.view[:] = np.frombuffer(c[row, column].tobytes(), np.uint8)
    inputs = [Guarded(x.nbytes, x.tobytes()) for x in (exchanged(a), np.stack(panels))]
    call = launch(f"controls.{name}", 1, 128, [Ref(0), Ref(1), Ref(2)], SHARED)
    run(LaunchPlan((call,)), [*inputs, sums], 0, kernels)
    found = np.empty_like(c)
    found[row, column] = sums.view.view(np.float32).reshape(128, columns // 2)
    return found


def operands(kind, columns):
    rng = np.random.default_rng(columns)
    a, b = (drawn(rng, kind, shape).view(np.uint16) for shape in ((64, 64), (64, columns)))
    return a, b, drawn(rng, kind, (64, columns)).astype(np.float32)


@pytest.mark.parametrize("columns", [128, 192])
@pytest.mark.parametrize("rows", ["k", "n"])
def test_products_are_blocks_of_rows_and_columns(kernels, rows, columns):
    for kind in list(DRAWERS)[::3]:
        a, b, c = operands(kind, columns)
        want = c.view(np.uint32)
        for k in range(0, 64, 16):
            left = np.broadcast_to(a[:, None, k : k + 16], (64, columns, 16))
            right = np.broadcast_to(b.T[None, :, k : k + 16], (64, columns, 16))
            want = block(left, right, want)
        found = product(kernels, f"rows_are_{rows}_{columns}", a, b, c)
        assert (canonical(found).view(np.uint32) == want).all(), kind


@pytest.mark.parametrize(
    "name", ["sums_read_early", "sums_read_before_the_last_group", "factors_written_early"]
)
def test_what_is_touched_too_early_is_poison(kernels, name):
    assert np.isnan(product(kernels, name, *operands("ordinary", 128))).any()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("products_not_begun", "products have not begun"),
        ("products_not_waited_for", "a thread ended without waiting for its products"),
        ("different_matrices", "the threads of a warpgroup multiply different matrices"),
    ],
)
def test_mistakes_with_products_are_reported(kernels, name, message):
    with pytest.raises(AssertionError, match=message):
        product(kernels, name, *operands("ordinary", 128))
