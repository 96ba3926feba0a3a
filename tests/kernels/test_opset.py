"""The table: stable ids, and clear errors."""

import pytest
from repops.opset import (
    BOOL,
    BY_ID,
    BY_NAME,
    F32,
    I64,
    OPS,
    ArityError,
    AttrError,
    ChainError,
    DtypeError,
    OpError,
    ShapeError,
    UnknownOpError,
    lookup,
)
from repops.random_calls import MAKERS
from repops.reference import IMPLEMENTATION

WINDOW = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}


def test_each_row_is_unique_and_implemented():
    assert len(BY_ID) == len(BY_NAME) == len(OPS)
    assert set(IMPLEMENTATION) == set(MAKERS) == set(BY_NAME)
    assert all(0 < op.id < 1 << 16 for op in OPS)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs", "outputs"),
    [
        ("add", [(F32, (3, 1)), (F32, (2, 1, 4))], {}, [(F32, (2, 3, 4))]),
        ("lt", [(I64, ()), (I64, (0,))], {}, [(BOOL, (0,))]),
        ("sum", [(F32, (2, 3, 4))], {"dims": [0, 2], "keepdim": 1}, [(F32, (1, 3, 1))]),
        ("argmax", [(F32, (2, 3))], {"dim": 1, "keepdim": 0}, [(I64, (2,))]),
        ("bmm", [(F32, (5, 2, 3)), (F32, (5, 3, 4))], {}, [(F32, (5, 2, 4))]),
        ("take", [(BOOL, (9, 2)), (I64, (3, 4))], {}, [(BOOL, (3, 4, 2))]),
        ("slice", [(F32, (10,))], {"dim": 0, "start": 1, "stop": 10, "step": 4}, [(F32, (3,))]),
        ("cat", [(F32, (2, 3)), (F32, (0, 3))], {"dim": 0}, [(F32, (2, 3))]),
        ("full", [], {"shape": (), "dtype": I64, "bits": 2**64 - 1}, [(I64, ())]),
        (
            "max_pool2d",
            [(F32, (1, 2, 5, 5))],
            {"kernel": (2, 2), **WINDOW, "stride": (2, 2)},
            [(F32, (1, 2, 2, 2)), (I64, (1, 2, 2, 2))],
        ),
    ],
)
def test_infers_outputs(name, inputs, attrs, outputs):
    assert lookup(name).infer(inputs, attrs) == outputs


@pytest.mark.parametrize(
    ("error", "name", "inputs", "attrs"),
    [
        (ArityError, "add", [(F32, ())], {}),
        (ArityError, "cat", [], {"dim": 0}),
        (DtypeError, "add", [(F32, ()), (I64, ())], {}),
        (DtypeError, "exp", [(I64, ())], {}),
        (DtypeError, "neg", [(BOOL, ())], {}),
        (DtypeError, "add", [(0, ()), (0, ())], {}),
        (ShapeError, "add", [(F32, (2,)), (F32, (3,))], {}),
        (ShapeError, "neg", [(F32, (1,) * 9)], {}),
        (ShapeError, "neg", [(F32, (1 << 20, 1 << 20))], {}),
        (ShapeError, "neg", [(F32, (0, 1 << 40))], {}),
        (ShapeError, "neg", [(F32, (-1,))], {}),
        (ShapeError, "add", [(F32, (1 << 20, 1)), (F32, (1, 1 << 20))], {}),
        (AttrError, "neg", [(F32, ())], {"dim": 0}),
        (AttrError, "sum", [(F32, (2,))], {"dims": (0,)}),
        (AttrError, "sum", [(F32, (2, 2))], {"dims": (1, 0), "keepdim": 0}),
        (AttrError, "sum", [(F32, (2, 2))], {"dims": (0, 0), "keepdim": 0}),
        (AttrError, "sum", [(F32, (2,))], {"dims": (1,), "keepdim": 0}),
        (AttrError, "sum", [(F32, (2,))], {"dims": (0,), "keepdim": 2}),
        (AttrError, "sum", [(F32, (2,))], {"dims": (-1,), "keepdim": 0}),
        (AttrError, "sum", [(F32, (2,))], {"dims": 0, "keepdim": 0}),
        (AttrError, "cast", [(F32, (2,))], {"dtype": 0}),
        (AttrError, "cast", [(F32, (2,))], {"dtype": "F32"}),
        (ShapeError, "argmax", [(F32, (2, 0))], {"dim": 1, "keepdim": 0}),
        (ShapeError, "mm", [(F32, (2, 3)), (F32, (2, 3))], {}),
        (ShapeError, "conv2d", [(F32, (1, 3, 4, 4)), (F32, (2, 2, 1, 1))], {**WINDOW, "groups": 1}),
        (ShapeError, "conv2d", [(F32, (1, 3, 4, 4)), (F32, (2, 3, 5, 1))], {**WINDOW, "groups": 1}),
        (ShapeError, "conv2d", [(F32, (1, 3, 4, 4)), (F32, (2, 3, 0, 1))], {**WINDOW, "groups": 1}),
        (ShapeError, "conv2d", [(F32, (1, 3, 4, 4)), (F32, (2, 3, 1, 1))], {**WINDOW, "groups": 0}),
        (
            AttrError,
            "conv2d",
            [(F32, (1, 3, 4, 4)), (F32, (2, 3, 1, 1))],
            {**WINDOW, "stride": (0, 1), "groups": 1},
        ),
        (
            ShapeError,
            "conv2d_input_grad",
            [(F32, (1, 2, 4, 4)), (F32, (2, 3, 1, 1))],
            {**WINDOW, "groups": 1, "input_hw": (5, 4)},
        ),
        (
            ShapeError,
            "conv2d_weight_grad",
            [(F32, (1, 2, 4, 4)), (F32, (1, 3, 4, 4))],
            {**WINDOW, "groups": 1, "kernel_hw": (2, 1)},
        ),
        (ShapeError, "take", [(F32, ()), (I64, (2,))], {}),
        (DtypeError, "take", [(F32, (2,)), (F32, (2,))], {}),
        (ShapeError, "scatter_add", [(F32, (2, 3)), (I64, (4,)), (F32, (4, 2))], {}),
        (ShapeError, "reshape", [(F32, (2, 3))], {"shape": (5,)}),
        (AttrError, "permute", [(F32, (2, 3))], {"dims": (0, 0)}),
        (ShapeError, "expand", [(F32, (2, 3))], {"shape": (3,)}),
        (ShapeError, "expand", [(F32, (2, 3))], {"shape": (1, 3)}),
        (AttrError, "slice", [(F32, (4,))], {"dim": 0, "start": 0, "stop": 5, "step": 1}),
        (AttrError, "slice", [(F32, (4,))], {"dim": 0, "start": 3, "stop": 2, "step": 1}),
        (AttrError, "slice", [(F32, (4,))], {"dim": 0, "start": 0, "stop": 2, "step": 0}),
        (ShapeError, "cat", [(F32, (2, 3)), (F32, (2, 4))], {"dim": 0}),
        (DtypeError, "cat", [(F32, (2,)), (I64, (2,))], {"dim": 0}),
        (AttrError, "full", [], {"shape": (), "dtype": F32, "bits": 1 << 32}),
        (AttrError, "full", [], {"shape": (), "dtype": BOOL, "bits": 2}),
        (AttrError, "full", [], {"shape": (), "dtype": F32, "bits": 1.0}),
        (ShapeError, "arange", [], {"n": 1 << 40}),
    ],
)
def test_refuses_what_does_not_fit(error, name, inputs, attrs):
    with pytest.raises(error) as caught:
        lookup(name).infer(inputs, attrs)
    assert isinstance(caught.value, OpError)


_LONG = 1 << 30
_SIDE = 1 << 15


@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [
        ("sum", lambda n: [(F32, (1, n // 2, 1, 2))], {"dims": (1, 3), "keepdim": 0}),
        ("amax", lambda n: [(I64, (n,))], {"dims": (0,), "keepdim": 0}),
        ("argmax", lambda n: [(F32, (2, n))], {"dim": 1, "keepdim": 1}),
        ("mm", lambda n: [(F32, (1, n)), (F32, (n, 1))], {}),
        ("bmm", lambda n: [(F32, (2, 3, n)), (F32, (2, n, 1))], {}),
        ("conv2d", lambda n: [(F32, (1, n // 2, 2, 1)), (F32, (1, n // 2, 2, 1))], {**WINDOW, "groups": 1}),
        (
            "conv2d_input_grad",
            lambda n: [(F32, (1, n, 1, 1)), (F32, (n, 1, 2, 1))],
            {**WINDOW, "groups": 2, "input_hw": (2, 1)},
        ),
        (
            "conv2d_weight_grad",
            lambda n: [(F32, (n // 2, 1, 2, 1)), (F32, (n // 2, 1, 2, 1))],
            {**WINDOW, "groups": 1, "kernel_hw": (1, 1)},
        ),
        (
            "max_pool2d",
            lambda n: [(F32, (1, 1, n // _SIDE, _SIDE))],
            {**WINDOW, "kernel": (1 << 20, _SIDE), "padding": (1 << 20, 0)},
        ),
        ("scatter_add", lambda n: [(F32, (1,)), (I64, (1, n - 1)), (F32, (1, n - 1))], {}),
    ],
)
def test_no_chain_is_longer_than_an_honest_side_computes(name, inputs, attrs):
    """The longest chain is accepted; two more terms (both factors may be halves) or one more row are refused."""
    assert lookup(name).infer(inputs(_LONG), attrs)
    with pytest.raises(ChainError, match=name):
        lookup(name).infer(inputs(_LONG + (_SIDE if name == "max_pool2d" else 2)), attrs)


def test_a_window_may_be_larger_than_what_it_looks_at():
    attrs = {**WINDOW, "kernel": (_LONG, _LONG), "padding": (_LONG // 2, _LONG // 2)}
    assert lookup("max_pool2d").infer([(F32, (1, 1, _SIDE, _SIDE))], attrs)
    with pytest.raises(ChainError):
        lookup("max_pool2d").infer([(F32, (1, 1, _SIDE, _SIDE + 1))], attrs)


def test_a_dimension_of_0_may_stand_anywhere():
    """Also among reduced dimensions: the result has elements."""
    for shape in ((0, 1 << 20, 1 << 19), (1 << 20, 0, 1 << 19), (1 << 20, 1 << 19, 0)):
        assert lookup("sum").infer([(F32, shape)], {"dims": (0, 1, 2), "keepdim": 0}) == [(F32, ())]
        assert lookup("neg").infer([(F32, shape)], {}) == [(F32, shape)]


@pytest.mark.parametrize("shape", [(0, 1 << 22, 1 << 20), (1 << 22, 0, 1 << 20), (1 << 22, 1 << 20, 0)])
def test_what_no_library_holds_is_refused_in_every_order(shape):
    with pytest.raises(ShapeError):
        lookup("neg").infer([(F32, shape)], {})
    with pytest.raises(ShapeError):
        lookup("full").infer([], {"shape": shape, "dtype": F32, "bits": 0})


def test_refuses_unknown_names():
    with pytest.raises(UnknownOpError):
        lookup("softmax")
