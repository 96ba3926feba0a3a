"""The mode tc16: every kernel of a device, run on the host from the same sources, gives the bits of the reference."""

import numpy as np
import pytest
from repops import reference
from repops.block_data import DRAWERS, KINDS, TYPE, drawn, factors, of_bits
from repops.cuda import contraction, tensor_core
from repops.cuda.plan import LaunchPlan, Target
from repops.cuda.plans import differs, plan_of
from repops.host import cpu
from repops.opset import OPS
from repops.random_calls import random_call
from repops.reference.tensor_core import INFINITY, NAN, TERMS, block
from repops.reference.tensor_core import in_binary32 as by_the_reference
from repops.selftest import CONTRACTIONS, digest
from repops.sums import SumMode
from repops.tensors import canonical, check

from tests.kernels.test_tensor_core_rows import bf16s, rows

from .calls import of_bf16, window
from .emulation import TARGET, Guarded, execute, needs_gcc, run
from .emulation import TC16 as EMULATED
from .tensor_core_calls import in_binary32

pytestmark = needs_gcc

ORDERS = range(4)
"""Blocks, and warps and lanes, forwards and backwards."""
FORWARDS, BACKWARDS = 0, 3


def same(got, want, context):
    assert (got.dtype, got.shape) == (want.dtype, want.shape), context
    differ = canonical(got).view(f"u{got.itemsize}") != canonical(want).view(f"u{want.itemsize}")
    assert not differ.any(), (context, np.argwhere(differ)[:3], int(differ.sum()), got.size)


def agrees(name, inputs, attrs, orders=(FORWARDS, BACKWARDS), target=TARGET):
    """Compare results of both types with the reference's."""
    with np.errstate(all="ignore"):
        wide = by_the_reference(name, *inputs, **attrs)
        (narrow,) = reference.execute_tc16(name, inputs, attrs)
    for order in orders:
        context = (name, [x.shape for x in inputs], attrs, order)
        options = {"order": order, "target": target, "shift": order % 2}
        same(in_binary32(name, inputs, attrs, **options), wide, context)
        same(execute(name, inputs, attrs, sums=SumMode.TC16, **options)[0], narrow, context)


# ------------------------------------------------------------------------------------------------------- products


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    rng = np.random.default_rng(KINDS.index(kind))
    for m, k, n in ((3, 16, 64), (5, 47, 70), (70, 199, 9), (1, 31, 1), (40, 33, 3), (2, 1100, 9)):
        agrees("mm", factors(rng, kind, m, k, n), {}, ORDERS)


@pytest.mark.parametrize("k", [1, 15, 16, 17, 31, 33, 504, 511, 512, 513, 528, 1024, 1040, 1536])
def test_lengths(k):
    rng = np.random.default_rng(k)
    for kind in ("ordinary", "special values"):
        agrees("mm", factors(rng, kind, 3, k, 16), {})
        agrees("mm", factors(rng, kind, 3, k, 16), {}, target=Target(1))


@pytest.mark.parametrize("shape", [(0, 3, 4), (4, 0, 3), (4, 3, 0), (0, 0, 0)])
def test_empty_dimensions(shape):
    m, k, n = shape
    agrees("mm", [np.ones((m, k), TYPE), np.ones((k, n), TYPE)], {})
    agrees("bmm", [np.ones((2, m, k), TYPE), np.ones((2, k, n), TYPE)], {})


@pytest.mark.slow
def test_tiles_of_both_sizes_splits_and_batches():
    rng = np.random.default_rng(5)
    reached = set()
    for multiprocessors in (1, 4, 132):
        for name, shapes in (
            ("mm", [(200, 1100), (1100, 136)]),
            ("mm", [(130, 1537), (1537, 131)]),
            ("bmm", [(3, 130, 600), (3, 600, 72)]),
        ):
            inputs = [drawn(rng, "special values", shape) for shape in shapes]
            (want,) = cpu.execute(name, inputs, {}, sums=SumMode.TC16)
            target = Target(multiprocessors)
            for order in ORDERS:
                (got,) = execute(name, inputs, {}, sums=SumMode.TC16, target=target, order=order)
                same(got, want, (name, shapes, multiprocessors, order))
            plan = plan_of(check(name, inputs, {}), target, SumMode.TC16)
            reached |= {launch.kernel.partition(".")[2] for launch in plan.launches}
    assert reached == {"tc16_pad", "tc16_matmul_large", "tc16_matmul_small", "add_chunks_bf16"}


def padded_operands(inputs):
    plan = plan_of(check("mm", inputs, {}), TARGET, SumMode.TC16)
    return [launch.kernel for launch in plan.launches].count("tc16_matmul.tc16_pad")


def test_rows_of_other_lengths_are_padded_where_it_pays(monkeypatch):
    rng = np.random.default_rng(3)
    for m, k, n, count in (
        (64, 40, 65, 1),
        (64, 41, 64, 1),
        (65, 35, 67, 2),
        (64, 40, 64, 0),
        (63, 41, 65, 0),
    ):
        for kind in ("special values", "tails"):
            inputs = factors(rng, kind, m, k, n)
            assert padded_operands(inputs) == count
            agrees("mm", inputs, {})
    agrees("bmm", [drawn(rng, "infinities", shape) for shape in ((3, 66, 19), (3, 19, 70))], {})
    monkeypatch.setattr(tensor_core, "MAX_PADDED", 0)
    assert padded_operands(factors(rng, "tails", 65, 35, 67)) == 0


# ---------------------------------------------------------------------------------------------------- convolutions


@pytest.mark.parametrize(("scale", "seeds"), [("tiny", 40), pytest.param("usual", 8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CONTRACTIONS)
def test_random_calls(name, scale, seeds):
    for seed in range(seeds):
        inputs, attrs = random_call(name, f"tc16 {seed}", scale)
        rng = np.random.default_rng(seed)
        kind = list(DRAWERS)[seed % len(DRAWERS)]
        inputs = [drawn(rng, kind, x.shape) for x in inputs]
        agrees(name, inputs, attrs, target=Target(1 + 131 * (seed % 2)))


def test_calls_that_reach_every_path():
    for name, inputs, attrs in of_bf16():
        (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.TC16)
        for options in ({"order": FORWARDS}, {"order": BACKWARDS, "shift": 1, "target": Target(132)}):
            (got,) = execute(name, inputs, attrs, sums=SumMode.TC16, **options)
            same(got, want, (name, [x.shape for x in inputs], attrs))


def infinite_beside_padding():
    """Yield convolutions in which a factor that is not finite meets taps in the padding."""
    attrs = window(padding=(1, 2))
    for value in (0x7F80, 0xFF80, 0x7FC0):
        rng = np.random.default_rng(value)
        x, w, y = (drawn(rng, "ordinary", shape) for shape in ((2, 19, 6, 5), (7, 19, 3, 3), (2, 7, 6, 7)))
        w, y = (of_bits(np.where(rng.random(a.shape) < 0.03, value, a.view(np.uint16))) for a in (w, y))
        yield "conv2d", [x, w], attrs
        yield "conv2d_input_grad", [y, w], {**attrs, "input_hw": (6, 5)}
        yield "conv2d_weight_grad", [y, x], {**attrs, "kernel_hw": (3, 3)}


def test_what_is_not_finite_beside_padding():
    for name, inputs, attrs in infinite_beside_padding():
        agrees(name, inputs, attrs)


def test_without_a_second_look_these_are_wrong():
    """A control: the kernels multiply by zeros what meets padding."""
    for name, inputs, attrs in infinite_beside_padding():
        call = check(name, inputs, attrs)
        plan = plan_of(call, TARGET, SumMode.TC16)
        assert plan.launches[-1].kernel.endswith("_again")
        out = Guarded(2 * int(np.prod(call.outputs[0][1])))
        buffers = [*[Guarded(array.nbytes, array.tobytes()) for array in inputs], out]
        run(LaunchPlan(plan.launches[:-1], plan.workspaces), buffers)
        (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.TC16)
        got = out.view.view(np.uint16).reshape(want.shape)
        differ = got != canonical(want).view(np.uint16)
        assert (got[differ] & 0x7FFF > 0x7F80).all()
        if not np.isnan(inputs[1 if name != "conv2d_weight_grad" else 0].astype(np.float32)).all():
            assert differ.any()


# ---------------------------------------------------------------------------------------------------------- blocks


def device_blocks(a, b, c, order=FORWARDS):
    inputs = [np.ascontiguousarray(x) for x in (a, b, c)]
    out = Guarded(4 * len(c))
    run(tensor_core.blocks_plan(len(c)), [*[Guarded(x.nbytes, x.tobytes()) for x in inputs], out], order)
    return canonical(out.view.view(np.float32)).view(np.uint32)


def test_blocks_recorded_on_a_device():
    found = rows()
    a, b = (np.array([bf16s(row[side]) for row in found], np.uint16) for side in (2, 3))
    c, recorded = (np.array([int(row[side], 16) for row in found], np.uint32) for side in (4, 5))
    wanted = np.where(recorded & 0x7FFFFFFF > INFINITY, NAN, recorded)
    for order in ORDERS:
        assert (device_blocks(a, b, c, order) == wanted).all()


@pytest.mark.parametrize("count", [1, 7, 8, 33, 2001])
def test_blocks_of_every_kind(count):
    for kind in DRAWERS:
        rng = np.random.default_rng(count)
        a, b = (drawn(rng, kind, (count, TERMS)).view(np.uint16) for _ in "ab")
        c = rng.integers(0, 1 << 32, count, dtype=np.uint32)
        assert (device_blocks(a, b, c) == block(a, b, c)).all(), kind


# --------------------------------------------------------------------------------------------------- where it applies


def test_other_operators_and_dtypes_are_those_of_repops_f32():
    for op in OPS:
        if op.name == "reshape":
            continue
        inputs, attrs = random_call(op.name, 1)
        call = check(op.name, inputs, attrs)
        of_tc16 = op.name in CONTRACTIONS and inputs[0].dtype == TYPE
        assert differs(call, SumMode.TC16) == of_tc16
        plans = [plan_of(call, TARGET, sums) for sums in (SumMode.TC16, SumMode.REPOPS_F32)]
        assert (plans[0] == plans[1]) == (not of_tc16), op.name


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_the_self_test_prints_the_same_digests(name):
    from repops import backend

    assert digest(EMULATED, name) == digest(backend("cpu", SumMode.TC16), name)


def test_workspaces_too_large_are_not_taken(monkeypatch):
    call = check("mm", [np.ones((8, 5000), TYPE), np.ones((5000, 8), TYPE)], {})
    assert len(plan_of(call, Target(132), SumMode.TC16).launches) == 2
    monkeypatch.setattr(contraction, "MAX_WORKSPACE", 0)
    assert len(plan_of(call, Target(132), SumMode.TC16).launches) == 1
