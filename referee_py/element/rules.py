"""The rule of each operator, and whole chains."""

from __future__ import annotations

from collections.abc import Iterator

from repops.opset import F32

from ..rounding.environment import sound
from .case import NO_ENTRY, Case, Entry, Read
from .chains import ArgMax, Chain, Contraction, MaxPool, ScatterAdd, Sum, Total
from .modes import OF_MODES
from .points import POINTS, elementwise

Rule = Chain


class One:
    """A single step, whose state is the element, 8 bytes."""

    def length(self, case: Case) -> int:  # noqa: ARG002
        return 1

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return bytes(8)

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:  # noqa: ARG002
        return POINTS.get(case.name, elementwise)(case, read).to_bytes(8, "big")

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        return int.from_bytes(state, "big")


_ONE, _TOTAL, _SUM, _CONTRACTION = One(), Total(), Sum(), Contraction()
_CHAINS: dict[str, Chain] = {
    **dict.fromkeys(("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad"), _CONTRACTION),
    "amax": _TOTAL,
    "argmax": ArgMax(),
    "max_pool2d": MaxPool(),
    "scatter_add": ScatterAdd(),
}


def rule_of(case: Case) -> Rule:
    """Return the rule for an element. Raises UnknownVersion for an unknown mode."""
    own = OF_MODES.of(case.mode).rule(case)
    if own is not None:
        return own
    if case.name == "sum":
        return _SUM if case.inputs[0].dtype == F32 else _TOTAL
    return _CHAINS.get(case.name, _ONE)


def states(case: Case, read: Read, start: int, state: bytes) -> Iterator[bytes]:
    """Yield the states after steps start, start + 1, ..., of a chain whose state before step `start` is given."""
    rule = rule_of(case)
    for t in range(start, rule.length(case)):
        state = rule.step(case, t, state, read)
        yield state


def evaluate(case: Case, read: Read, entry: Entry = NO_ENTRY) -> int:
    """Return the element's bits, given its entry in the log."""
    rule = rule_of(case)
    last = rule.begin(case)
    with sound("an element"):
        for last in states(case, read, 0, last):  # noqa: B007, B020
            pass
        return rule.finish(case, last, entry)
