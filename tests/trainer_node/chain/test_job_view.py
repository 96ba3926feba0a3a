"""What a job's view says of its parties: who serves its data, and which referee decides its matches."""

from __future__ import annotations

from trainer_node.chain import ClaimView, Group

from ..desk import REFEREE, job


def claim(index: int, uri: str, *, lost: bool = False, slot: bool = False) -> ClaimView:
    return ClaimView(index, f"0x{index:040x}", 1, 0, slot, lost, False, uri)


CLAIMS = (claim(0, "a", lost=True), claim(1, "b"), claim(2, ""), claim(3, "c", slot=True), claim(4, "b"))
GROUP = Group(0, b"\1" * 32, b"", 0, 3, 0, 0, (0, 1, 2, 3, 4))
JOB = job(uri="client", claims=CLAIMS, groups=(GROUP,))


def test_all_claimants_serve_each_named_once() -> None:
    assert JOB.servers() == ["a", "b", "c"]
    assert JOB.servers(client=True) == ["client", "a", "b", "c"]


def test_some_come_first() -> None:
    assert JOB.servers(first=lambda claim: claim.slot) == ["c", "a", "b"]
    assert JOB.servers(claim for claim in JOB.claims if claim.slot) == ["c"]


def test_of_a_group_the_spokesman_comes_first_and_who_has_lost_last() -> None:
    assert [claim.index for claim in JOB.members(GROUP)] == [3, 1, 2, 4, 0]
    assert JOB.servers(JOB.members(GROUP), client=True) == ["client", "c", "b", "a"]


def test_a_referee_is_known_by_its_address_however_that_is_written() -> None:
    assert JOB.is_under(REFEREE.upper().replace("0X", "0x"))
    assert not JOB.is_under("0x" + "12" * 20)
