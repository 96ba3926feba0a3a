"""Controls: the emulation notices typical mistakes of kernels."""

import subprocess

import numpy as np
import pytest
from repops.block_data import DRAWERS, drawn
from repops.cuda.plan import LaunchPlan, Ref, launch
from repops.reference.tensor_core import block
from repops.tensors import canonical

from . import emulation
from .emulation import Guarded, needs_gcc, run

pytestmark = needs_gcc

POISON_WORD = b"\xff" * 4

SOURCE = """
#include "common.cuh"
struct Out { u32 *out; };
struct Words { u32 of[64]; };

KERNEL(right, Out, 64, 1) {
    SHARED(Words, words);
    const int t = thread_index();
    words.of[t] = (u32)t;
    sync_block();
    p.out[t] = words.of[63 - t];
}
KERNEL(no_barrier, Out, 64, 1) {
    SHARED(Words, words);
    const int t = thread_index();
    words.of[t] = (u32)t;
    p.out[t] = words.of[63 - t];
}
KERNEL(no_wait, Out, 64, 1) {
    SHARED(Words, words);
    const int t = thread_index();
    p.out[t] = (u32)t;
    copy_async<4>(&words.of[t], p.out + t);
    sync_block();
    p.out[t] = words.of[t];
    copies_wait();
}
KERNEL(still_read, Out, 64, 1) {
    SHARED(Words, words);
    const int t = thread_index();
    words.of[t] = 0;
    sync_block();
    copy_async<4>(&words.of[t], p.out + t);
    copies_end_group();
    const u32 before = words.of[t];
    copies_wait_but<0>();
    p.out[t] = before;
}
KERNEL(last_group, Out, 64, 1) {
    SHARED(Words, words);
    const int t = thread_index();
    p.out[t] = (u32)t % 32;
    if (t < 32) copy_async<4>(&words.of[t], p.out + t);
    copies_end_group();
    if (t < 32) copy_async<4>(&words.of[t + 32], p.out + t);
    copies_end_group();
    copies_wait_but<1>();
    sync_block();
    p.out[t] = words.of[t];
    sync_block();
    copies_wait();
}
KERNEL(beyond, Out, 64, 1) { p.out[thread_index() + 1] = 1; }
KERNEL(some_at_barrier, Out, 64, 1) {
    if (thread_index() < 32) sync_block();
}
KERNEL(some_lanes, Out, 64, 1) {
    if (thread_index() < 16) p.out[0] = lanes_where(true);
}
KERNEL(two_blocks, Out, 64, 1) {
    if (thread_index() == 0) p.out[0] = p.out[1], p.out[1] = (u32)block_index();
}
struct Fragments { const u32 *ab; int *c; }; // of each lane
KERNEL(product_of_bytes, Fragments, 32, 1) {
    const u32 *from = p.ab + 6 * thread_index();
    int *c = p.c + 4 * thread_index();
    const u32 a[4] = {from[0], from[1], from[2], from[3]}, b[2] = {from[4], from[5]};
    int sums[4] = {c[0], c[1], c[2], c[3]};
    multiply_16x8x32(sums, a, b);
    for (int i = 0; i < 4; i++) c[i] = sums[i];
}
struct Halves { const u32 *ab; float *c; }; // of each lane
KERNEL(product_of_bf16, Halves, 32, 1) {
    const u32 *from = p.ab + 6 * thread_index();
    float *c = p.c + 4 * thread_index();
    const u32 a[4] = {from[0], from[1], from[2], from[3]}, b[2] = {from[4], from[5]};
    float sums[4] = {c[0], c[1], c[2], c[3]};
    multiply_16x8x16(sums, a, b);
    for (int i = 0; i < 4; i++) c[i] = sums[i];
}
struct Rows16 { const uint16_t *rows; u32 *words; i64 turned; };
KERNEL(four_matrices, Rows16, 32, 1) { // each 8 x 8, one after the other
    u32 words[4];
    const void *row = p.rows + 8 * thread_index();
    if (p.turned) load_8x8x4<true>(words, row); else load_8x8x4<false>(words, row);
    for (int j = 0; j < 4; j++) p.words[4 * thread_index() + j] = words[j];
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    (folder / "controls.cu").write_text(SOURCE)
    files = [str(folder / "controls.cu"), *map(str, emulation.MACHINE)]
    made = folder / "controls.so"
    command = ["g++", *emulation.OPTIONS, "-O1", *emulation.SHIM, *files, "-shared", "-o", made]
    subprocess.run(command, check=True)
    return emulation.load(made)


def results(kernels, name, order=0, blocks=1):
    buffer = Guarded(64 * 4)
    run(LaunchPlan((launch(f"controls.{name}", blocks, 64, [Ref(0)]),)), [buffer], order, kernels)
    return buffer.view.tobytes()


def test_a_right_kernel_passes(kernels):
    assert results(kernels, "right", 0) == results(kernels, "right", 3)


@pytest.mark.parametrize("name", ["no_barrier", "no_wait", "still_read"])
def test_what_is_read_too_early_is_poison(kernels, name):
    assert POISON_WORD in results(kernels, name)


def test_a_group_of_copies_is_there_when_it_has_been_waited_for(kernels):
    words = np.frombuffer(results(kernels, "last_group"), np.uint32).tolist()
    assert words == [*range(32), *[2**32 - 1] * 32]


def test_blocks_that_depend_on_each_other_differ_by_order(kernels):
    assert results(kernels, "two_blocks", 0, 2) != results(kernels, "two_blocks", 1, 2)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("beyond", "wrote beyond a buffer"),
        ("some_at_barrier", "threads wait at a barrier for threads that have ended"),
        ("some_lanes", "lanes of a warp wait for lanes that do not come"),
    ],
)
def test_is_reported(kernels, name, message):
    with pytest.raises(AssertionError, match=message):
        results(kernels, name)


def fragments(a, b, c):
    """Return the registers of every lane by the formulas of the PTX ISA, "Matrix Fragments for mma.m16n8k32": those of
    a and b, and where in c each of its four is."""
    lane = np.arange(32)[:, None]
    group, in_group = lane // 4, lane % 4
    i = np.arange(16)[None]
    of_a = a[
        np.where((i < 4) | ((i >= 8) & (i < 12)), group, group + 8), in_group * 4 + i % 4 + 16 * (i >= 8)
    ]
    i = np.arange(8)[None]
    of_b = b[in_group * 4 + i % 4 + 16 * (i >= 4), group]
    i = np.arange(4)[None]
    place = np.where(i < 2, group, group + 8) * c.shape[1] + in_group * 2 + i % 2
    return np.concatenate([of_a, of_b], axis=1), place


def bytes_product(kernels, a, b, c):
    operands, place = fragments(a, b, c)
    registers = Guarded(operands.nbytes, operands.tobytes())
    sums = Guarded(4 * c.size)
    sums.view[:] = np.frombuffer(c.reshape(-1)[place].tobytes(), np.uint8)
    call = launch("controls.product_of_bytes", 1, 32, [Ref(0), Ref(1)])
    run(LaunchPlan((call,)), [registers, sums], 0, kernels)
    out = np.empty_like(c)
    out.reshape(-1)[place] = sums.view.view(np.int32).reshape(32, 4)
    return out


def test_products_of_bytes_are_those_of_the_matrices(kernels):
    rng = np.random.default_rng(0)
    for _ in range(20):
        a, b = (
            rng.integers(-128, 128, (16, 32)).astype(np.int8),
            rng.integers(-128, 128, (32, 8)).astype(np.int8),
        )
        c = rng.integers(-(2**30), 2**30, (16, 8)).astype(np.int32)
        assert (bytes_product(kernels, a, b, c) == c + a.astype(np.int32) @ b.astype(np.int32)).all()


def test_a_sum_of_bytes_that_does_not_fit_is_reported(kernels):
    a, b, c = np.ones((16, 32), np.int8), np.ones((32, 8), np.int8), np.zeros((16, 8), np.int32)
    c[5, 3] = 2**31 - 32
    with pytest.raises(AssertionError, match="does not fit in 32 bits"):
        bytes_product(kernels, a, b, c)


def halves(a, b, c):
    """As `fragments`, by "Matrix Fragments for mma.m16n8k16" with floating point type .bf16."""
    lane = np.arange(32)[:, None]
    group, in_group = lane // 4, lane % 4
    i = np.arange(8)[None]
    row = np.where((i < 2) | ((i >= 4) & (i < 6)), group, group + 8)
    of_a = a[row, in_group * 2 + i % 2 + np.where(i >= 4, 8, 0)]
    i = np.arange(4)[None]
    of_b = b[in_group * 2 + i % 2 + np.where(i >= 2, 8, 0), group]
    place = np.where(i < 2, group, group + 8) * c.shape[1] + in_group * 2 + i % 2
    return np.ascontiguousarray(np.concatenate([of_a, of_b], axis=1)), place


@pytest.mark.parametrize("order", range(4))
def test_products_of_bf16_are_blocks_of_rows_and_columns(kernels, order):
    rng = np.random.default_rng(order)
    for kind in DRAWERS:
        a, b = drawn(rng, kind, (16, 16)).view(np.uint16), drawn(rng, kind, (16, 8)).view(np.uint16)
        c = drawn(rng, kind, (16, 8)).astype(np.float32)
        operands, place = halves(a, b, c)
        registers, sums = Guarded(operands.nbytes, operands.tobytes()), Guarded(4 * c.size)
        sums.view[:] = np.frombuffer(c.reshape(-1)[place].tobytes(), np.uint8)
        call = launch("controls.product_of_bf16", 1, 32, [Ref(0), Ref(1)])
        run(LaunchPlan((call,)), [registers, sums], order, kernels)
        out = np.empty(c.size, np.float32)
        out[place] = sums.view.view(np.float32).reshape(32, 4)
        rows, columns = (np.broadcast_to(x, (16, 8, 16)) for x in (a[:, None], b.T[None]))
        want = block(rows, columns, c.view(np.uint32))
        assert (canonical(out).view(np.uint32).reshape(16, 8) == want).all(), kind
        assert (out.view(np.uint32)[np.isnan(out)] == 0x7FFFFFFF).all()


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("order", range(4))
def test_matrices_of_words_of_16_bits(kernels, order, turned):
    """By "ldmatrix": lane i receives row i / 4, elements 2 (i % 4) and the next; with .trans, of the transpose."""
    matrices = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    words = Guarded(32 * 4 * 4)
    call = launch("controls.four_matrices", 1, 32, [Ref(0), Ref(1), turned])
    run(LaunchPlan((call,)), [Guarded(matrices.nbytes, matrices.tobytes()), words], order, kernels)
    seen = matrices.transpose(0, 2, 1) if turned else matrices
    got = words.view.view(np.uint16).reshape(32, 4, 2).transpose(1, 0, 2).reshape(4, 8, 8)
    assert (got == seen).all()
