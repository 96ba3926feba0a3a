"""Each refusal of model or rules has a name and changes nothing. In Solidity: tests/contracts/Unchanged.t.sol."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from referee_py.errors import InvalidProof
from referee_py.game import refusals
from referee_py.game.state import Reveal
from referee_py.jobs import commitment
from referee_py.program.modes import REPOPS_F32, Rounding
from referee_py.walk.refusals import Refusal

from .scenario import STAKE, Scenario, claim, who

SALT = bytes(32)


def snapshot(scenario: Scenario) -> list[dict[str, object]]:
    """Return a copy of all state that a chain keeps."""
    model = scenario.model
    parts = [vars(part) for part in (model, model.panel, model.panel.registry, model.data_availability)]
    others = ("panel", "registry", "data_availability", "_decide_match", "_bond", "_jobs")
    plain = [{k: v for k, v in part.items() if k not in others} for part in parts]
    return copy.deepcopy(plain)


def refused(scenario: Scenario, name: str, act: Callable[[], object]) -> None:
    """Check that the act is refused by that name, and the whole model is as before."""
    before = snapshot(scenario)
    with pytest.raises((Refusal, InvalidProof)) as caught:
        act()
    assert type(caught.value).__name__ == name
    assert str(caught.value)
    assert snapshot(scenario) == before


def test_insufficient_stake_expect_no_slot_and_no_claim() -> None:
    scenario = Scenario()
    refused(scenario, "WrongStake", lambda: scenario.model.join(scenario.id, who(1), STAKE - 1, scenario.now))
    scenario.trained("a", "a")
    scenario.meaning(3, claim("b"))
    refused(
        scenario,
        "WrongStake",
        lambda: scenario.model.challenge(scenario.id, claim("b"), SALT, who(3), STAKE - 1, scenario.now),
    )
    scenario.challenged(3, "b")
    assert len(scenario.job.claims) == 3


def test_double_claim_expect_refused() -> None:
    scenario = Scenario().trained("a", "a")
    again = [
        ("AlreadyClaimed", 1, "b"),
        ("NothingCommitted", 3, "a"),
    ]
    for name, number, run in again:
        refused(
            scenario,
            name,
            lambda number=number, run=run: scenario.model.challenge(  # type: ignore[misc]
                scenario.id, claim(run), SALT, who(number), STAKE, scenario.now
            ),
        )
    scenario.challenged(3, "b")
    refused(
        scenario,
        "AlreadyClaimed",
        lambda: scenario.model.challenge(scenario.id, claim("c"), SALT, who(3), STAKE, scenario.now),
    )


def test_late_moves_expect_refused() -> None:
    scenario = Scenario().trained("a", "a")
    join = lambda: scenario.model.join(scenario.id, who(5), STAKE, scenario.now)  # noqa: E731
    reveal = lambda: scenario.model.reveal(scenario.id, claim("a"), bytes(32), SALT, who(1), 0, scenario.now)  # noqa: E731
    refused(scenario, "WrongPhase", join)
    refused(scenario, "WrongPhase", reveal)
    scenario.meaning(5, claim("b"))
    scenario.now = scenario.job.challenge_end
    challenge = lambda: scenario.model.challenge(scenario.id, claim("b"), SALT, who(5), STAKE, scenario.now)  # noqa: E731
    refused(scenario, "RootClosed", challenge)
    scenario.now -= 1
    challenge()


def test_late_move_of_a_match_expect_refused() -> None:
    scenario = Scenario().trained("a", "b")
    tree = [ord("a").to_bytes(32, "big")] * 4
    move = Reveal(0, tuple(tree))
    deadline = scenario.now + scenario.terms.rules.clock
    refused(scenario, "Late", lambda: scenario.model.play(1, [move], who(1), deadline + 1))
    scenario.model.play(1, [move], who(1), deadline)
    assert scenario.model.matches[1].state.posted == 1


def test_wrong_proof_expect_no_claim() -> None:
    scenario = Scenario().trained("a", "a")
    right = claim("b")
    wrong = (
        replace(right, last=bytes(32)),
        replace(right, last_path=right.last_path[:-1]),
        replace(right, root=bytes(32)),
    )
    for shown in wrong:
        scenario.meaning(3, shown)
        before = snapshot(scenario)
        with pytest.raises((Refusal, InvalidProof)):
            scenario.model.challenge(scenario.id, shown, SALT, who(3), STAKE, scenario.now)
        assert snapshot(scenario) == before
    scenario.meaning(3, right)
    scenario.model.challenge(scenario.id, right, SALT, who(3), STAKE, scenario.now)


def test_challenge_of_another_expect_refused() -> None:
    scenario = Scenario().trained("a", "a")
    refused_as = lambda name, number, run: refused(  # noqa: E731
        scenario,
        name,
        lambda: scenario.model.challenge(scenario.id, claim(run), SALT, who(number), STAKE, scenario.now),
    )
    refused_as("NothingCommitted", 3, "b")
    refused(
        scenario,
        "EmptyCommitment",
        lambda: scenario.model.commit_challenge(scenario.id, bytes(32), scenario.now),
    )
    scenario.meaning(3, claim("b"))
    refused_as("NothingCommitted", 3, "c")
    # Somebody who sees the pending claim commits to it in the same second at the earliest.
    scenario.meaning(4, claim("b"))
    scenario.now -= 1
    refused_as("TooSoon", 4, "b")
    scenario.model.challenge(scenario.id, claim("b"), SALT, who(3), STAKE, scenario.now)
    scenario.now += 1
    refused_as("WrongStake", 4, "b")


def test_logs_in_a_mode_without_them_expect_no_claim() -> None:
    scenario, shown, logs = Scenario(slots=1), claim("a"), b"L" * 32
    scenario.model.join(scenario.id, who(1), STAKE, scenario.now)
    where = (31337, scenario.model.address, scenario.id, who(1))
    hashed = commitment(*where, shown.root, shown.last, logs, SALT)
    scenario.model.commit(scenario.id, hashed, who(1), scenario.now)
    reveal = partial(scenario.model.reveal, scenario.id, shown)
    refused(scenario, "WrongCommitment", lambda: reveal(bytes(32), SALT, who(1), 0, scenario.now))
    refused(scenario, "UnexpectedLogs", lambda: reveal(logs, SALT, who(1), 0, scenario.now))


@pytest.mark.parametrize("mode", [REPOPS_F32.byte, Rounding().mode])
def test_nothing_revealed_expect_no_challenge(mode: int) -> None:
    scenario = Scenario(slots=1, mode=mode)
    scenario.now = scenario.job.reveal_end
    challenge = lambda: scenario.model.challenge(scenario.id, claim("b"), SALT, who(5), STAKE, scenario.now)  # noqa: E731
    refused(scenario, "NothingRevealed", challenge)


def test_every_refusal_has_a_name_of_the_contract() -> None:
    names = {kind.__name__ for kind in Refusal.__subclasses__()}
    assert {"WrongStake", "AlreadyClaimed", "RootClosed", "WrongPhase", "Late", "NotSpokesman"} <= names
    assert issubclass(refusals.Late, Refusal)
