"""Attack: a liar gives away some stakes so that its next lie is one that the challenger leaves to others.

The decisions are the node's own, on the account of a node that is not short of ether; only what it has computed and
measured is given.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from referee_py.jobs import refutation_price
from referee_py.rounding import Rounding
from tests.trainer_node.desk import TERMS
from tests.trainer_node.roles.member import ME, member
from tests.trainer_node.stake.test_occupation import Measured, lie, settings
from trainer_node.chain import ClaimView, Group, JobView
from trainer_node.chain.fees import ETHER, GWEI
from trainer_node.roles.acceptance import Acceptance
from trainer_node.roles.sampling.sampler import Sampler
from trainer_node.run.refutation import Refuted
from trainer_node.run.step_times import Taken
from trainer_node.stake.funds import offer, quarrel, refuting
from trainer_node.stake.occupation import least_prize

ALLY = "0x" + "dd" * 20
LIES = 7
RIGHT = bytes([200]) * 32


class Runner(Measured):
    def train(self, *_: Any, **__: Any) -> None:
        return None

    def measured(self, job: JobView) -> Any:
        return self.prepare(job)

    def here_first(self, _: int, lies: list[Refuted]) -> list[Refuted]:
        return lies

    slow: ClassVar[dict[bytes, Taken]] = {}
    """What the steps of some roots have taken."""

    def took(self, _: int, lie: Refuted) -> Taken:
        return self.slow.get(lie.against, Taken())


def of_lies(count: int, refuted: dict[int, list[str]], **changes: Any) -> JobView:
    """Return a job with so many wrong roots of a stranger; ``refuted``: the owners of their living refutations."""
    groups = [Group(k, bytes([k + 1]) * 32, bytes(32), 0, 0, 0, 0, (k,)) for k in range(count)]
    claims = [ClaimView(k, ALLY, 1, k, k == 0, False, False, "") for k in range(count)]
    for root, owners in refuted.items():
        for owner in owners:
            number = len(groups)
            groups.append(
                Group(number, bytes([100 + number]) * 32, bytes(32), 0, 0, 0, 0, (len(claims),), refutes=root)
            )
            claims.append(ClaimView(len(claims), owner, 1, number, False, False, False, ""))
    return replace(lie(**changes), groups=tuple(groups), claims=tuple(claims))


def found(job: JobView) -> list[Refuted]:
    roots = [group.root for group in job.groups if group.refutes is None]
    return [Refuted(bytes([50 + k]) * 32, bytes(32), (), against=root) for k, root in enumerate(roots)]


@pytest.fixture
def sampler(tmp_path: Path) -> Sampler:
    node = member(tmp_path, check="share")
    node.settings = settings(check="share")
    return Sampler(node, Runner())  # type: ignore[arg-type]


def refuted_now(sampler: Sampler, job: JobView) -> list[int]:
    return [lie.against[0] - 1 for lie in sampler._due(job, found(job), 0)]


TERMS_OF = {"repops": TERMS, "rounded": replace(TERMS, mode=Rounding(32).mode)}


@pytest.mark.parametrize("low", [GWEI, 4 * GWEI], ids=["1 gwei", "4 gwei"])
@pytest.mark.parametrize("mode", TERMS_OF)
def test_a_sampler_refutes_each_lie_of_a_job_that_it_has_begun_to_defend(
    sampler: Sampler, mode: str, low: int
) -> None:
    terms: dict[str, Any] = {"program": TERMS_OF[mode], "low_fee": low, "high_fee": 25 * low}
    for count in range(1, LIES):
        mine = {root: [ME] for root in range(count - 1)}
        assert refuted_now(sampler, of_lies(count, mine, **terms)) == [count - 1]
        assert refuted_now(sampler, of_lies(count, {}, **terms)) == list(range(count)), "all at once"


def test_a_root_that_is_too_slow_to_be_refuted_keeps_no_other_from_that(
    sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claimant has chosen states with which its steps are slow."""
    job = of_lies(3, {})
    assert refuted_now(sampler, job) == [0, 1, 2]
    monkeypatch.setattr(Runner, "slow", {job.groups[1].root: Taken(1e6, 1e6)})
    assert refuted_now(sampler, job) == [0, 2]


@pytest.mark.parametrize("mode", TERMS_OF)
def test_the_right_root_is_claimed_beside_however_many_lies(
    sampler: Sampler, mode: str, tmp_path: Path
) -> None:
    node = member(tmp_path / "whole")
    node.settings = settings(check="all")
    whole = Acceptance(node, Runner())  # type: ignore[arg-type]
    for count in range(1, LIES):
        job = of_lies(count, {root: [ME] for root in range(count)}, program=TERMS_OF[mode], low_fee=4 * GWEI)
        job = replace(job, high_fee=100 * GWEI)
        sampler._found[job.id] = found(job)
        assert sampler._claims(job, 0)
        beside = of_lies(count, {}, program=TERMS_OF[mode], low_fee=4 * GWEI, high_fee=100 * GWEI)
        assert whole.affordable(beside, offer(beside, RIGHT).wanted)


@pytest.mark.parametrize("account", [10, 100, 1000])
def test_living_refutations_of_an_ally_do_not_make_ours_as_dear_as_the_account(
    sampler: Sampler, account: int
) -> None:
    sampler._node.wei = account * ETHER  # type: ignore[attr-defined]
    staked = []
    for living in range(14):
        job = of_lies(1, {0: [ALLY] * living}, stake=ETHER // 10)
        if refuted_now(sampler, job):
            staked.append(refuting(job, job.groups[0].root).wanted)
            most = 150 * least_prize(job.stake_at(0))
            assert living == 0 or staked[-1] + quarrel(job, sampler._settings.fees.max_fee) <= most
    assert len(staked) > 1, "it does not wait until the price is beyond that"


def test_once_an_ally_s_refutations_have_lost_the_price_that_it_has_paid_is_no_limit(
    sampler: Sampler,
) -> None:
    job = of_lies(1, {0: [ALLY] * 9}, stake=ETHER // 10)
    assert not refuted_now(sampler, job)
    lost = tuple(replace(group, spokesman=1) if group.refutes is not None else group for group in job.groups)
    assert refuted_now(sampler, replace(job, groups=lost)) == [0]


@pytest.mark.parametrize(
    ("base_fee", "both"), [(GWEI // 4, False), (GWEI, True), (4 * GWEI, True), (20 * GWEI, False)]
)
def test_of_two_refutations_in_a_block_the_second_needs_a_price_within_the_bounds(
    base_fee: int, both: bool
) -> None:
    """docs/security.md, section 7: each sends what the first takes at twice the price of gas."""
    job = of_lies(1, {}, base_fee=base_fee)
    second = refutation_price(job.stake_now, 1)
    assert (refuting(job, job.groups[0].root).wanted >= second) == both
