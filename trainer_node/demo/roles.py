"""Who takes part, who lies, and what must decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from referee_py.errors import InvalidInput
from referee_py.game.state import Reason
from referee_py.rounding.mode import is_rounded

from ..faults import EXPECTED, HONEST, Fault, Lie

CASES = {
    Reason.TIMEOUT: "timeout: a side did not answer",
    Reason.PADDING: "a leaf beyond the end",
    Reason.STRUCTURE: "case 1: another operator than the program's",
    Reason.INPUT_CHECKPOINT: "case 2a: an input is not what the checkpoint holds",
    Reason.INPUT_NODE: "case 2b: an input is not what the earlier operator gave",
    Reason.INPUT_CONSTANT: "case 2c: an input is not the committed constant",
    Reason.INPUT_STEP: "case 2d: an input is not the number of the step",
    Reason.LOG: "case 3: a rounding log is not the one that the trainer has committed to",
    Reason.OPERATOR: "case 4: the operator gives something else",
}


class Scenario(StrEnum):
    """Who stands against whom."""

    TRAINERS = "trainers"
    """An honest and a lying trainer; a challenger who watches over both."""
    LONE_LIAR = "lone-liar"
    """Nobody but a lying trainer, and a challenger."""
    CHALLENGER = "challenger"
    """An honest trainer, and a challenger who disputes what is right."""
    TWO_LIARS = "two-liars"
    """Two trainers who lie differently, and one honest one."""
    CROWD = "crowd"
    """An honest trainer, and seven who lie at once, each in another step; a challenger who watches."""
    LYING_VERIFIERS = "lying-verifiers"
    """An honest and a lying trainer; all verifiers sign what the liar says."""
    LYING_APPEAL = "lying-appeal"
    """An honest and a lying trainer, who appeals from the verdict against it."""


@dataclass(frozen=True, slots=True)
class Role:
    """A trainer or a challenger, and its lie."""

    name: str
    role: str
    lie: Lie = HONEST

    @property
    def honest(self) -> bool:
        return self.lie.fault is Fault.NONE


CROWD_SIZE = 7
ABOUT_VERDICTS = frozenset({Scenario.LYING_VERIFIERS, Scenario.LYING_APPEAL})


def check(scenario: Scenario, mode: int, faults: Sequence[Fault], *, court_only: bool = False) -> None:
    """Raises InvalidInput for a scenario that such a job cannot have, or in which these lies do not matter."""
    if is_rounded(mode) and scenario not in (Scenario.LONE_LIAR, Scenario.CHALLENGER):
        raise InvalidInput(
            f"a job of rounded-f64 has one trainer, whose logs all others follow; scenario {scenario} has more: "
            f"choose {Scenario.LONE_LIAR} or {Scenario.CHALLENGER}"
        )
    if scenario not in ABOUT_VERDICTS:
        return
    if court_only:
        raise InvalidInput(
            f"scenario {scenario} is about appeals from verdicts, and without verifiers there are none; "
            "leave out --court-only"
        )
    if others := [fault for fault in faults if EXPECTED.get(fault) is not Reason.OPERATOR]:
        raise InvalidInput(
            f"a dispute about {others[0]} comes to no verdict; choose {Fault.WRONG_OP_OUTPUT} for scenario {scenario}"
        )


def middle(steps: int) -> int:
    """Where a lie begins unless somebody says otherwise: a little after the middle of the run."""
    return max(2, steps * 56 // 100)


def roles(scenario: Scenario, lie: Lie, steps: int) -> list[Role]:
    """The parts of a scenario in which the liar tells that lie."""
    watch = Role("challenger", "challenger")
    if lie.fault is Fault.NONE:
        alone = scenario in (Scenario.LONE_LIAR, Scenario.CHALLENGER)
        return [Role("honest", "trainer"), *([] if alone else [Role("second", "trainer")]), watch]
    match scenario:
        case Scenario.LYING_APPEAL:
            liar = Role("liar", "trainer", replace(lie, appeals=True))
            return [Role("honest", "trainer"), liar, watch]
        case Scenario.TRAINERS | Scenario.LYING_VERIFIERS:
            return [Role("honest", "trainer"), Role("liar", "trainer", lie), watch]
        case Scenario.LONE_LIAR:
            return [Role("liar", "trainer", lie), watch]
        case Scenario.CHALLENGER:
            return [Role("honest", "trainer"), Role("liar", "challenger", lie)]
        case Scenario.TWO_LIARS:
            other = Fault.POISON_DATA if lie.fault is Fault.WRONG_OP_OUTPUT else Fault.WRONG_OP_OUTPUT
            second = Role("second liar", "trainer", Lie(other, min(lie.step + steps // 6, steps)))
            return [Role("liar", "trainer", lie), second, Role("honest", "trainer"), watch]
        case Scenario.CROWD:
            liars = [
                Role(f"liar {k + 1}", "trainer", replace(lie, step=_step(lie.step, k, steps)))
                for k in range(CROWD_SIZE)
            ]
            return [*liars, Role("honest", "trainer"), watch]


def _step(first: int, k: int, steps: int) -> int:
    """The ``k``-th of steps that differ, from the first one on, and back to the beginning of the run."""
    return (first - 1 + k * max(1, steps // (2 * CROWD_SIZE))) % steps + 1


def expected(parts: list[Role]) -> set[Reason]:
    """What may decide a match among these parts."""
    return {EXPECTED[part.lie.fault] for part in parts if not part.honest}
