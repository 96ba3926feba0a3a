"""The parties of each scenario, the liars among them, and the cases that must decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from referee_py.errors import InvalidInput
from referee_py.program.modes import ArithmeticMode
from referee_py.walk.reason import Reason

from ..faults import EXPECTED, HONEST, Fault, Lie
from ..names import Scenario


@dataclass(frozen=True, slots=True)
class Role:
    """A trainer or a challenger, and its lie, if any. ``check``: what a challenger checks (a setting)."""

    name: str
    role: str
    lie: Lie = HONEST
    check: str = "all"

    @property
    def honest(self) -> bool:
        return self.lie.fault is Fault.NONE


CROWD_SIZE = 7
SAMPLERS, SAMPLE = 3, 0.5
"""Number of samplers, and the fraction of all intervals that each checks."""
ALONE = frozenset({Scenario.LONE_LIAR, Scenario.CHALLENGER, Scenario.SAMPLING})
"""Scenarios with one trainer."""
ABOUT_VERDICTS = frozenset({Scenario.LYING_VERIFIERS, Scenario.LYING_APPEAL})


def check(
    scenario: Scenario, arithmetic: ArithmeticMode, faults: Sequence[Fault], *, court_only: bool = False
) -> None:
    """Raise InvalidInput for a scenario that such a job cannot have, or in which these lies have no effect."""
    if not arithmetic.many_trainers and scenario not in ALONE:
        raise InvalidInput(
            f"a job of {arithmetic.name} has one trainer, whose logs all others follow; scenario {scenario} has more: "
            f"choose {', '.join(sorted(ALONE))}"
        )
    if scenario is Scenario.SAMPLING and Fault.WITHHOLD in faults:
        raise InvalidInput(
            f"of a run whose data nobody serves no part can be checked; choose {Fault.WRONG_OP_OUTPUT}"
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


def middle(steps: int, scenario: Scenario = Scenario.TRAINERS) -> int:
    """Return the default first step of a lie: a little after the middle of the run.

    NOTE: what samplers draw follows from the demonstration's keys and the lie; with this step two of the three draw it.
    """
    return max(2, steps * 2 // 3 if scenario is Scenario.SAMPLING else steps * 56 // 100)


def roles(scenario: Scenario, lie: Lie, steps: int) -> list[Role]:
    """Return the parties of a scenario whose liar commits that fault."""
    watch = Role("challenger", "challenger")
    if lie.fault is Fault.NONE:
        alone = scenario in ALONE
        return [Role("honest", "trainer"), *([] if alone else [Role("second", "trainer")]), watch]
    match scenario:
        case Scenario.LYING_APPEAL:
            liar = Role("liar", "trainer", replace(lie, appeals=True))
            return [Role("honest", "trainer"), liar, watch]
        case Scenario.TRAINERS | Scenario.LYING_VERIFIERS:
            return [Role("honest", "trainer"), Role("liar", "trainer", lie), watch]
        case Scenario.LONE_LIAR:
            return [Role("liar", "trainer", lie), watch]
        case Scenario.SAMPLING:
            samplers = [
                Role(f"sampler {k + 1}", "challenger", check=f"sample:{SAMPLE}") for k in range(SAMPLERS)
            ]
            return [Role("liar", "trainer", lie), *samplers]
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
    """Return the ``k``-th of several distinct steps, counted from ``first`` and wrapping at the end of the run."""
    return (first - 1 + k * max(1, steps // (2 * CROWD_SIZE))) % steps + 1


def expected(parts: list[Role]) -> set[Reason]:
    """Return the cases that may decide a match among these parties."""
    return {EXPECTED[part.lie.fault] for part in parts if not part.honest}
