"""Events of claims that an endpoint leaves out or makes up: the job is read, and says what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trainer_node.chain import ClaimView, Group, JobPhase, JobView
from trainer_node.chain.codec.claims import with_events
from trainer_node.chain.events import Event

from ..desk import job

OWNERS = ("0x" + "Aa" * 20, "0x" + "Bb" * 20)
ROOTS, LASTS = (b"\1" * 32, b"\2" * 32, b"\3" * 32), (b"\4" * 32, b"\5" * 32, bytes(32))
CLAIMS = (
    ClaimView(0, OWNERS[0], 5, 0, True, False, False, ""),
    ClaimView(1, OWNERS[1], 6, 1, False, False, False, ""),
    ClaimView(2, OWNERS[0], 7, 2, False, False, False, ""),
)
GROUPS = tuple(
    Group(k, root, bytes(32), 0, 0, 0, 0, (k,), refutes=1 if k == 2 else None) for k, root in enumerate(ROOTS)
)
JOB = job(phase=JobPhase.ACCEPTED, claims=CLAIMS, groups=GROUPS, waiting=1)


def event(number: int, **changes: Any) -> Event:
    """Return the event of a claim, with other fields."""
    claim = CLAIMS[number]
    args = {"owner": claim.owner, "claim": number, "group": claim.group, "root": ROOTS[claim.group]}
    args |= {"last": LASTS[number], "stake": claim.stake, "uri": f"u{number}", **changes}
    return Event("Claimed", args, number, bytes(32), number)


EVENTS = [event(number) for number in range(3)]


def uris(found: JobView) -> list[str]:
    return [claim.uri for claim in found.claims]


def test_all_events_give_all() -> None:
    found = with_events(JOB, EVENTS)
    assert uris(found) == ["u0", "u1", "u2"]
    assert [group.last for group in found.groups] == [*LASTS[:2], LASTS[1]], "a refutation that says zero"
    assert (found.accepted_last, found.hidden) == (LASTS[1], None)


def test_their_order_says_nothing() -> None:
    assert with_events(JOB, EVENTS[::-1]) == with_events(JOB, EVENTS)


@pytest.mark.parametrize("number", range(3))
def test_one_that_lacks_costs_what_it_alone_has(number: int) -> None:
    found = with_events(JOB, [one for k, one in enumerate(EVENTS) if k != number])
    assert uris(found) == [f"u{k}" if k != number else "" for k in range(3)]
    assert found.groups[number].last == bytes(32)
    assert found.hidden is not None
    assert f"(the first: {number})" in found.hidden
    assert replace(found, claims=JOB.claims, groups=JOB.groups, accepted_last=JOB.accepted_last) == JOB


@pytest.mark.parametrize(
    "changes",
    [{"owner": OWNERS[0]}, {"stake": 7}, {"group": 0}, {"root": ROOTS[0]}, {"claim": 5}],
    ids=str,
)
def test_one_of_another_claim_is_none(changes: dict[str, Any]) -> None:
    """As from another branch of the chain, or made up."""
    found = with_events(JOB, [EVENTS[0], event(1, last=b"\7" * 32, uri="evil", **changes), EVENTS[2]])
    assert uris(found) == ["u0", "", "u2"]
    assert found.accepted_last == bytes(32)
    assert found.hidden is not None


def test_without_any_event_the_job_is_read() -> None:
    found = with_events(JOB, [])
    assert uris(found) == ["", "", ""]
    assert "3 of 3 claims" in str(found.hidden)


def test_a_second_event_of_a_claim_changes_nothing() -> None:
    assert with_events(JOB, [*EVENTS, event(1, uri="evil", last=b"\7" * 32)]) == with_events(JOB, EVENTS)
