"""A log without effect: of an output that is never rounded, or of another number of elements.

Its author serves it to nobody, so a follower has only the pieces that it requested on the chain. These suffice for
every move: the honest side compares, and wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from repops.opset import BF16
from repops.tensors import NUMPY_DTYPE

from referee_py.program import Program
from referee_py.rounding import Rounding
from referee_py.rounding.blocks import LogTree
from referee_py.rounding.entries import Log
from referee_py.trial import Compare, Inputs, LogBlock
from referee_py.trial.solver import Operator
from tests.referee_py.trial.parties import Setting, one_ulp, outputs_of, structure_of
from tests.trainer_node.run.test_onchain_logs import JOB, Withholder, obtained

from .stand import Stand

MODE = Rounding(32).mode
N = 40_000
WHERE = 30_000
"""An element beyond the first page of 16,384."""
WINDOW = {"kernel": (1, 2), "stride": (1, 2), "padding": (0, 0), "dilation": (1, 1)}


@dataclass(frozen=True)
class Case:
    """An operator, the output with the lie, and the elements of the log."""

    name: str
    inputs: Sequence[np.ndarray]
    attrs: dict[str, Any]
    output: int = 0
    elements: int = N

    def __str__(self) -> str:
        return f"{self.name}-{self.output}-{self.elements}"


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def narrow(*shape: int) -> np.ndarray:
    return values(*shape).astype(NUMPY_DTYPE[BF16])


CASES = [
    Case("arange", [], {"n": N}),
    Case("lt", [values(N), values(N)[::-1].copy()], {}),
    Case("max_pool2d", [values(1, 1, 1, 2 * N)], WINDOW, output=0),
    Case("max_pool2d", [values(1, 1, 1, 2 * N)], WINDOW, output=1),
    Case("add", [values(N), values(N)], {}),
    Case("reshape", [values(N)], {"shape": (2, N // 2)}),
    Case("sum", [values(N, 2)], {"dims": (1,), "keepdim": 0}),
    Case("cast", [values(N)], {"dtype": BF16}),
    Case("mm", [narrow(N, 2), narrow(2, 1)], {}),
    Case("mm", [narrow(N, 2), narrow(2, 1)], {}, elements=N + 1),
    Case("arange", [], {"n": N}, elements=N - 1),
    Case("sum", [values(N, 2)], {"dims": (1,), "keepdim": 0}, elements=N + 1),
    Case("sum", [values(N, 2)], {"dims": (1,), "keepdim": 0}, elements=1 << 50),
]


def withheld(case: Case, log: Log) -> LogTree:
    """Return the log of the operator, as a party obtains it by requesting every piece that it may need."""
    structure = structure_of(case.name, case.inputs, case.attrs)
    program = Program((structure,), (), (), ())
    terms = replace(JOB.terms, node_count=1, steps=3, strides=(1,))
    shown, _ = obtained(Withholder({0: log}, terms=terms), program)
    found = shown.step(2).nodes[0].opened()
    assert isinstance(found, LogTree)
    return found


def disputed(case: Case, honest: int) -> Setting:
    """Return a dispute about one wrong element of the output. The log has an entry for it, and another one."""
    places = np.array([WHERE, case.elements - 1])
    log = Log(case.elements, places, np.ones(2, np.bool_), np.zeros(0, np.int64), np.zeros(0))
    counts = [kind.count for kind in structure_of(case.name, case.inputs, case.attrs).outputs]
    truth = outputs_of(case.name, case.inputs, case.attrs, MODE, log if case.elements == counts[0] else None)
    false = list(truth)
    false[case.output] = one_ulp(truth[case.output], WHERE)
    outputs = truth, false
    found = Setting.lied(case.name, case.inputs, case.attrs, outputs, honest, mode=MODE, log=log)
    sides = list(found.sides)
    sides[honest] = Operator(case.inputs, truth, withheld(case, log))
    return Setting(found.dispute, (sides[0], sides[1]), honest)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_log_about_nothing_stops_nobody(case: Case, stand: Stand) -> None:
    for honest in (0, 1):
        for served in (True, False):
            setting = disputed(case, honest)
            played = stand.play(setting, served)
            assert (played.losers, played.late) == (1 << (1 - honest), False), (honest, served)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_its_block_is_wanted_for_f32_and_bf16_alone(case: Case) -> None:
    """The log of another output is not read."""
    setting = disputed(case, 0)
    kind = structure_of(case.name, case.inputs, case.attrs).outputs[case.output]
    block = setting.sides[0].block(case.output, WHERE)
    if kind.dtype.is_float:
        assert block.elements == case.elements
    else:
        assert block == Compare(b"", b"", Inputs(b"", ())).log == LogBlock(0, b"", ())
