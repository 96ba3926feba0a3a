"""The scenarios that a demonstration can have, and their liars."""

from __future__ import annotations

import pytest

from assay_lab.demo.roles import ABOUT_VERDICTS, check, roles
from assay_lab.faults import Fault, Lie
from assay_lab.names import Scenario
from referee_py.errors import InvalidInput
from referee_py.program.modes import REPOPS_F32, RoundedF64, Rounding

LIE = [Fault.WRONG_OP_OUTPUT]


@pytest.mark.parametrize("scenario", Scenario)
@pytest.mark.parametrize("court_only", [False, True])
def test_verdicts_are_appealed_from_where_there_are_any(scenario: Scenario, court_only: bool) -> None:
    if scenario in ABOUT_VERDICTS and court_only:
        with pytest.raises(InvalidInput, match="leave out --court-only"):
            check(scenario, REPOPS_F32, LIE, court_only=court_only)
    else:
        check(scenario, REPOPS_F32, LIE, court_only=court_only)


def test_a_lie_that_hashes_decide_comes_to_no_verdict() -> None:
    for fault in (Fault.POISON_DATA, Fault.NONE):
        with pytest.raises(InvalidInput, match="no verdict"):
            check(Scenario.LYING_VERIFIERS, REPOPS_F32, [*LIE, fault])


def test_a_job_with_rounding_logs_has_one_trainer() -> None:
    for scenario in Scenario:
        alone = [part.role for part in roles(scenario, Lie(LIE[0], 5), 20)].count("trainer") == 1
        if alone:
            check(scenario, RoundedF64(Rounding()), LIE)
        else:
            with pytest.raises(InvalidInput, match="one trainer"):
                check(scenario, RoundedF64(Rounding()), LIE)


def test_a_liar_appeals_only_where_that_is_the_story() -> None:
    for scenario in Scenario:
        liars = [part for part in roles(scenario, Lie(LIE[0], 5), 20) if not part.honest]
        assert liars
        assert {part.lie.appeals for part in liars} == {scenario is Scenario.LYING_APPEAL}
