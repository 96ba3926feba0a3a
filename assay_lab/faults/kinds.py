"""Faults that a party may commit, their places, and the instance that decides against each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from repops.opset import BF16, Arithmetic

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.execute import Backend
from referee_py.program import Program
from referee_py.program.modes import ArithmeticMode
from referee_py.walk.reason import Reason

from ..names import Fault

OF_LOGS = frozenset({Fault.FORGED_LOG, Fault.WRONG_LOG})
"""Faults of modes with rounding logs only."""


def fits(fault: Fault, arithmetic: ArithmeticMode) -> bool:
    """Whether a program of that arithmetic mode can have the fault."""
    return fault not in OF_LOGS or arithmetic.follows_logs


EXPECTED: dict[Fault, Reason] = {
    Fault.POISON_DATA: Reason.INPUT_CONSTANT,
    Fault.SKIP_STEPS: Reason.INPUT_STEP,
    Fault.WRONG_OP_OUTPUT: Reason.OPERATOR,
    Fault.WRONG_STRUCTURE: Reason.STRUCTURE,
    Fault.WRONG_INPUT: Reason.INPUT_NODE,
    Fault.STALE_WEIGHTS: Reason.INPUT_CHECKPOINT,
    Fault.WITHHOLD: Reason.TIMEOUT,
    Fault.FORGED_LOG: Reason.OPERATOR,
    Fault.WRONG_LOG: Reason.LOG,
}
"""The instance that must decide the dispute about a run with that fault."""


@dataclass(frozen=True, slots=True)
class Lie:
    """A fault and where it is: from ``step`` (counted from 1) on; of ``node``, where the fault is one of any node."""

    fault: Fault = Fault.NONE
    step: int = 1
    node: int | None = None
    appeals: bool = False
    """True if the liar appeals against verdicts, which costs it a bond."""


HONEST = Lie()


@dataclass(frozen=True, slots=True)
class Target:
    """The object of a lie."""

    program: Program
    constants: Sequence[Array]
    initial: Sequence[Array]
    backend: Backend
    step: int
    node: int | None = None


def first_narrow_product(program: Program) -> int | None:
    """Return the first node that multiplies factors of bf16, or None: a mode for bf16 is about these."""
    for number, node in enumerate(program.nodes):
        if node.row.arithmetic is Arithmetic.SUM and program.type_of(node.inputs[0]).dtype == BF16:
            return number
    return None


def find(program: Program, name: str | None, accepts: Callable[[int], bool] = lambda _: True) -> int:
    """The first node of that operator (of any, if None) that is accepted."""
    for node, structure in enumerate(program.nodes):
        if name in (None, structure.name) and accepts(node):
            return node
    raise InvalidInput(f"the program has no {name or 'fitting'} node to lie about; choose another fault")
