"""Attack: a stranger posts a job and lies in it, so that we refute the lie and have no time or ether for other stakes.

Who fills a node loses the price of the node, whatever jobs it fills it with. Admission is the node's own rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from referee_py.gas_schedule import OSAKA
from referee_py.rounding import Rounding
from tests.trainer_node.desk import TERMS, challenged, rules
from tests.trainer_node.roles.member import member
from trainer_node.chain import JobPhase, JobView
from trainer_node.chain.codec.watch import PoolInfo
from trainer_node.chain.fees import ETHER, GWEI
from trainer_node.errors import ConfigError
from trainer_node.roles.acceptance import Acceptance, never
from trainer_node.run.cost_estimate import MARGIN, CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import Settings, load_settings
from trainer_node.stake.admission import APPEALS, CLOCK, VERDICTS, Duty, Means, too_much_at_once
from trainer_node.stake.funds import TooPoor, quarrel
from trainer_node.stake.judge import first
from trainer_node.stake.min_stake import worst_gas
from trainer_node.stake.occupation import (
    POSTED_S,
    SAMPLER_STAKES,
    WHOLE_STAKES,
    TooCheap,
    TooMuchKept,
    free_s,
    shares,
    stakes_paid,
    too_cheap,
    too_much_kept,
)

CASES = 4000
MAIN_CHAIN = Means(latency_s=62.0, mined_s=14.0, lanes=4)
DAY = 24 * 3600
STAKE_GAS = 2 * worst_gas(OSAKA)
QUICK, HOUR = CostEstimate(0.001, 0.001, NO_TRIAL), CostEstimate(200.0, 200.0, NO_TRIAL)


def share(duty: Duty) -> float:
    return max(shares(duty, MAIN_CHAIN).values())


def by_its_own_limits(duty: Duty) -> float:
    """A weaker price: the share of a job's own clock and periods, however short these are."""
    held = {
        name: MARGIN * seconds / duty.limits[name]
        for name, seconds in ((CLOCK, duty.match_s + duty.trial_s), (VERDICTS, duty.match_s + duty.answer_s))
    }
    return min(1.0, duty.stakes * max(held.values()))


def some(random: Random, posted: float) -> Duty:
    """Return the duty of a job whose clock and periods are about so many times those that are posted."""

    def period(name: str) -> int:
        return int(POSTED_S[name] * posted * random.choice((1, 1, random.uniform(0.5, 3))))

    def work() -> float:
        return random.choice((0.0, 1.0, 60.0, 900.0, 4000.0)) * random.random()

    appeals = random.choice((0, period(APPEALS)))
    return Duty(
        match_s=work(),
        waits_s=work() / 10,
        answer_s=work(),
        log_s=random.choice((0.0, 0.0, 5.0)) * random.random(),
        trial_s=work(),
        moves=random.randint(32, 60),
        clock=period(CLOCK),
        verdict_period=period(VERDICTS),
        appeal_period=appeals,
        stakes=random.choice((1, 2)),
    )


def leaves(duty: Duty) -> bool:
    """Return whether a job has the clock and periods for which a node keeps itself free."""
    return all(
        limit - MARGIN * duty.seen_s(name, MAIN_CHAIN) >= free_s(name) for name, limit in duty.limits.items()
    )


def filled(random: Random) -> tuple[list[Duty], Duty]:
    """Return a stranger's jobs that were all admitted, and one of somebody else that is not admitted beside them."""
    while True:
        held = dict[int, Duty]()
        for number in range(1, random.randint(1, 12) + 1):
            of = some(random, random.choice((0.02, 0.1, 0.5, 1, 1, 4)))
            if too_much_at_once(held, number, of, MAIN_CHAIN) is None:
                held[number] = of
        other = replace(some(random, random.choice((1, 1, 5))), stakes=1)
        if held and leaves(other) and too_much_at_once(held, 99, other, MAIN_CHAIN) is not None:
            return list(held.values()), other


def is_paid(price: Callable[[Duty], float], held: Sequence[Duty], other: Duty) -> bool:
    """Return whether who keeps that job out has paid for all of the node that it would not have taken itself."""
    return sum(map(price, held)) > 1 - share(other) - 1e-9


def test_whoever_fills_a_node_pays_for_all_of_it_whatever_the_jobs_are() -> None:
    random = Random(5)
    for _ in range(CASES):
        held, other = filled(random)
        assert is_paid(share, held, other), (held, other)


def test_a_share_of_the_own_limits_would_let_a_node_be_filled_for_nearly_nothing() -> None:
    random = Random(6)
    cases = [filled(random) for _ in range(CASES // 10)]
    assert sum(not is_paid(by_its_own_limits, held, other) for held, other in cases) > len(cases) // 4
    short = Duty(1.0, 0.0, 0.0, 0.0, 0.0, 32, 2 * DAY // 24, DAY, 0)
    assert by_its_own_limits(short) < 0.001
    honest = Duty(1800.0, 0.0, 0.0, 0.0, 0.0, 32, DAY, DAY, 0)
    assert too_much_at_once({1: short}, 2, honest, MAIN_CHAIN) is not None
    assert share(short) > 0.9


def test_the_price_is_in_proportion_and_never_more_than_that_of_the_node() -> None:
    random = Random(7)
    for _ in range(CASES):
        of = some(random, random.choice((0.001, 0.1, 1, 30)))
        assert 0 < share(of) <= 1
        assert share(replace(of, stakes=of.stakes + 1)) >= share(of)
        assert too_cheap(of, MAIN_CHAIN, ETHER, ETHER) is None
        assert too_cheap(of, MAIN_CHAIN, int((share(of) + 1e-6) * ETHER), ETHER) is None
        assert too_cheap(of, MAIN_CHAIN, int(0.99 * share(of) * ETHER), ETHER) is not None
        assert too_cheap(of, MAIN_CHAIN, 0, 0) is None, "no price, no question"


# ---------------------------------------------------------------------- a job's terms


def settings(**more: Any) -> Settings:
    return load_settings(**{"chain_id": 1, "mode": Mode.CHALLENGE, **more})


def lie(posted: float = 1.0, **changes: Any) -> JobView:
    """Return a job with a stranger's claim on a main chain, at one gwei for a unit of gas and up to 25."""
    periods = replace(
        rules(int(DAY * posted)),
        verdict_period=int(POSTED_S[VERDICTS] * posted),
        appeal_period=int(DAY * posted),
    )
    values: dict[str, Any] = {
        "rules": periods,
        "stake_gas": STAKE_GAS,
        "stake": 0,
        "low_fee": GWEI,
        "high_fee": 25 * GWEI,
        "base_fee": GWEI // 2,
        "reveal_period": DAY,
        **changes,
    }
    return challenged(1, [(bytes(32), "")], DAY, **values)


def reason(of: JobView, node: Settings, estimate: CostEstimate | None = QUICK, **more: int) -> Any:
    return first(never(of, node, estimate, 48, **more))


@pytest.mark.parametrize("check", ["all", "share", "sample:0.1"])
def test_a_job_posted_as_by_default_is_taken(check: str) -> None:
    assert reason(lie(), settings(check=check)) is None
    assert reason(lie(low_fee=2 * GWEI, stake=ETHER // 10), settings(check=check)) is None
    assert reason(lie(rules=replace(lie().rules, threshold=0)), settings(check=check)) is None


def test_a_clock_that_is_just_long_enough_costs_the_price_of_the_node() -> None:
    of = lie(0.1)
    assert reason(of, settings(policy={"node_price_eth": 0})) is None, "it can be defended"
    refused = reason(of, settings())
    assert isinstance(refused, TooCheap)
    for word in (
        str(STAKE_GAS * GWEI // 2),
        "policy.node_price_eth",
        "86400 s, or larger stakes",
        "1 stakes",
    ):
        assert word in str(refused)
    assert reason(replace(of, stake=ETHER), settings()) is None, "half an ether is lost"
    assert reason(of, settings(chain_id=31337)) is None


def test_the_remedy_makes_the_limit_that_it_names_payable() -> None:
    random, named, late = Random(3), 0, 0
    for _ in range(CASES):
        duty = some(random, random.choice((0.3, 0.6, 0.8, 0.9, 0.95, 1)))
        pays = random.choice((ETHER // 20, ETHER // 10, ETHER // 4))
        slow = replace(MAIN_CHAIN, latency_s=random.choice((62.0, 900.0)))
        refused = too_cheap(duty, slow, pays, ETHER // 2)
        if refused is None:
            continue
        field = {CLOCK: "clock", VERDICTS: "verdict_period", APPEALS: "appeal_period"}[refused.name]
        if f"a {refused.name} of" in refused.remedy:
            named += 1
            longer = replace(duty, **{field: POSTED_S[refused.name]})
            assert shares(longer, slow)[refused.name] * ETHER // 2 <= pays
        elif "finality" in refused.remedy:
            late += 1
            prompt = replace(slow, latency_s=slow.mined_s)
            assert shares(duty, prompt)[refused.name] * ETHER // 2 <= pays
    assert named > CASES // 100
    assert late > CASES // 100


def test_much_computing_has_its_price_in_a_clock_of_any_length() -> None:
    of = lie(20, stake=ETHER // 10)
    refused = reason(of, settings(), HOUR)
    assert isinstance(refused, TooCheap)
    assert str(refused).endswith(": larger stakes"), "no clock is long enough"
    assert reason(replace(of, stake=ETHER), settings(), HOUR) is None


def test_ether_in_reserve_is_bounded_by_what_a_liar_loses() -> None:
    dear = lie(high_fee=100 * GWEI)
    refused = reason(dear, settings(), None)
    assert isinstance(refused, TooMuchKept)
    assert str(quarrel(dear, 1000 * GWEI)) in str(refused)
    assert "policy.max_reserve_prizes allows 150" in str(refused)
    assert reason(dear, settings(policy={"max_reserve_prizes": 0})) is None
    assert reason(dear, settings(fees={"max_fee_gwei": 12})) is None, "the reserve follows our own limit"
    assert reason(replace(dear, stake=ETHER), settings()) is None
    assert reason(dear, settings(chain_id=31337), None) is None
    assert too_much_kept(300, 1, 300) is None
    assert too_much_kept(301, 1, 300) is not None
    court_alone = replace(dear, rules=replace(dear.rules, threshold=0))
    assert reason(court_alone, settings()) is None, "no bonds are kept"


@pytest.mark.parametrize("base_fee", [1, GWEI, 12 * GWEI])
@pytest.mark.parametrize("of", [lie(), lie(0.1), lie(high_fee=100 * GWEI)], ids=["fair", "short", "dear"])
def test_the_answer_does_not_change_with_the_price_of_gas(of: JobView, base_fee: int) -> None:
    assert reason(replace(of, base_fee=base_fee), settings()) == reason(of, settings())


def test_what_is_measured_again_as_quicker_is_no_dearer() -> None:
    random = Random(8)
    for _ in range(CASES):
        slow = CostEstimate(random.uniform(0, 100), random.uniform(0, 100), NO_TRIAL)
        quick = slow.least(CostEstimate(random.uniform(0, 100), random.uniform(0, 100), NO_TRIAL))
        rule = lie(random.uniform(0.05, 3)).rules
        assert share(Duty.under(TERMS, rule, quick)) <= share(Duty.under(TERMS, rule, slow)) + 1e-12


@pytest.mark.parametrize("mode", [TERMS.mode, Rounding(32).mode], ids=["repops", "rounded"])
@pytest.mark.parametrize("check", ["all", "share"])
def test_with_a_stake_in_the_job_nothing_is_asked_again(check: str, mode: int) -> None:
    assert stakes_paid(check, 0) == (WHOLE_STAKES if check == "all" else SAMPLER_STAKES)
    assert stakes_paid(check, 1) == 0
    of = lie(0.1, high_fee=100 * GWEI, program=replace(TERMS, mode=mode))
    assert reason(of, settings(check=check)) is not None
    for held in (1, 2, 5, 200):
        assert reason(of, settings(check=check), held=held) is None


@pytest.mark.parametrize("mode", [Mode.WATCH, Mode.DEFEND])
def test_who_stakes_nothing_asks_for_no_price(mode: Mode) -> None:
    assert reason(lie(0.1, high_fee=100 * GWEI), settings(mode=mode)) is None


@pytest.mark.parametrize(
    ("changes", "paid"),
    [
        ({"stake": 0, "stake_gas": 1}, False),
        ({"stake": 1, "stake_gas": 1}, False),
        ({"stake": 10**9 * ETHER}, True),
        ({"low_fee": 2**40 - 1, "high_fee": 2**40 - 1}, True),
        ({"rules": rules(1)}, False),
        ({"rules": rules(2**32 - 1)}, False),
    ],
)
def test_terms_at_their_extremes_have_an_answer(changes: dict[str, Any], paid: bool) -> None:
    of = lie(**changes)
    duty = Duty.under(TERMS, of.rules, QUICK, 256)
    refused = too_cheap(duty, MAIN_CHAIN, of.stake_at(0) // 2, ETHER // 2)
    assert (refused is None) == paid
    assert refused is None or "policy.node_price_eth" in str(refused)


class Measured:
    """Stands for a runner that has measured a job, and has room for it."""

    def prepare(self, _job: JobView) -> CostEstimate:
        return QUICK

    def ready_in_s(self, _job: JobView) -> float:
        return 0.0

    def too_full(self, _job_id: int, **_: Any) -> None:
        return None


def test_a_slot_is_paid_for_by_its_reward_and_a_watcher_by_its_bounty(tmp_path: Path) -> None:
    prices = {"node_price_eth": 0.5, "max_reserve_prizes": 150}
    node = member(tmp_path, policy=prices, max_watch_eth=1000.0)
    worth = Acceptance(node, Measured())  # type: ignore[arg-type]
    of = lie(0.1, phase=JobPhase.TRAINING, commit_end=DAY)
    assert first(worth.slot(of, 0)) is None
    assert isinstance(first(worth.claim(of, 1, 0, of=None)), TooCheap)

    def watched(ether: int, of: JobView = of, watchers: int = 0) -> Any:
        return first(worth.watch(of, PoolInfo(ether * ETHER, 4, watchers, JobPhase.NONE, 0), 0))

    dear = replace(of, stake=ETHER)
    assert watched(2, dear) is None
    assert watched(2, dear, watchers=3) is None
    assert watched(2, dear, watchers=7) is None, "who comes later does not change what was accepted"
    assert isinstance(watched(1, dear), TooCheap)
    assert isinstance(watched(2), TooCheap), (
        "where nobody reveals its author keeps the bounty, and loses a stake"
    )
    assert isinstance(watched(2, lie(0.1, high_fee=1000 * GWEI)), TooMuchKept)
    node.wei = 0
    assert isinstance(first(worth.claim(lie(stake=ETHER), ETHER, 0, of=None)), TooPoor)


# ---------------------------------------------------------------------- settings, and what is posted


def test_the_prices_are_for_public_chains() -> None:
    assert (settings().node_price, settings().max_reserve_prizes) == (ETHER // 2, 150)
    for chain in (1337, 31337):
        local = settings(chain_id=chain)
        assert (local.node_price, local.max_reserve_prizes) == (0, 0)
    chosen = settings(chain_id=1337, policy={"node_price_eth": 0.25, "max_reserve_prizes": 7})
    assert (chosen.node_price, chosen.max_reserve_prizes) == (ETHER // 4, 7)
    off = settings(policy={"node_price_eth": 0, "max_reserve_prizes": 0})
    assert (off.node_price, off.max_reserve_prizes) == (0, 0)
    with pytest.raises(ConfigError, match="node_price_eth"):
        settings(policy={"node_price_eth": float("nan")})
