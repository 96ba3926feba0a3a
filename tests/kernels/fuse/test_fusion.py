"""A fused expression gives the bits of its operators one by one, on every path."""

import contextlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from repops import reference
from repops.fuse import composites as c
from repops.fuse import fusion
from repops.fuse.expression import Eager, Recorder, evaluate, record
from repops.fuse.phases import NotFusibleError
from repops.host import cpu
from repops.host.library import BEST_ISA
from repops.opset import F32, ArityError, DtypeError, OpError, ShapeError, UnknownOpError
from repops.selftest import random_call
from repops.tensors import AliasError, ArrayError, spec_of

from tests.kernels.fuse.fused import ROWS, SHAPES, check, draw, one_by_one, same, scalar


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", [c.relu, c.sigmoid, c.silu, c.gelu, c.gelu_tanh])
def test_activations(function, shape):
    check(function, draw(shape), fuses=0 not in shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "function", [c.relu_grad, c.sigmoid_grad, c.tanh_grad, c.silu_grad, c.gelu_grad, c.gelu_tanh_grad]
)
def test_gradients_of_activations(function, shape):
    check(function, draw(shape, 1), draw(shape, 2), fuses=0 not in shape)


@pytest.mark.parametrize("shape", ROWS)
def test_rows(shape):
    fuses = 0 not in shape and shape[-1] > 1
    x, grad, weight, bias = draw(shape), draw(shape, 1), draw(shape[-1:], 2), draw(shape[-1:], 3)
    mean, scale = draw((*shape[:-1], 1), 4), draw((*shape[:-1], 1), 5)
    for function in (c.softmax, c.log_softmax):
        check(function, x, fuses=fuses)
    for function in (c.softmax_grad, c.log_softmax_grad):
        check(function, grad, x, fuses=fuses)
    check(c.layer_norm, x, weight, bias, eps=1e-5, fuses=fuses)
    check(c.layer_norm_grad, grad, x, weight, mean, scale, fuses=fuses)
    check(c.rms_norm, x, weight, eps=1e-6, fuses=fuses)
    check(c.rms_norm_grad, grad, x, weight, scale, fuses=fuses)


@pytest.mark.parametrize("shape", [(2, 3, 1025), (17, 4097), (2, 9000), (9001,)])
def test_outputs_that_go_past_the_caches(shape, monkeypatch):
    monkeypatch.setattr(fusion, "STREAM_BYTES", 0)
    x, grad, weight = draw(shape), draw(shape, 1), draw(shape[-1:], 2)
    mean, scale = draw((*shape[:-1], 1), 4), draw((*shape[:-1], 1), 5)
    fusion._compiled.cache_clear()
    try:
        kernel = fusion.fused(c.relu, [spec_of(x)])
        assert kernel._plan(BEST_ISA)[0].streams
        same(kernel([x.copy()], out=[out := x.copy()]), one_by_one(c.relu, [x], {}))
        same(kernel([out], out=[out]), one_by_one(c.relu, [x], {}))  # in place
        check(c.log_softmax, x)
        check(c.softmax_grad, grad, x)
        check(c.layer_norm_grad, grad, x, weight, mean, scale)
        check(lambda o, a, b: (o.lt(a, b), o.add(a, b)), x, grad)  # an item of one byte too
        if len(shape) > 1:
            check(
                c.cross_entropy_grad,
                draw((*shape[:-1], 1)),
                x,
                np.ones((*shape[:-1], 1), int),
                np.arange(shape[-1]),
            )
    finally:
        fusion._compiled.cache_clear()


@pytest.mark.parametrize(("n", "classes"), [(5, 7), (3, 5000), (1, 2)])
def test_cross_entropy(n, classes):
    x, target = draw((n, classes), special=False), np.arange(n)[:, None] * 3 % (classes + 1) - 1
    check(c.cross_entropy, x, target, np.arange(classes))
    check(c.cross_entropy_grad, draw((n, 1)), x, target, np.arange(classes))
    (losses,) = fusion.apply(c.cross_entropy, x, target, np.arange(classes))
    chosen = np.take_along_axis(x.astype(np.float64), np.maximum(target, 0), 1)
    want = np.log(np.exp(x.astype(np.float64)).sum(1, keepdims=True)) - chosen
    np.testing.assert_allclose(losses, np.where(target < 0, 0, want), rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_optimizers(shape):
    p, grad, m, v = (draw(shape, seed) for seed in range(4))
    fuses = 0 not in shape
    check(c.sgd, p, grad, scalar(0.1), decay=0.01, fuses=fuses)
    check(c.momentum_sgd, p, grad, m, scalar(0.1), momentum=0.9, decay=0.0, fuses=fuses)
    for decay, decoupled in ((0.0, False), (0.01, False), (0.01, True)):
        options = {"betas": (0.9, 0.999), "eps": 1e-8, "decay": decay, "decoupled": decoupled}
        check(c.adam, p, grad, m, v, scalar(3), scalar(1e-3), **options, fuses=fuses)


def test_operands_of_fewer_dimensions_and_other_types():
    def mixed(o, x, row, column, flags, numbers):
        chosen = o.where(o.logical_and(flags, o.ge(x, row)), o.sub(column, x), o.cast(numbers, dtype=F32))
        return chosen, o.mul(numbers, numbers), o.cast(chosen, dtype=3), o.lt(o.neg(x), column)

    flags = draw((6, 1, 33)) > 0
    numbers = np.random.default_rng(1).integers(-9, 9, (6, 5, 33))
    check(mixed, draw((6, 5, 33)), draw((33,)), draw((5, 1)), flags, numbers)


def test_a_row_of_many_blocks():
    """Block results are reduced by the same rule, in f32 and i64."""

    def both(o, x, k):
        return o.mul(x, o.sum(x, dims=(1,), keepdim=1)), o.add(k, o.amax(k, dims=(1,), keepdim=1))

    n = 4096 * 5 + 17
    check(both, draw((2, n), special=False), np.random.default_rng(2).integers(-(2**62), 2**62, (2, n)))


def test_fused_softmax_is_the_references():
    x = draw((7, 130))
    same(fusion.apply(c.softmax, x), one_by_one(c.softmax, [x], {}, reference.execute))


def test_random_chains():
    """Expressions of random elementwise operators on random data."""
    names = ("add", "sub", "mul", "div", "maximum", "minimum")
    for seed in range(60):
        rng = np.random.default_rng(seed)

        def chain(o, *values, rng=rng):
            values = list(values)
            for _ in range(rng.integers(1, 30)):
                a, b = rng.choice(len(values), 2)
                values.append(getattr(o, names[rng.integers(len(names))])(values[a], values[b]))
            return o.add(values[-1], values[0])

        shape = tuple(rng.integers(1, 40, rng.integers(1, 4)))
        inputs = [draw(shape, seed), draw(shape[-1:], seed + 1), draw((*shape[:-1], 1), seed + 2)]
        expression = record(chain, list(map(spec_of, inputs)))
        same(fusion.Fused(expression)(inputs), evaluate(expression, cpu.execute, inputs))


def adam_arrays():
    return [draw((5000,), seed, special=False) for seed in range(4)] + [scalar(2), scalar(0.01)]


ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.1, "decoupled": True}


def test_adam_has_a_loop_of_its_own():
    inputs = adam_arrays()
    assert isinstance(fusion.fused(c.adam, map(spec_of, inputs), **ADAM), fusion.FusedAdam)
    of_rows = [np.zeros((5000, 1), np.float32), *inputs[1:]]
    assert not isinstance(fusion.fused(c.adam, map(spec_of, of_rows), **ADAM), fusion.FusedAdam)


def test_results_may_replace_what_is_read_no_more():
    inputs = adam_arrays()
    want = fusion.apply(c.adam, *inputs, **ADAM)
    kernel = fusion.fused(c.adam, map(spec_of, inputs), **ADAM)
    got = kernel(inputs, out=[inputs[0], inputs[2], inputs[3]])
    same(got, want)
    assert got[0] is inputs[0]


def test_other_overlaps_are_refused():
    inputs = adam_arrays()
    kernel = fusion.fused(c.adam, map(spec_of, inputs), **ADAM)
    free = [np.empty(5000, np.float32) for _ in range(3)]
    with pytest.raises(AliasError, match=r"adam: out\[1\] overlaps grad"):
        kernel(inputs, out=[free[0], inputs[1], free[2]])  # the gradient is still read for v
    with pytest.raises(AliasError, match=r"adam: out\[2\] overlaps out\[0\]"):
        kernel(inputs, out=[free[0], free[1], free[0]])
    big = np.zeros(6000, np.float32)
    shifted = [big[:5000], *inputs[1:]]
    with pytest.raises(AliasError, match=r"adam: out\[0\] overlaps p"):
        kernel(shifted, out=[big[1:5001], free[1], free[2]])


def test_elementary_functions_never_write_what_they_read():
    """They read a hard case's operand again after its neighbours are written."""
    x = draw((300,), special=False)
    with pytest.raises(AliasError, match="overlaps x"):
        fusion.apply(lambda o, x: o.erf(x), x, out=[x])


@pytest.mark.parametrize("function", ["exp", "log", "erf", "tanh", "sin", "cos"])
def test_a_row_of_a_function_is_not_kept_where_its_operand_is(function):
    """Hard cases read their operand again, so a result in the operand's memory may not hold the row meanwhile."""

    def centred(o, x):
        values = getattr(o, function)(x)
        return o.sub(values, o.mul(o.sum(values, dims=(1,), keepdim=1), o.scalar(0.25)))

    x = draw((20, 7))
    x[4, 3], x[5, 2], x[6, 6] = 1880.1028, -626.7, 3e38
    kernel = fusion.fused(centred, [spec_of(x)])
    want = one_by_one(centred, [x], {})
    for isa in range(BEST_ISA + 1):
        out = x.copy()
        same(kernel([out], out=[out], isa=isa), want)


@pytest.mark.parametrize("kept_first", [True, False])
def test_a_power_is_not_written_where_its_kept_operand_is(kept_first):
    """pow reads hard cases again too: 4097 squared lies between two numbers."""

    def power(o, x):
        row = o.neg(x)
        total = o.sum(row, dims=(1,), keepdim=1)
        return o.pow(row, total) if kept_first else o.pow(total, row)

    x = np.zeros((1, 64), np.float32)
    x[0, 5:7] = (-4097, 4095) if kept_first else (-2, -4095)
    check(power, x)


@pytest.mark.parametrize("seed", range(60))
def test_inputs_with_strides(seed):
    """Short and long rows, whole or sliced, the same for some rows, or one item per row."""
    random = np.random.default_rng(seed)
    shape = (*random.integers(1, 7, 2).tolist(), int(random.choice([1, 3, 16, 40, 1500])))
    arrays, specs, strides = [], [], []
    for _ in range(3):
        own = [1 if random.random() < 0.3 else d for d in shape]
        own[2] = shape[2] if random.random() < 0.7 else 1
        whole = random.standard_normal([d + int(random.integers(3)) for d in own], dtype=np.float32)
        if random.random() < 0.5:
            whole = np.ascontiguousarray(whole.transpose(1, 0, 2)).transpose(1, 0, 2)
        view = whole[: own[0], : own[1], : own[2]]
        arrays.append(view)
        specs.append((F32, tuple(own)))
        strides.append(tuple(s // 4 for s in view.strides))

    def rows(o, a, b, d):
        full = o.add(o.add(o.exp(a), o.mul(b, d)), o.full(shape=(), dtype=F32, bits=0))
        total = o.sum(full, dims=(2,), keepdim=1) if shape[2] > 1 and full.shape[2] > 1 else d
        return o.sub(full, o.tanh(total))

    expression = record(rows, specs)
    if expression.spec(expression.outputs[0])[1] != shape:
        return  # every operand is the same for some rows
    if shape[2] == 1:
        with contextlib.suppress(NotFusibleError):  # the row is then a dimension that may have gaps
            fusion.Fused(expression, strides)
        return
    kernel = fusion.Fused(expression, strides)
    out = np.empty(shape, np.float32)
    addresses = [array.__array_interface__["data"][0] for array in (*arrays, out)]
    kernel.bind(addresses)(int(random.integers(1, 4)), cpu.get_isa())
    same([out], evaluate(expression, cpu.execute, [np.ascontiguousarray(a) for a in arrays]))


def test_bad_out_is_refused():
    inputs = adam_arrays()
    kernel = fusion.fused(c.adam, map(spec_of, inputs), **ADAM)
    free = [np.empty(5000, np.float32) for _ in range(3)]
    locked = np.empty(5000, np.float32)
    locked.flags.writeable = False
    with pytest.raises(ArityError):
        kernel(inputs, out=free[:2])
    for error, bad in (
        (ArrayError, locked),
        (ArrayError, np.empty(10000, np.float32)[::2]),
        (ShapeError, np.empty(4999, np.float32)),
        (DtypeError, np.empty(5000, np.int64)),
    ):
        with pytest.raises(error, match=r"adam: out\[2\]"):
            kernel(inputs, out=[*free[:2], bad])


def test_inputs_must_be_those_of_the_expression():
    kernel = fusion.fused(c.relu, [(F32, (3, 4))])
    with pytest.raises(OpError):
        kernel([draw((4, 3))])


@pytest.mark.parametrize("name", ["mm", "permute", "argmax", "take"])
def test_what_is_no_single_pass_is_done_one_by_one(name):
    inputs, attrs = random_call(name, 3)
    function = lambda o, *values: getattr(o, name)(*values, **attrs)  # noqa: E731
    assert fusion.fused(function, map(spec_of, inputs)) is None
    same(fusion.apply(function, *inputs), cpu.execute(name, inputs, attrs))


def test_reductions_of_other_dimensions_are_done_one_by_one():
    def first(o, x):
        return o.sub(x, o.sum(x, dims=(0,), keepdim=1))

    check(first, draw((4, 5)), fuses=False)


def test_unknown_operators_are_refused():
    for ops in (Eager(cpu.execute), Recorder([])):
        with pytest.raises(UnknownOpError):
            _ = ops.softmax


def test_every_composite_stands_in_the_specification():
    section = (
        (Path(__file__).parents[3] / "docs/opset.md")
        .read_text()
        .split("## 10. Composites")[1]
        .split("## 11.")[0]
    )
    names = {
        name for name, value in vars(c).items() if inspect.isfunction(value) and not name.startswith("_")
    }
    attention = {"attention_weights_masked", "attention_weights_biased"}  # in the row of attention_weights
    assert [name for name in names - attention if f"| `{name}" not in section] == []
