"""Functions that are not operators of their own: a program that lies about one of their elements by one ulp loses on a
chain, since each is an expression of operators that have a rule there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import SGD, Built, capture
from referee_py.execute import Capture, Interpreter, State
from referee_py.program import Program
from tests.referee_py.trial.parties import Setting, one_ulp

from .stand import Stand

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
DATA: dict[str, np.ndarray[Any, Any]] = {"x": X, "y": np.arange(4, dtype=np.int64) % 3}
ORDER = np.arange(4).reshape(1, 4)
MOST_ELEMENTS = 4096
"""Nodes with more are left out: they read tables."""

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "topk": lambda x: x.topk(3, 1)[0].repeat(1, 2),
    "sort": lambda x: x.sort(1)[0],
    "argsort": lambda x: x.gather(1, x.argsort(1)),
    "cumsum": lambda x: x.cumsum(1),
    "floor": lambda x: x * (3 * x).floor(),
    "round": lambda x: x * (3 * x).round(),
    "one_hot": lambda x: x * nn.functional.one_hot(x.argmax(1), 6),
    "rand": lambda x: x + torch.rand_like(x),
    "randn": lambda x: x + torch.randn_like(x),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full_like(x, 0.5)),
}
QUICK = ("cumsum",)


class Model(nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.function = nn.Linear(6, 6), nn.Linear(6, 3), function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.last(self.function(self.first(x)))
        return y


def captured(function: Callable[[torch.Tensor], torch.Tensor]) -> Built:
    return capture(Model(function), nn.functional.cross_entropy, SGD(0.1), DATA, ORDER)


def of_the_function(function: Callable[[torch.Tensor], torch.Tensor], built: Built) -> list[int]:
    """Return one node for each operator, with its attributes, that the program has only because of the function."""

    def kinds(program: Program) -> list[tuple[object, ...]]:
        return [(node.name, str(node.attrs), [t.shape for t in node.outputs]) for node in program.nodes]

    without = kinds(captured(lambda x: x * 1.5).program)
    found: dict[str, int] = {}
    for number, kind in enumerate(kinds(built.program)):
        node = built.program.nodes[number]
        small = all(type_.count <= MOST_ELEMENTS for type_ in node.outputs)
        if kind not in without and small and node.name not in found:
            found[node.name] = number
    return list(found.values())


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FUNCTIONS]
)
def test_one_ulp_in_any_of_its_operators_loses(stand: Stand, name: str) -> None:
    """Values are those of a first step; the honest party is either side."""
    built = captured(FUNCTIONS[name])
    nodes = of_the_function(FUNCTIONS[name], built)
    assert nodes
    state = State.of(0, built.initial)
    for turn, node in enumerate(nodes):
        seen = Capture(node)
        Interpreter(built.program, built.constants, repops.backend("cpu"), seen).step(state, False)
        structure, values = built.program.nodes[node], seen.found[node]
        true = list(values.outputs)
        element = true[0].size // 2
        false = [one_ulp(true[0], element), *true[1:]]
        setting = Setting.lied(structure.name, values.inputs, structure.attrs, (true, false), turn % 2, turn)
        result = stand.play(setting, served=turn % 3 > 0)
        assert (result.losers, result.late) == (2 - setting.honest, False), structure.name
        assert result.state.element == element
    print(f"{name}: {len(nodes)} operators, {', '.join(built.program.nodes[n].name for n in nodes)}")
