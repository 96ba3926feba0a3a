"""Composites that executors fuse are in the program: their operators, wired as the expression says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from repops import reference
from repops.fuse import composites
from repops.fuse.expression import Expression, live, record
from repops.opset import F32, I64
from torch import nn

from assay_capture.capture import SGD, Adam, Optimizer, capture, sketch
from assay_capture.capture.recipes import synthetic
from assay_capture.capture.seeded import data_order
from referee_py.program import Kind, Operand, Skeleton

from ..families import EXAMPLES, family

N = 8
ORDER = data_order(1, EXAMPLES, N, 2)
Spec = tuple[Any, tuple[int, ...]]


def occurrences(expression: Expression, skeleton: Skeleton) -> int:
    """Count occurrences of the expression in the graph: every operator, attribute and edge, on matching operands."""
    nodes = dict(live(expression))
    known = scalars(expression)

    def unify(number: int, operand: Operand, bound: dict[int, Operand]) -> bool:
        if number in bound:
            return bound[number] == operand
        bound[number] = operand
        if number < len(expression.inputs):
            type_ = _type(skeleton, operand)
            return (type_.dtype, type_.shape) == expression.inputs[number]
        if operand.kind != Kind.NODE:
            return False
        node, found = nodes[number], skeleton.nodes[operand.index]
        if found.name == "full" and number in known:
            return found.attrs["bits"] == known[number]
        return (
            node.op == found.name
            and dict(node.attrs)
            == {k: tuple(v) if isinstance(v, list) else v for k, v in found.attrs.items()}
            and len(node.inputs) == len(found.inputs)
            and all(unify(i, o, bound) for i, o in zip(node.inputs, found.inputs, strict=True))
        )

    def whole(last: int) -> bool:
        """Return whether the final output is the operand, and the other outputs are reached from it or in the graph."""
        bound: dict[int, Operand] = {}
        if not unify(expression.outputs[0], Operand(Kind.NODE, last), bound):
            return False
        rest = [output for output in expression.outputs[1:] if output not in bound]
        return all(
            any(unify(output, Operand(Kind.NODE, k), dict(bound)) for k in range(len(skeleton.nodes)))
            for output in rest
        )

    return sum(whole(k) for k in range(len(skeleton.nodes)))


def scalars(expression: Expression) -> dict[int, int]:
    """Return the bits of its numbers that depend on no input: 1 - beta is a number in a program, not a node."""
    values: dict[int, Any] = {}
    for number, node in live(expression):
        if node.spec == (F32, ()) and all(i in values for i in node.inputs):
            inputs = [values[i] for i in node.inputs]
            values[number] = reference.execute(node.op, inputs, dict(node.attrs))[0]
    return {number: int(value.view("<u4")) for number, value in values.items()}


def _type(skeleton: Skeleton, operand: Operand) -> Any:
    match operand.kind:
        case Kind.NODE:
            return skeleton.nodes[operand.index].outputs[operand.output]
        case Kind.SLOT:
            return skeleton.initial[operand.index]
    return skeleton.constants[operand.index]


def skeleton_of(module: nn.Module, features: tuple[int, ...], optimizer: Optimizer | None = None) -> Skeleton:
    """Capture the module between a layer that makes gradients flow through it, and a cross-entropy."""
    x, y = synthetic.images(1, EXAMPLES, features, 4)
    return sketch(
        module, nn.functional.cross_entropy, optimizer or SGD(0.1), {"x": x, "y": y}, ORDER
    ).skeleton


def between(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 6), layer, nn.Linear(6, 4))


def image(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 6, 3), layer, nn.Flatten(), nn.Linear(24, 4))


ROWS, WIDE, SCALAR, EACH = (F32, (N, 6)), (F32, (6,)), (F32, ()), (F32, (N, 1))
PLANES, CHANNEL, STATISTIC = (F32, (N, 6, 4)), (F32, (6, 1)), (F32, (1, 6, 1))
SCORES = (F32, (N, 4))

Case = tuple[nn.Module, tuple[int, ...], list[tuple[Callable[..., Any], list[Spec], dict[str, Any]]]]
CASES: dict[str, Case] = {
    "relu": (
        between(nn.ReLU()),
        (6,),
        [(composites.relu, [ROWS], {}), (composites.relu_grad, [ROWS, ROWS], {})],
    ),
    "sigmoid": (
        between(nn.Sigmoid()),
        (6,),
        [(composites.sigmoid, [ROWS], {}), (composites.sigmoid_grad, [ROWS, ROWS], {})],
    ),
    "tanh": (between(nn.Tanh()), (6,), [(composites.tanh_grad, [ROWS, ROWS], {})]),
    "silu": (
        between(nn.SiLU()),
        (6,),
        [(composites.silu, [ROWS], {}), (composites.silu_grad, [ROWS, ROWS], {})],
    ),
    "gelu": (
        between(nn.GELU()),
        (6,),
        [(composites.gelu, [ROWS], {}), (composites.gelu_grad, [ROWS, ROWS], {})],
    ),
    "gelu by tanh": (
        between(nn.GELU("tanh")),
        (6,),
        [(composites.gelu_tanh, [ROWS], {}), (composites.gelu_tanh_grad, [ROWS, ROWS], {})],
    ),
    "softmax": (
        between(nn.Softmax(-1)),
        (6,),
        [(composites.softmax, [ROWS], {}), (composites.softmax_grad, [ROWS, ROWS], {})],
    ),
    "log softmax": (
        between(nn.LogSoftmax(-1)),
        (6,),
        [(composites.log_softmax, [ROWS], {}), (composites.log_softmax_grad, [ROWS, ROWS], {})],
    ),
    "cross-entropy": (
        nn.Linear(6, 4),
        (6,),
        [
            (composites.cross_entropy, [SCORES, (I64, (N, 1)), (I64, (4,))], {}),
            (composites.cross_entropy_grad, [SCALAR, SCORES, (I64, (N, 1)), (I64, (4,))], {}),
        ],
    ),
    "layer norm": (
        between(nn.LayerNorm(6)),
        (6,),
        [
            (composites.layer_norm, [ROWS, WIDE, WIDE], {"eps": 1e-5}),
            (composites.layer_norm_grad, [ROWS, ROWS, WIDE, EACH, EACH], {}),
        ],
    ),
    "rms norm": (
        between(nn.RMSNorm(6, eps=1e-6)),
        (6,),
        [
            (composites.rms_norm, [ROWS, WIDE], {"eps": 1e-6}),
            (composites.rms_norm_grad, [ROWS, ROWS, WIDE, EACH], {}),
        ],
    ),
    "batch norm": (
        image(nn.BatchNorm2d(6)),
        (2, 4, 4),
        [
            (composites.batch_norm, [PLANES, CHANNEL, CHANNEL], {"eps": 1e-5}),
            (composites.batch_norm_grad, [PLANES, PLANES, CHANNEL, STATISTIC, STATISTIC], {}),
            (composites.running_average, [WIDE, WIDE], {"momentum": 0.1}),
        ],
    ),
    "dropout": (between(nn.Dropout(0.25)), (6,), [(composites.dropout, [ROWS, ROWS], {"p": 0.25})]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_layer_is_its_composite_and_the_gradients_composite(name: str) -> None:
    module, features, expected = CASES[name]
    skeleton = skeleton_of(module, features)
    for function, specs, options in expected:
        assert occurrences(record(function, specs, **options), skeleton) >= 1, function.__name__


def test_attention_is_a_composite_too() -> None:
    """GPT-2: 8 sequences, 4 heads, 16 tokens; two layers."""
    member = family("gpt2")
    skeleton = capture(member.module, None, SGD(0.1), member.data, ORDER).program.skeleton
    scores = (F32, (N, 4, 16, 16))
    found = [
        occurrences(record(composites.attention_weights_grad, [scores, scores], scale=8**-0.5), skeleton),
        occurrences(record(composites.softmax, [scores]), skeleton),
    ]
    assert found == [2, 2]


OPTIMIZERS: dict[str, tuple[Optimizer, Callable[..., Any], int, dict[str, Any]]] = {
    "sgd": (SGD(0.1, weight_decay=0.01), composites.sgd, 0, {"decay": 0.01}),
    "momentum": (
        SGD(0.1, momentum=0.9, weight_decay=0.01),
        composites.momentum_sgd,
        1,
        {"momentum": 0.9, "decay": 0.01},
    ),
    "adam": (
        Adam(0.01, weight_decay=0.1),
        composites.adam,
        2,
        {"betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.1, "decoupled": False},
    ),
    "adamw": (
        Adam([0.01, 0.02], weight_decay=0.1, decoupled=True),
        composites.adam,
        2,
        {"betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.1, "decoupled": True},
    ),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_its_composite_once_for_each_parameter(name: str) -> None:
    optimizer, function, moments, options = OPTIMIZERS[name]
    torch.manual_seed(0)
    skeleton = skeleton_of(between(nn.Tanh()), (6,), optimizer)
    total = 0
    for shape in ((6, 6), (4, 6)):
        specs = [(F32, shape)] * (2 + moments) + [SCALAR] * (2 if function is composites.adam else 1)
        total += occurrences(record(function, specs, **options), skeleton)
    assert total == 2
