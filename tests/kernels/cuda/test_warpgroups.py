"""Products and convolutions of the mode tc16 by emulated warpgroups give the bits of the processor's kernels (which
tests/kernels/test_tensor_core.py compares with the reference)."""

import numpy as np
import pytest
from repops.block_data import DRAWERS, KINDS, TYPE, drawn, factors
from repops.cuda import patches, warpgroups
from repops.cuda.plan import BOX_ALIGNMENT, LaunchPlan, Target
from repops.cuda.plans import plan_of
from repops.host import cpu, tensor_core
from repops.random_calls import random_call
from repops.selftest import CONTRACTIONS
from repops.sums import SumMode
from repops.tensors import canonical, check

from .calls import of_bf16, window
from .emulation import Guarded, execute, needs_gcc, run
from .tensor_core_calls import in_binary32
from .test_tensor_core import infinite_beside_padding

pytestmark = needs_gcc

ORDERS = range(4)
FEW, MANY = Target(1, warpgroups=True), Target(132, warpgroups=True)


def kernels_of(name, inputs, attrs, target):
    plan = plan_of(check(name, inputs, attrs), target, SumMode.TC16)
    return [launch.kernel.partition(".")[2] for launch in plan.launches]


def agrees(name, inputs, attrs, orders=(0, 3), targets=(FEW, MANY)):
    """Compare results of both types with the processor's; return the kernels that were reached."""
    (narrow,) = cpu.execute(name, inputs, attrs, sums=SumMode.TC16)
    wide = tensor_core.in_binary32(name, inputs, attrs)
    reached = set()
    for target in targets:
        reached |= set(kernels_of(name, inputs, attrs, target))
        for order in orders:
            (got,) = execute(name, inputs, attrs, sums=SumMode.TC16, target=target, order=order)
            of_f32 = in_binary32(name, inputs, attrs, target=target, order=order)
            context = (name, [x.shape for x in inputs], attrs, target, order)
            assert (canonical(got).view(np.uint16) == canonical(narrow).view(np.uint16)).all(), context
            assert (canonical(of_f32).view(np.uint32) == canonical(wide).view(np.uint32)).all(), context
    return reached


@pytest.fixture
def always(monkeypatch):
    """Small convolutions go to warpgroups, too."""
    monkeypatch.setattr(patches, "LEAST_ROWS", 1)
    monkeypatch.setattr(patches, "LEAST_COLUMNS", 1)


# ------------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for m, k, n in ((64, 16, 64), (65, 47, 70), (130, 130, 72)):
        agrees("mm", factors(rng, kind, m, k, n), {})


@pytest.mark.parametrize("k", [1, 8, 15, 16, 63, 64, 65, 127, 512, 513, 576, 1032])
def test_lengths(k):
    rng = np.random.default_rng(k)
    for kind in ("ordinary", "special values"):
        agrees("mm", factors(rng, kind, 66, k, 64), {}, ORDERS if k > 512 else (0, 3))


def test_every_tile_and_every_way_to_write_it(always):
    rng = np.random.default_rng(5)
    reached = set()
    for name, shapes, orders in (
        ("mm", [(200, 72), (72, 136)], ORDERS),
        ("mm", [(256, 40), (40, 384)], (0, 3)),
        ("mm", [(64, 40), (40, 131)], ORDERS),
        ("mm", [(256, 40), (40, 385)], (0, 3)),
        ("mm", [(130, 1537), (1537, 131)], (0, 3)),
        ("bmm", [(3, 130, 600), (3, 600, 72)], ORDERS),
    ):
        reached |= agrees(name, [drawn(rng, "special values", shape) for shape in shapes], {}, orders)
    for channels in (8, 9, 16, 17):
        attrs = window(padding=(1, 1))
        x, y = drawn(rng, "tails", (2, channels, 5, 4)), drawn(rng, "tails", (2, 70, 5, 4))
        reached |= agrees("conv2d_weight_grad", [y, x], {**attrs, "kernel_hw": (3, 3)}, (0,))
    tiles = [f"{tile.name}{turned}" for tile in warpgroups.TILES for turned in ("", "_turned")]
    wanted = {f"tc16_warpgroup_{tile}{single}" for tile in tiles for single in ("", "_single")}
    assert {kernel for kernel in reached if kernel.startswith("tc16_warpgroup")} == wanted
    assert {"add_chunks_bf16", "tc16_pad"} < reached


def test_what_is_small_or_not_aligned_goes_another_way():
    a = b = np.ones((64, 64), TYPE)
    assert kernels_of("mm", [a, b], {}, MANY) == ["tc16_warpgroup_square"]
    assert kernels_of("mm", [a[:63], b], {}, MANY) == ["tc16_matmul_small"]
    assert MANY.at([0, 4 * BOX_ALIGNMENT]) == MANY
    assert MANY.at([0, 4 * BOX_ALIGNMENT + 2]) == Target(132)
    assert kernels_of("mm", [a, b], {}, Target(132)) == ["tc16_matmul_small"]
    assert "warpgroup" not in "".join(kernels_of("mm", [a[:0], b], {}, MANY))


# ---------------------------------------------------------------------------------------------------- convolutions


@pytest.mark.parametrize("name", [name for name in CONTRACTIONS if name.startswith("conv")])
def test_random_convolutions(name, always):
    for seed in range(30):
        inputs, attrs = random_call(name, f"warpgroups {seed}", "tiny")
        rng = np.random.default_rng(seed)
        inputs = [drawn(rng, list(DRAWERS)[seed % len(DRAWERS)], x.shape) for x in inputs]
        agrees(name, inputs, attrs, (seed % 4,), (FEW if seed % 2 else MANY,))


@pytest.mark.parametrize(("most", "copies"), [(patches.MAX_PATCHES, 1), (70_000, 2)])
def test_convolutions_of_some_images_at_a_time(most, copies, always, monkeypatch):
    monkeypatch.setattr(patches, "MAX_PATCHES", most)
    rng = np.random.default_rng(7)
    attrs = window(padding=(1, 1), stride=(1, 2))
    x, w, y = (drawn(rng, "tails", shape) for shape in ((5, 20, 8, 8), (40, 20, 3, 3), (5, 40, 8, 4)))
    assert kernels_of("conv2d", [x, w], attrs, FEW).count("tc16_patches_conv2d") == copies
    for name, inputs, more in (
        ("conv2d", [x, w], {}),
        ("conv2d_input_grad", [y, w], {"input_hw": (8, 8)}),
        ("conv2d_weight_grad", [y, x], {"kernel_hw": (3, 3)}),
    ):
        agrees(name, inputs, {**attrs, **more})


def test_points_need_no_patches(always):
    rng = np.random.default_rng(9)
    x, w, y = (drawn(rng, "infinities", shape) for shape in ((3, 32, 8, 8), (48, 32, 1, 1), (3, 48, 8, 8)))
    for name, inputs, more in (("conv2d", [x, w], {}), ("conv2d_input_grad", [y, w], {"input_hw": (8, 8)})):
        attrs = {**window(), **more}
        assert not [kernel for kernel in kernels_of(name, inputs, attrs, FEW) if "patches" in kernel]
        agrees(name, inputs, attrs)


def test_calls_that_reach_every_path(always):
    for name, inputs, attrs in of_bf16():
        agrees(name, inputs, attrs, (3,), (MANY,))


def test_what_is_not_finite_beside_padding(always):
    for name, inputs, attrs in infinite_beside_padding():
        agrees(name, inputs, attrs, (0,), (FEW,))


def test_without_a_second_look_these_are_wrong(always):
    """A control: zeros of the patches meet factors that are not finite."""
    wrong = 0
    for name, inputs, attrs in infinite_beside_padding():
        call = check(name, inputs, attrs)
        plan = plan_of(call, FEW, SumMode.TC16)
        assert plan.launches[-1].kernel.endswith("_again")
        out = Guarded(2 * int(np.prod(call.outputs[0][1])))
        buffers = [*[Guarded(array.nbytes, array.tobytes()) for array in inputs], out]
        run(LaunchPlan(plan.launches[:-1], plan.workspaces), buffers)
        (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.TC16)
        differ = out.view.view(np.uint16).reshape(want.shape) != canonical(want).view(np.uint16)
        wrong += int(differ.sum())
    assert wrong
