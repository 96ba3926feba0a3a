"""Reference and C give the same bits for every instruction set and thread count."""

import numpy as np
import pytest
import repops
from hypothesis import given, settings
from hypothesis import strategies as st
from repops import reference
from repops.host import cpu
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import OPS, DtypeError
from repops.random_calls import random_call
from repops.tensors import ArrayError, canonical

SEEDS = range(1000, 1060)
THREADS = (1, 2, 3)
ISAS = range(BEST_ISA + 1)


def assert_same_bits(got, want, context):
    assert len(got) == len(want), context
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), context
        assert a.flags.c_contiguous, context
        assert canonical(a).tobytes() == canonical(b).tobytes(), context


@pytest.mark.parametrize(
    "name",
    [pytest.param(op.name, marks=[pytest.mark.slow] if op.name in ("erf", "sin") else []) for op in OPS],
)
def test_all_paths_agree_with_the_reference(name):
    for seed in SEEDS:
        inputs, attrs = random_call(name, seed)
        before = [array.tobytes() for array in inputs]
        want = reference.execute(name, inputs, attrs)
        for isa in ISAS:
            for threads in THREADS:
                got = cpu.execute(name, inputs, attrs, threads=threads, isa=isa)
                assert_same_bits(got, want, (name, seed, ISA_NAMES[isa], threads))
        assert before == [array.tobytes() for array in inputs], "an input was written to"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([op.name for op in OPS]), st.integers(0, 2**63))
def test_any_seed(name, seed):
    inputs, attrs = random_call(name, seed)
    assert_same_bits(
        cpu.execute(name, inputs, attrs, threads=2), reference.execute(name, inputs, attrs), (name, seed)
    )


def big(shape, seed):
    """Return an array large enough for several threads, tiles and blocks."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


WINDOW = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
GROUPED = {**WINDOW, "groups": 2}
LARGE = [
    ("add", [big((300, 517), 1), big((517,), 2)], {}),
    ("where", [big((300, 517), 1) > 0, big((300, 1), 2), big((), 3)], {}),
    ("exp", [big((40, 1001), 4)], {}),
    ("sum", [big((9001, 33), 5)], {"dims": (0,), "keepdim": 0}),
    ("sum", [big((1, 300000), 6)], {"dims": (1,), "keepdim": 0}),
    ("sum", [big((20, 7, 30, 31), 7)], {"dims": (0, 2, 3), "keepdim": 1}),
    ("amax", [big((20, 7, 30, 31), 8)], {"dims": (0, 2), "keepdim": 1}),
    ("mm", [big((250, 600), 9), big((600, 301), 10)], {}),
    ("bmm", [big((5, 30, 513), 11), big((5, 513, 70), 12)], {}),
    ("conv2d", [big((2, 34, 19, 21), 13), big((26, 17, 4, 3), 14)], GROUPED),
    (
        "conv2d_input_grad",
        [big((2, 26, 9, 21), 15), big((26, 17, 4, 3), 16)],
        {**GROUPED, "input_hw": (19, 21)},
    ),
    (
        "conv2d_weight_grad",
        [big((2, 26, 9, 21), 17), big((2, 34, 19, 21), 18)],
        {**GROUPED, "kernel_hw": (4, 3)},
    ),
    ("max_pool2d", [big((3, 9, 20, 21), 19)], {**WINDOW, "kernel": (3, 3)}),
    ("permute", [big((64, 33, 40), 20)], {"dims": (2, 0, 1)}),
]


@pytest.mark.parametrize(("name", "inputs", "attrs"), LARGE)
def test_large_shapes(name, inputs, attrs):
    want = reference.execute(name, inputs, attrs)
    for isa in ISAS:
        for threads in THREADS:
            got = cpu.execute(name, inputs, attrs, threads=threads, isa=isa)
            assert_same_bits(got, want, (name, ISA_NAMES[isa], threads))


def test_taps_in_the_padding_leave_no_trace():
    """A tap in the padding must not even turn -0 into +0."""
    x = -np.zeros((1, 1, 2, 2), np.float32)
    w = np.full((1, 1, 3, 3), np.float32(-1))
    w[0, 0, 0, 0] = np.inf  # meets padding only, for the first output
    attrs = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    for name in ("cpu", "reference"):
        (y,) = repops.backend(name).execute("conv2d", [x, w], attrs)
        assert not np.signbit(y[0, 0, 0, 0])  # -0 * -1 = +0
        assert np.isnan(y[0, 0, 1, 1])  # -0 * inf
    (y,) = cpu.execute("conv2d", [-x, w], attrs)
    assert np.signbit(y[0, 0, 0, 0])  # +0 * -1 = -0 from every tap that exists


def test_empty_contractions_and_sums_are_minus_zero():
    for name in ("cpu", "reference"):
        execute = repops.backend(name).execute
        empty = np.zeros((2, 0), np.float32)
        assert np.signbit(execute("mm", [empty, empty.T.copy()], {})[0]).all()
        assert np.signbit(execute("sum", [empty], {"dims": (1,), "keepdim": 0})[0]).all()
        assert (execute("amax", [empty], {"dims": (1,), "keepdim": 0})[0] == -np.inf).all()


@pytest.mark.parametrize("name", ["cpu", "reference"])
def test_refuses_arrays_that_are_no_tensors(name):
    execute = repops.backend(name).execute
    x = np.zeros((4, 6), np.float32)
    unaligned = np.frombuffer(bytes(17), np.uint8)[1:].view(np.float32)
    for bad in (x.T, x[:, ::2], x.tolist(), np.float32(1), np.ma.array(x), unaligned):
        with pytest.raises(ArrayError):
            execute("neg", [bad], {})
    for dtype in (np.float64, np.int32, ">f4", np.uint8):
        with pytest.raises(DtypeError):
            execute("neg", [x.astype(dtype)], {})


def test_reshape_is_a_view_and_the_rest_are_not():
    x = np.arange(6, dtype=np.float32)
    assert np.shares_memory(cpu.execute("reshape", [x], {"shape": (2, 3)})[0], x)
    assert not np.shares_memory(cpu.execute("permute", [x], {"dims": (0,)})[0], x)
    assert not np.shares_memory(cpu.execute("cast", [x], {"dtype": 1})[0], x)


def test_canonical_touches_only_nan():
    bits = np.array([0x7F800001, 0xFFC12345, 0x7FFFFFFF, 0x80000000, 0x7F800000], np.uint32)
    got = canonical(bits.view(np.float32)).view(np.uint32)
    assert [hex(b) for b in got] == ["0x7fc00000", "0x7fc00000", "0x7fc00000", "0x80000000", "0x7f800000"]


def test_convenience_functions():
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    assert repops.mm(a, b).tolist() == [[3, 3], [3, 3]]
    assert repops.sum(a, dims=(0,), keepdim=0).tolist() == [2, 2, 2]
    values, indices = repops.max_pool2d(
        a[None, None], kernel=(2, 3), stride=(1, 1), padding=(0, 0), dilation=(1, 1)
    )
    assert values.item() == 1
    assert indices.item() == 0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dilation", [1, 2, 3, 1000])
def test_a_window_far_wider_than_the_plane(isa, dilation):
    """Up to 2^62 taps, of which a few meet an element: each result is the first maximum of those elements."""
    x = np.random.default_rng(dilation).integers(-3, 4, (2, 1, 5, 4)).astype(np.float32)
    reach = ((1 << 30) - 1) // dilation
    attrs = {"stride": (1, 1), "dilation": (dilation, dilation)}
    attrs |= {"kernel": (2 * reach + 1,) * 2, "padding": (reach * dilation,) * 2}
    values, indices = cpu.execute("max_pool2d", [x], attrs, isa=isa)
    (_, _, rows, columns), padding = values.shape, attrs["padding"][0]
    for n, y, z in np.ndindex(2, rows, columns):
        met = [
            (h, w)
            for h in range(5)
            for w in range(4)
            if (h - y + padding) % dilation == 0 and (w - z + padding) % dilation == 0
        ]
        best = max(met, key=lambda at: (x[n, 0][at], -at[0], -at[1]), default=None)
        assert indices[n, 0, y, z] == (-1 if best is None else best[0] * 4 + best[1])
        assert values[n, 0, y, z] == (-np.inf if best is None else x[n, 0][best])
