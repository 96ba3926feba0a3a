"""Bad input gives a typed error that names the argument, for every way to call an operator."""

import numpy as np
import pytest
import repops
import repops.torch as rt
import torch
from repops import reference
from repops.fuse import composites, fusion
from repops.host import cpu
from repops.opset import (
    BOOL,
    F32,
    I64,
    ArityError,
    AttrError,
    DtypeError,
    OpError,
    ShapeError,
    UnknownOpError,
)
from repops.tensors import AliasError, ArrayError
from repops.torch_executor import GradientError

A, B = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
GOOD = {
    "mm": ([A, B], {}),
    "add": ([A, A], {}),
    "sum": ([A], {"dims": (0,), "keepdim": 0}),
    "cat": ([A, A], {"dim": 0}),
    "reshape": ([A], {"shape": (12,)}),
    "take": ([A, np.zeros(2, np.int64)], {}),
}


def unaligned(shape):
    count = int(np.prod(shape))
    return np.frombuffer(bytearray(4 * count + 1), np.uint8)[1:].view(np.float32).reshape(shape)


class Subclass(np.ndarray):
    pass


# Arrays that must be refused, and their errors.
BAD_ARRAYS = {
    "list": (A.tolist(), ArrayError),
    "number": (1.0, ArrayError),
    "None": (None, ArrayError),
    "numpy scalar": (np.float32(1), ArrayError),
    "subclass": (A.view(Subclass), ArrayError),
    "masked": (np.ma.array(A), ArrayError),
    "float64": (A.astype(np.float64), DtypeError),
    "float16": (A.astype(np.float16), DtypeError),
    "int32": (A.astype(np.int32), DtypeError),
    "uint8": (A.astype(np.uint8), DtypeError),
    "complex": (A.astype(np.complex64), DtypeError),
    "object": (A.astype(object), DtypeError),
    "structured": (np.zeros((3, 4), [("x", "f4")]), DtypeError),
    "big-endian": (A.astype(">f4"), DtypeError),
    "transposed": (np.ones((4, 3), np.float32).T, ArrayError),
    "strided": (np.ones((3, 8), np.float32)[:, ::2], ArrayError),
    "negative stride": (A[::-1], ArrayError),
    "broadcast": (np.broadcast_to(np.float32(1), (3, 4)), ArrayError),
    "unaligned": (unaligned((3, 4)), ArrayError),
}


def places():
    for name, (inputs, _) in GOOD.items():
        yield from ((name, place) for place in range(len(inputs)))


@pytest.mark.parametrize("kind", BAD_ARRAYS)
@pytest.mark.parametrize("execute", [cpu.execute, reference.execute], ids=["cpu", "reference"])
def test_an_array_that_is_no_tensor(execute, kind):
    bad, error = BAD_ARRAYS[kind]
    for name, place in places():
        inputs, attrs = GOOD[name]
        given = [*inputs[:place], bad, *inputs[place + 1 :]]
        with pytest.raises(error) as caught:
            execute(name, given, attrs)
        argument = repops.opset.lookup(name).argument(place)
        assert str(caught.value).startswith(f"{name}: {argument} "), caught.value


@pytest.mark.parametrize("kind", BAD_ARRAYS)
def test_fused_expressions_and_plain_functions_refuse_the_same(kind):
    bad, error = BAD_ARRAYS[kind]
    with pytest.raises(error, match=r"^softmax_grad: y "):
        fusion.apply(composites.softmax_grad, A, bad)
    with pytest.raises(error, match=r"^softmax_grad: y "):
        fusion.fused(composites.softmax_grad, [(F32, (3, 4))] * 2)([A, bad])
    with pytest.raises(error, match=r"^add: b "):
        repops.add(A, bad)


BAD_CALLS = [
    ("add", [A], {}, ArityError, "a b"),
    ("add", [A, A, A], {}, ArityError, "a b"),
    ("cat", [], {"dim": 0}, ArityError, r"x\*"),
    ("softmax", [A], {}, UnknownOpError, "softmax"),
    ("mm", [A, np.ones((4, 5), np.int64)], {}, DtypeError, "mm: b"),
    ("add", [A, np.ones(4, np.int64)], {}, DtypeError, "a and b"),
    ("take", [A, A], {}, DtypeError, "take: idx"),
    ("where", [A, A, A], {}, DtypeError, "where: c"),
    ("cat", [A, A.astype(np.int64)], {"dim": 0}, DtypeError, r"cat: x\[1\]"),
    ("mm", [A, A], {}, ShapeError, r"a=\(3, 4\), b=\(3, 4\)"),
    ("add", [A, B], {}, ShapeError, r"a=\(3, 4\), b=\(4, 5\)"),
    ("cat", [A, B], {"dim": 0}, ShapeError, r"cat: x\[1\]"),
    ("reshape", [A], {"shape": (5,)}, ShapeError, "shape"),
    ("neg", [np.ones((1,) * 9, np.float32)], {}, ShapeError, "neg: a: rank above 8"),
]


@pytest.mark.parametrize(("name", "inputs", "attrs", "error", "words"), BAD_CALLS)
def test_what_does_not_fit_together(name, inputs, attrs, error, words):
    for execute in (cpu.execute, reference.execute):
        with pytest.raises(error, match=words):
            execute(name, inputs, attrs)


BAD_ATTRS = [
    (
        "dims",
        [True, 1.0, "0", None, {0}, 0, (True,), (0.0,), (np.int64(0),), np.array([0]), (-1,), (2,), (1, 0)],
    ),
    ("keepdim", [True, False, 2, -1, 0.0, "1", None, np.int64(1), np.bool_(True), (0,), 1 << 64]),
]


@pytest.mark.parametrize(
    ("attribute", "value"), [(name, value) for name, many in BAD_ATTRS for value in many]
)
def test_bad_attributes(attribute, value):
    good = {"dims": (0,), "keepdim": 1}
    for execute in (cpu.execute, reference.execute):
        # NOTE: the good call comes first, so that a value equal to a good one (True, 1.0) would meet a cached answer.
        execute("sum", [A], good)
        with pytest.raises(AttrError, match=f"sum: {attribute}|sum: dim out"):
            execute("sum", [A], {**good, attribute: value})


def test_attributes_missing_or_unknown():
    for attrs in ({"dims": (0,)}, {"dims": (0,), "keepdim": 0, "dim": 1}, {"dims": (0,), "keepdims": 0}):
        with pytest.raises(AttrError, match="wrong attributes"):
            cpu.execute("sum", [A], attrs)


@pytest.mark.parametrize(
    ("name", "inputs", "attrs"),
    [
        ("expand", [np.ones((1, 1), np.float32)], {"shape": (1 << 20, 1 << 20)}),
        ("expand", [np.ones((), np.float32)], {"shape": (1 << 40,)}),
        ("expand", [np.ones((), np.float32)], {"shape": (1 << 63, 2)}),
        ("full", [], {"shape": (1 << 39, 2), "dtype": F32, "bits": 0}),
        ("full", [], {"shape": (0, 1 << 40), "dtype": BOOL, "bits": 0}),
        ("arange", [], {"n": 1 << 40}),
        ("philox", [np.array(0), np.array(0)], {"shape": (1 << 14,) * 3, "dtype": I64, "site": 0}),
        ("mm", [np.ones((1 << 21, 0), np.float32), np.ones((0, 1 << 21), np.float32)], {}),
        ("add", [np.ones((1 << 20, 1), np.bool_).astype(np.int64), np.ones((1, 1 << 20), np.int64)], {}),
    ],
)
def test_sizes_that_overflow_are_refused_before_anything_is_allocated(name, inputs, attrs):
    for execute in (cpu.execute, reference.execute):
        with pytest.raises(ShapeError, match=r"2\^40"):
            execute(name, inputs, attrs)
    # The largest allowed size is limited only by memory.
    assert repops.opset.lookup("arange").infer([], {"n": (1 << 40) - 1})


# ---------------------------------------------------------------------------------------------------- out=


def bad_outs(shape, dtype=np.float32):
    locked = np.empty(shape, dtype)
    locked.flags.writeable = False
    wide = (*shape[:-1], 2 * shape[-1])
    return {
        "read-only": (locked, ArrayError),
        "strided": (np.empty(wide, dtype)[..., ::2], ArrayError),
        "unaligned": (unaligned(shape), ArrayError),
        "list": ([0.0], ArrayError),
        "subclass": (np.empty(shape, dtype).view(Subclass), ArrayError),
        "dtype": (np.empty(shape, np.float64), DtypeError),
        "shape": (np.empty(wide, dtype), ShapeError),
    }


@pytest.mark.parametrize("kind", bad_outs((3, 5)))
def test_bad_out(kind):
    bad, error = bad_outs((3, 5))[kind]
    with pytest.raises(error, match=r"^mm: out\[0\]"):
        cpu.execute("mm", [A, B], {}, out=[bad])
    flat, error = bad_outs((12,))[kind]
    with pytest.raises(error, match=r"^reshape: out\[0\]"):
        cpu.execute("reshape", [A], {"shape": (12,)}, out=[flat])
    row, error = bad_outs((3, 4))[kind]
    with pytest.raises(error, match=r"^softmax: out\[0\]"):
        fusion.apply(composites.softmax, A, out=[row])


def test_wrong_number_of_outs():
    for out in ([], [np.empty((3, 4), np.float32)] * 2):
        with pytest.raises(ArityError, match="add: out"):
            cpu.execute("add", [A, A], {}, out=out)


def test_out_must_not_overlap():
    x = np.ones(100, np.float32)
    for out in (x[:50], x[25:75], x[49:99]):
        with pytest.raises(AliasError, match=r"add: out\[0\] overlaps a"):
            cpu.execute("add", [x[:50], np.ones(50, np.float32)], {}, out=[out])
    with pytest.raises(AliasError, match="overlaps b"):
        repops.add(np.ones(50, np.float32), x[:50], out=x[10:60])
    with pytest.raises(AliasError, match=r"reshape.*overlaps x"):
        cpu.execute("reshape", [x], {"shape": (10, 10)}, out=[x.reshape(10, 10)])
    image = np.ones((1, 1, 2, 8), np.float32)
    pool = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
    memory = np.zeros(192, np.uint8)
    values = memory[:64].view(np.float32).reshape(image.shape)
    with pytest.raises(AliasError, match=r"out\[1\] overlaps out\[0\]"):
        repops.max_pool2d(image, **pool, out=(values, memory[56:184].view(np.int64).reshape(image.shape)))
    repops.max_pool2d(
        image, **pool, out=(values, memory[64:].view(np.int64).reshape(image.shape))
    )  # side by side
    assert cpu.execute("add", [x[:50], x[:50]], {}, out=[x[50:]])[0].sum() == 100
    empty = x[:0]
    assert repops.neg(empty, out=empty) is empty


@pytest.mark.parametrize("name", ["mm", "add", "sum", "reshape", "take", "cat"])
def test_out_is_what_is_returned(name):
    inputs, attrs = GOOD[name]
    (want,) = cpu.execute(name, inputs, attrs)
    out = np.full_like(want, 7)
    (got,) = cpu.execute(name, inputs, attrs, out=[out])
    assert got is out
    assert out.tobytes() == want.tobytes()


def test_large_outputs_start_at_a_cache_line():
    for size in (4096, 5000, 100_001):
        big = np.ones(size, np.float32)
        for array in (repops.neg(big), *fusion.apply(composites.relu, big)):
            assert array.ctypes.data % 64 == 0
            assert array.flags.writeable


# --------------------------------------------------------------------------------------------------- torch


X, Y = torch.ones(3, 4), torch.ones(4, 5)


def bad_tensors():
    return {
        "float64": (X.double(), DtypeError),
        "float16": (X.half(), DtypeError),
        "complex": (X.to(torch.complex64), DtypeError),
        "transposed": (torch.ones(4, 3).t(), ArrayError),
        "strided": (torch.ones(3, 8)[:, ::2], ArrayError),
        "expanded": (torch.ones(1).expand(3, 4), ArrayError),
        "sparse": (X.to_sparse(), ArrayError),
        "csr": (X.to_sparse_csr(), ArrayError),
        "mkldnn": (X.to_mkldnn(), ArrayError),
    }


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize(
    "kind",
    ["float64", "float16", "complex", "transposed", "strided", "expanded", "sparse", "csr", "mkldnn"],
)
def test_tensors(kind):
    bad, error = bad_tensors()[kind]
    with pytest.raises(error, match=r"^mm: a "):
        repops.mm(bad, Y)
    with pytest.raises(error, match=r"^add: b "):
        repops.add(X, bad)
    with pytest.raises(error, match=r"^mm: a "):
        rt.mm(bad, Y)
    with pytest.raises(error, match=r"^silu: x "):
        rt.operators.overload("silu")(bad)
    with pytest.raises(error, match=r"^neg: out\[0\] "):
        repops.neg(X, out=bad)


def test_a_view_that_negates_its_memory():
    view = torch.ones(3, 4, 2, dtype=torch.complex64).conj().imag[:, :, 0]
    with pytest.raises(ArrayError, match="neg: a is not a plain dense tensor"):
        repops.neg(view)
    assert torch.equal(rt.neg(view), torch.zeros(3, 4))  # PyTorch resolves it on the way to a custom operator


def test_devices():
    meta = X.to("meta")
    with pytest.raises(ArrayError, match="neg: a is on a device without an executor"):
        repops.neg(meta)
    with pytest.raises(ArrayError, match="add: b is not on the device of a"):
        repops.add(X, meta)
    with pytest.raises(ArrayError, match="add: b is not on the device of a"):
        rt.add(X, meta)
    assert rt.add(meta, meta).device.type == "meta"  # shapes only, as PyTorch's own operators


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu():
    with pytest.raises(Exception, match=r"(?i)cuda|gpu"):
        repops.backend("cuda")


def test_mixtures_and_subclasses():
    for arguments in ((X, A), (A, X), (X, 1.0), (X, torch.nn.Buffer(X).as_subclass(Wrapper))):
        with pytest.raises(ArrayError, match=r"add: [ab] is not a plain torch tensor"):
            repops.add(*arguments)
    with pytest.raises(ArrayError, match=r"out\[0\] is not a plain torch tensor"):
        repops.add(X, X, out=np.empty((3, 4), np.float32))
    with pytest.raises(ArrayError, match=r"add: a is not a plain torch tensor"):
        repops.add(A, A, out=torch.empty(3, 4))
    with pytest.raises(ArrayError, match="add: a is not a numpy array"):
        cpu.execute("add", [X, X], {})


class Wrapper(torch.Tensor):
    pass


def test_gradients_are_not_dropped():
    with pytest.raises(GradientError, match="add: b requires a gradient"):
        repops.add(X, torch.nn.Parameter(X))
    with pytest.raises(GradientError, match=r"add: out\[0\] requires a gradient"):
        repops.add(X, X, out=torch.nn.Parameter(X))
    with torch.no_grad():
        assert type(repops.add(X, torch.nn.Parameter(X))) is torch.Tensor


def test_out_of_tensors():
    out = torch.empty(3, 5)
    assert repops.mm(X, Y, out=out) is out
    assert torch.equal(out, torch.full((3, 5), 4.0))
    with pytest.raises(AliasError, match="overlaps a"):
        repops.neg(X, out=X)
    with pytest.raises(ShapeError, match=r"mm: out\[0\]"):
        repops.mm(X, Y, out=torch.empty(3, 4))
    with pytest.raises(DtypeError, match=r"mm: out\[0\]"):
        repops.mm(X, Y, out=torch.empty(3, 5, dtype=torch.int64))


def test_custom_operators_refuse_what_executors_refuse():
    calls = [
        (lambda: rt.mm(X, X), ShapeError, "a="),
        (lambda: rt.mm(X, Y.long()), DtypeError, "mm: b"),
        (lambda: rt.sum(X, dims=[2], keepdim=0), AttrError, "dim"),
        (lambda: rt.sum(X, dims=[0], keepdim=2), AttrError, "keepdim"),
        (lambda: rt.cast(X, dtype=torch.float64), AttrError, "dtype"),
        (lambda: rt.expand(X[:1].contiguous(), shape=[1 << 20, 1 << 20, 4]), ShapeError, r"2\^40"),
        (lambda: rt.arange(n=1 << 40), ShapeError, r"2\^40"),
        (lambda: rt.cat([X, Y], dim=0), ShapeError, r"cat: x\[1\]"),
        (lambda: rt.operators.overload("layer_norm")(X, X[0, :3], X[0], eps=1e-5), ShapeError, "weight="),
    ]
    for call, error, words in calls:
        with pytest.raises(error, match=words):
            call()
        assert issubclass(error, OpError)
    for bad in ({"dims": [0]}, {"dims": [0], "keepdim": 0, "dim": 0}, {"dims": ["0"], "keepdim": 0}):
        with pytest.raises(
            (RuntimeError, TypeError), match="repops::sum"
        ):  # PyTorch's own check of the schema
            rt.sum(X, **bad)


def test_numpy_users_need_no_torch():
    import subprocess
    import sys

    code = "import sys, repops, numpy as np; repops.neg(np.ones(3, np.float32)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
