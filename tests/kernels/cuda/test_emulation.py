"""Controls: the emulation notices typical mistakes of kernels."""

import subprocess

import pytest
from repops.cuda.plan import LaunchPlan, Ref, launch

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
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("controls")
    (folder / "controls.cu").write_text(SOURCE)
    include = [f"-I{d}" for d in emulation.directories()]
    shim = ["-include", str(emulation.HERE / "device.h"), "-x", "c++"]
    files = [str(folder / "controls.cu"), str(emulation.HERE / "fibers.cpp")]
    made = folder / "controls.so"
    subprocess.run(
        ["g++", *emulation.OPTIONS, "-O1", *include, *shim, *files, "-shared", "-o", made], check=True
    )
    return emulation.load(made)


def results(kernels, name, order=0, blocks=1):
    buffer = Guarded(64 * 4)
    run(LaunchPlan((launch(f"controls.{name}", blocks, 64, [Ref(0)]),)), [buffer], order, kernels)
    return buffer.view.tobytes()


def test_a_right_kernel_passes(kernels):
    assert results(kernels, "right", 0) == results(kernels, "right", 3)


@pytest.mark.parametrize("name", ["no_barrier", "no_wait"])
def test_what_is_read_too_early_is_poison(kernels, name):
    assert POISON_WORD in results(kernels, name)


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
