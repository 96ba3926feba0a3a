"""Fused composites against torch's own kernels, side by side and by number of threads.

Both write into existing memory, as in a training loop, so the cost of allocation does not count. Adam updates its
parameters and moments in place; the fastest of torch's three implementations counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import repops
import torch
from repops.fuse import composites, fusion
from repops.tensors import Array, spec_of

from .contest import Case, draw

EPS = 1e-5
aten = torch.ops.aten


def _case(
    family: str,
    name: str,
    composite: Callable[..., Any],
    inputs: list[torch.Tensor],
    theirs: Callable[..., object],
    outputs: int = 1,
    **options: Any,
) -> Case:
    """Return a case. `theirs` is called with the outputs that it writes to."""
    arrays = [tensor.numpy() for tensor in inputs]
    kernel = fusion.fused(composite, map(spec_of, arrays), **options)
    if kernel is None:
        raise ValueError(f"{name} does not fuse")
    ours = [torch.from_numpy(array).clone() for array in kernel(arrays)]
    out: list[Array] = [tensor.numpy() for tensor in ours]
    found = [torch.empty_like(tensor) for tensor in ours]

    def check() -> None:
        kernel(arrays, out=out)
        theirs(*found)
        for a, b in zip(ours[:outputs], found[:outputs], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)

    return Case(family, name, lambda: kernel(arrays, out=out), [lambda: theirs(*found)], check)


def _rows() -> Iterator[Case]:
    for shape in ((512, 768), (1024, 1024), (6144, 128), (512, 50257)):
        n, what = shape[-1], f"{shape[0]} x {shape[1]}"
        x, grad, weight, bias = draw(*shape), draw(*shape), draw(n), draw(n)
        y = torch.softmax(x, -1)
        yield _case(
            "softmax",
            f"softmax {what}",
            composites.softmax,
            [x],
            lambda o, x=x: aten._softmax.out(x, -1, False, out=o),
        )
        yield _case(
            "softmax gradient",
            f"softmax gradient {what}",
            composites.softmax_grad,
            [grad, y],
            lambda o, grad=grad, y=y: aten._softmax_backward_data.out(
                grad, y, -1, torch.float32, grad_input=o
            ),
        )
        yield _case(
            "log softmax",
            f"log softmax {what}",
            composites.log_softmax,
            [x],
            lambda o, x=x: aten._log_softmax.out(x, -1, False, out=o),
        )
        if n > 4096:
            continue
        yield _case(
            "layer norm",
            f"layer norm {what}",
            composites.layer_norm,
            [x, weight, bias],
            lambda y, m, s, x=x, w=weight, b=bias, n=n: aten.native_layer_norm.out(
                x, [n], w, b, EPS, out0=y, out1=m, out2=s
            ),
            outputs=3,
            eps=EPS,
        )
        _, mean, scale = aten.native_layer_norm(x, [n], weight, bias, EPS)
        yield _layer_norm_gradients(what, grad, x, weight, bias, mean, scale)


def _layer_norm_gradients(
    what: str,
    grad: torch.Tensor,
    x: torch.Tensor,
    w: torch.Tensor,
    b: torch.Tensor,
    m: torch.Tensor,
    s: torch.Tensor,
) -> Case:
    """Compare all three gradients: that of the operand, and those of weight and bias, which are sums over the rows."""
    arrays = [tensor.numpy() for tensor in (grad, x, w, m, s)]
    kernel = fusion.fused(composites.layer_norm_grad, map(spec_of, arrays))
    assert kernel is not None
    out = [torch.empty_like(x).numpy() for _ in range(2)]
    execute = repops.backend("cpu").execute
    rows = {"dims": (0,), "keepdim": 0}

    def ours() -> list[Array]:
        input_grad, weighted = kernel(arrays, out=out)
        return [input_grad, execute("sum", [weighted], rows)[0], execute("sum", arrays[:1], rows)[0]]

    def theirs() -> Any:
        return aten.native_layer_norm_backward(grad, x, [x.shape[-1]], m, s, w, b, [True, True, True])

    def check() -> None:
        for a, t in zip(ours(), theirs(), strict=True):
            np.testing.assert_allclose(a, t.numpy(), rtol=1e-3, atol=1e-3, err_msg=what)

    return Case("layer norm gradients", f"layer norm gradients {what}", ours, [theirs], check)


def _activations() -> Iterator[Case]:
    for shape in ((32, 1024), (512, 3072), (1024, 1024)):
        what = f"{shape[0]} x {shape[1]}"
        x, grad = draw(*shape), draw(*shape)
        yield _case("gelu", f"gelu {what}", composites.gelu, [x], lambda o, x=x: aten.gelu.out(x, out=o))
        yield _case(
            "gelu gradient",
            f"gelu gradient {what}",
            composites.gelu_grad,
            [grad, x],
            lambda o, grad=grad, x=x: aten.gelu_backward.grad_input(grad, x, grad_input=o),
        )
        yield _case(
            "gelu (tanh)",
            f"gelu (tanh) {what}",
            composites.gelu_tanh,
            [x],
            lambda o, x=x: aten.gelu.out(x, approximate="tanh", out=o),
        )
        yield _case("silu", f"silu {what}", composites.silu, [x], lambda o, x=x: aten.silu.out(x, out=o))


def _adam() -> Iterator[Case]:
    options: dict[str, Any] = {"betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.0, "decoupled": False}
    for n in (1 << 16, 1 << 20, 1 << 22):
        p, grad, m = draw(n), draw(n), draw(n)
        v = m.abs()
        arrays = [tensor.numpy() for tensor in (p, grad, m, v)]
        arrays += [np.array(value, np.float32) for value in (3, 1e-3)]
        kernel = fusion.fused(composites.adam, map(spec_of, arrays), **options)
        assert kernel is not None
        theirs = []
        kinds: tuple[dict[str, Any], ...] = ({"fused": True}, {"foreach": True}, {})
        for kind in kinds:
            parameter = torch.nn.Parameter(p.clone())
            parameter.grad = grad
            theirs.append(torch.optim.Adam([parameter], lr=1e-3, **kind).step)
        yield Case(
            "adam",
            f"adam, {n} parameters",
            partial(
                lambda arrays, kernel: kernel(arrays, out=[arrays[0], arrays[2], arrays[3]]), arrays, kernel
            ),
            theirs,
            lambda: None,
        )


def cases() -> Iterator[Case]:
    yield from _rows()
    yield from _activations()
    yield from _adam()
