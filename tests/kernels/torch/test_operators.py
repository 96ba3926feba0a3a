"""repops.torch's operators: registered as torch.library requires, the executor's bits, gradients as in float64."""

from typing import Any

import numpy as np
import pytest
import repops
import repops.torch as rt
import torch
from repops.host import cpu
from repops.opset import OPS, Dtype, lookup
from repops.random_calls import random_call
from repops.tensors import canonical
from repops.torch.autograd import RULES
from repops.torch_arrays import TORCH_DTYPE, from_numpy, to_numpy

NAMES = [op.name for op in OPS]
SOURCES = ("full", "arange")
WITHOUT_GRADIENT = {
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not"),
    *("argmax", "full", "arange", "philox"),
}


def torch_call(name, seed, scale="tiny"):
    """Return arguments for `rt.<name>`, and the executor's result."""
    inputs, attrs = random_call(name, seed, scale)
    tensors = [from_numpy(array.copy()) for array in inputs]
    given = {key: TORCH_DTYPE[v] if isinstance(v, Dtype) else v for key, v in attrs.items()}
    if "bits" in given and given["bits"] >= 1 << 63:
        given["bits"] -= 1 << 64  # as a schema's int
    return [tensors] if lookup(name).arity is None else tensors, given, cpu.execute(name, inputs, attrs)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_the_executors(name):
    for seed in range(30):
        tensors, attrs, want = torch_call(name, seed)
        got = getattr(rt, name)(*tensors, **attrs)
        for a, b in zip(got if isinstance(got, tuple) else [got], want, strict=True):
            assert canonical(to_numpy(a)).tobytes() == canonical(b).tobytes(), (name, seed)
            assert tuple(a.shape) == b.shape


@pytest.mark.parametrize("name", NAMES)
def test_torch_library_accepts_the_registration(name):
    done = 0
    for seed in range(100):
        tensors, attrs, results = torch_call(name, seed)
        flat = tensors[0] if name == "cat" else tensors
        if any(x.numel() == 0 for x in flat) or not all(np.isfinite(result).all() for result in results):
            continue  # opcheck treats a NaN as a difference
        if name not in WITHOUT_GRADIENT:
            flat[:] = [x.requires_grad_() if x.is_floating_point() else x for x in flat]
        torch.library.opcheck(getattr(rt, name), tuple(tensors), attrs)
        done += 1
        if done == 2:
            break
    assert done


def test_every_other_operator_has_a_gradient():
    assert {name for name in NAMES if name not in RULES} == WITHOUT_GRADIENT


# Each operator in PyTorch, for tensors of any float type.
WINDOW = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
GROUPED: dict[str, Any] = {**WINDOW, "groups": 2}
POOL = {**WINDOW, "dilation": (1, 1), "kernel": (3, 3), "padding": (1, 1)}
MASK = torch.arange(12).reshape(3, 4) % 3 == 0
INDEX = torch.tensor([[2, 0], [2, 1]])


def at_convolution(dy, other, of):
    shapes = {"input": (2, 4, 9, 8), "weight": (6, 2, 3, 2)}
    x, w = (
        other if of != name else torch.zeros(shapes[name], dtype=dy.dtype) for name in ("input", "weight")
    )
    function = torch.nn.grad.conv2d_input if of == "input" else torch.nn.grad.conv2d_weight
    options = {**WINDOW, "groups": 2}
    return function(x.shape, w, dy, **options) if of == "input" else function(x, w.shape, dy, **options)


def plain(name):
    return lambda *tensors: getattr(torch, name)(*tensors)


T, A, B = torch, (3, 1, 4), (5, 4)
CASES = {
    **{name: (plain(name), [A, B], {}) for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow")},
    **{
        name: (plain(name), [(3, 4)], {})
        for name in ("neg", "sqrt", "rsqrt", "exp", "log", "log1p", "erf", "tanh", "sin", "cos")
    },
    "where": (lambda a, b: T.where(MASK, a, b), [(3, 4), (4,)], {}),
    "cast": (lambda a: a * 1, [(3, 4)], {"dtype": torch.float32}),
    "sum": (lambda x: x.sum((0, 2)), [(3, 4, 5)], {"dims": [0, 2], "keepdim": 0}),
    "amax": (lambda x: x.amax((0, 2), keepdim=True), [(3, 4, 5)], {"dims": [0, 2], "keepdim": 1}),
    "mm": (plain("mm"), [(3, 4), (4, 5)], {}),
    "bmm": (plain("bmm"), [(2, 3, 4), (2, 4, 5)], {}),
    "conv2d": (lambda x, w: T.nn.functional.conv2d(x, w, **GROUPED), [(2, 4, 9, 8), (6, 2, 3, 2)], GROUPED),
    "conv2d_input_grad": (
        lambda dy, w: at_convolution(dy, w, "input"),
        [(2, 6, 5, 10), (6, 2, 3, 2)],
        {**GROUPED, "input_hw": (9, 8)},
    ),
    "conv2d_weight_grad": (
        lambda dy, x: at_convolution(dy, x, "weight"),
        [(2, 6, 5, 10), (2, 4, 9, 8)],
        {**GROUPED, "kernel_hw": (3, 2)},
    ),
    "max_pool2d": (lambda x: T.nn.functional.max_pool2d(x, (3, 3), (2, 1), (1, 1)), [(2, 3, 7, 6)], POOL),
    "take": (lambda x: x[INDEX], [(3, 4)], {}),
    "scatter_add": (
        lambda base, src: base.index_add(0, INDEX.flatten(), src.flatten(0, 1)),
        [(3, 4), (2, 2, 4)],
        {},
    ),
    "reshape": (lambda x: x.reshape(4, 3), [(3, 4)], {"shape": [4, 3]}),
    "permute": (lambda x: x.permute(2, 0, 1), [(3, 4, 5)], {"dims": [2, 0, 1]}),
    "expand": (lambda x: x.expand(2, 3, 4), [(3, 1)], {"shape": [2, 3, 4]}),
    "slice": (lambda x: x[:, 1:6:2], [(3, 8)], {"dim": 1, "start": 1, "stop": 6, "step": 2}),
    "cat": (lambda a, b: T.cat([a, b], 1), [(3, 4), (3, 2)], {"dim": 1}),
}


def ours(name, tensors, attrs):
    if name == "where":
        return rt.where(MASK, *tensors)
    if name in ("take", "scatter_add"):
        return getattr(rt, name)(tensors[0], INDEX, *tensors[1:])
    if name == "cat":
        return rt.cat(tensors, **attrs)
    result = getattr(rt, name)(*tensors, **attrs)
    return result[0] if isinstance(result, tuple) else result


def test_the_cases_are_all_that_have_a_gradient():
    """NOTE: PyTorch has no cast that rounds at random."""
    assert {*CASES, "cast_stochastic"} == {name for name in RULES if name in NAMES}


def test_gradients_of_bfloat16_are_those_of_torch():
    a, b, weights = (torch.randn(shape).bfloat16() for shape in ((5, 4), (4, 3), (5, 3)))
    chosen, index = torch.rand(5, 3) < 0.5, torch.tensor([1, 0, 1])

    def found(mm, where, take, cut, to):
        x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
        z = where(chosen, mm(x, y), weights)
        total = (to(take(z, index)) * to(cut(weights))).sum()
        return torch.autograd.grad(total, [x, y])

    theirs = found(torch.mm, torch.where, lambda x, i: x[i], lambda x: x[1:4], lambda x: x.float())
    mine = found(
        rt.mm,
        rt.where,
        rt.take,
        lambda x: rt.slice(x, dim=0, start=1, stop=4, step=1),
        lambda x: rt.cast(x, dtype=torch.float32),
    )
    for got, want in zip(mine, theirs, strict=True):
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got, want)
    x = torch.randn(6).requires_grad_()
    rounded = rt.cast(rt.cast_stochastic(x, torch.arange(6)), dtype=torch.float32)
    (grad,) = torch.autograd.grad(rounded.sum(), x)
    assert torch.equal(grad, torch.ones(6))


def gradients(y, tensors, weights):
    """Return first derivatives, and those of a scalar made of them."""
    first = torch.autograd.grad(y, tensors, weights[0].to(y.dtype), create_graph=True, allow_unused=True)
    first = [torch.zeros_like(x) if g is None else g for g, x in zip(first, tensors, strict=True)]
    total = sum((g * w.to(g.dtype)).sum() for g, w in zip(first, weights[1:], strict=True))
    if not total.requires_grad:
        return first, [torch.zeros_like(x) for x in tensors]
    second = torch.autograd.grad(total, tensors, allow_unused=True)
    return first, [torch.zeros_like(x) if g is None else g for g, x in zip(second, tensors, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, shapes, attrs = CASES[name]
    random = torch.Generator().manual_seed(5)
    draw = lambda shape: torch.rand(shape, generator=random) + 0.5  # noqa: E731  (positive, for log and pow)
    tensors = [draw(shape).requires_grad_() for shape in shapes]
    exact = [x.detach().double().requires_grad_() for x in tensors]
    y, want = ours(name, tensors, attrs), function(*exact)
    torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-5)
    weights = [draw(y.shape), *map(draw, shapes)]
    for mine, theirs in zip(gradients(y, tensors, weights), gradients(want, exact, weights), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


def test_ties():
    x = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
    rt.amax(x, dims=[0], keepdim=0).backward()
    assert x.grad.tolist() == [0, 0.5, 0.5]
    a, b = (torch.tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(2))
    rt.maximum(a, b).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [0.5] * 3


def test_windows_of_padding_give_their_gradient_to_nobody():
    x = torch.ones(1, 2, 2, 2, requires_grad=True)
    values, indices = rt.max_pool2d(x, kernel=[2, 2], stride=[1, 1], padding=[2, 2], dilation=[3, 3])
    assert (indices == -1).any()
    values.sum().backward()
    assert x.grad.sum() == (indices >= 0).sum()


def test_compiles():
    @torch.compile(backend="aot_eager", fullgraph=True)
    def network(x, w):
        return rt.functional.softmax(rt.functional.gelu(rt.mm(x, w))).sum()

    grads = []
    for function in (network, network._torchdynamo_orig_callable):
        x, w = torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), torch.ones(4, 3)
        x.requires_grad_()
        function(x, w).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


def test_traces_with_fake_tensors():
    def step(x):
        return rt.sum(rt.exp(x), dims=[0], keepdim=0)

    graph = torch.fx.experimental.proxy_tensor.make_fx(step, tracing_mode="fake")(torch.ones(3, 4))
    assert [node.target for node in graph.graph.nodes if node.op == "call_function"] == [
        torch.ops.repops.exp.default,
        torch.ops.repops.sum.default,
    ]


def test_plain_functions_lose_no_gradient_unnoticed():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(rt.GradientError, match=r"exp: a .*repops.torch.exp"):
        repops.exp(x)
    with torch.no_grad():
        assert repops.exp(x).shape == (3,)
    assert repops.exp(x.detach()).requires_grad is False
