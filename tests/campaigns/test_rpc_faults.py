"""Games through broken RPC endpoints: the outcomes are those of a sound endpoint, and the nodes say what is broken.

Each run is a whole job with a liar, on a real chain, with other troubles or another seed. A few runs are quick tests;
the campaign (`make node-campaigns`) plays them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from assay_lab.faults import EXPECTED, Fault
from tests.conftest import Anvil
from tests.e2e.test_disputes import expect_justice
from trainer_node.local.bundle import Bundle

from .games import Game, game
from .proxy import TRANSIENT, FaultProxy, Trouble

MEMORY_BYTES = 400 << 20
"""By how much a process may grow over a campaign. NOTE: a run of the nodes themselves leaves threads' arenas behind."""


PARTS = 4
"""The campaign is played in so many tests, which may run side by side."""


class Run(NamedTuple):
    """``shares``: of broken answers, by endpoint and trouble; ``always``: endpoints that do nothing else."""

    name: str
    shares: tuple[dict[Trouble, float], ...]
    always: tuple[Trouble | None, ...] = ()
    agree: int = 0
    seed: int = 0
    told: tuple[str, ...] = ()
    """Words that /readyz must have shown."""


def one_endpoint() -> list[Run]:
    """Return runs with one endpoint, which breaks answers at random: each trouble alone, then all of them."""
    single = [
        # NOTE: few answers have several logs, so all of these are shuffled.
        Run(
            f"one endpoint, {trouble} {seed}",
            ({trouble: 1.0 if trouble is Trouble.SHUFFLED else share},),
            seed=seed,
        )
        for trouble in TRANSIENT
        for seed, share in enumerate((0.03, 0.06, 0.1))
        if not (trouble is Trouble.SILENCE and share > 0.03)  # each takes a second
    ]
    mixed = [
        Run(f"one endpoint, all troubles {seed}", (dict.fromkeys(TRANSIENT, 0.008),), seed=seed)
        for seed in range(15)
    ]
    return single + mixed


def two_endpoints() -> list[Run]:
    """Return runs with two endpoints, of which one or both are broken."""
    dead = [
        Run(f"failover from {trouble}, {seed}", ({}, {}), (trouble, None), agree=1, seed=seed, told=("RPC",))
        for trouble in (Trouble.STATUS, Trouble.DROPPED, Trouble.WRONG_ID, Trouble.TOO_LONG, Trouble.PACKED)
        for seed in range(2)
    ]
    both = [
        Run(f"two flaky endpoints, {seed}", (dict.fromkeys(TRANSIENT, 0.008),) * 2, agree=1, seed=seed)
        for seed in range(15)
    ]
    agreeing = [
        Run(f"two flaky endpoints that must agree, {seed}", (dict.fromkeys(TRANSIENT, 0.004),) * 2, seed=seed)
        for seed in range(15)
    ]
    return dead + both + agreeing


def three_endpoints() -> list[Run]:
    """Return runs with three endpoints, of which one lies, is on another chain, or is behind; the others agree."""
    return [
        Run(f"{trouble} at {place}, {seed}", ({}, {}, {}), always, seed=seed, told=told)
        for trouble, told in (
            (Trouble.FORKED, ("unlike the others",)),
            (Trouble.LYING, ("another answer",)),
            (Trouble.STALE, ()),
        )
        for place in range(3)
        for seed in range(2)
        for always in [tuple(trouble if at == place else None for at in range(3))]
    ]


RUNS = one_endpoint() + two_endpoints() + three_endpoints()
QUICK = ("forked at 0, 0",)


def play(anvil: Anvil, folder: Path, bundle: Bundle, run: Run) -> Game:
    """Play a run, and check its outcome and what the nodes have said."""
    proxies = [FaultProxy(anvil.url, 1000 * run.seed + at) for at in range(len(run.shares))]
    for proxy in proxies:
        proxy.__enter__()
    try:
        urls = [proxy.url for proxy in proxies]
        with game(anvil, folder, bundle, urls, agree=run.agree) as played:
            for proxy, shares, always in zip(
                proxies, run.shares, run.always or (None,) * len(proxies), strict=True
            ):
                proxy.break_with(shares)
                proxy.always = always
            outcome = played.play()
            expect_justice(played, outcome, bundle)
            assert outcome.matches == [(EXPECTED[Fault.POISON_DATA], {played.address("trainer-1")})], run.name
        made = sum(proxy.made.total() for proxy in proxies)
        said = played.said
        assert made > 0, f"{run.name}: nothing was broken"
        broken = {trouble for proxy in proxies for trouble in proxy.made}
        if broken & {Trouble.STATUS, Trouble.DROPPED, Trouble.WRONG_ID, Trouble.SILENCE, Trouble.PACKED}:
            assert said.failures > 0, f"{run.name}: no metric says so"
            assert said.reasons, f"{run.name}: /readyz does not say so"
        if broken & {Trouble.FORKED, Trouble.LYING}:
            assert said.failures + said.disagreements > 0, f"{run.name}: no metric says so"
        for words in run.told:
            assert said.any(words), f"{run.name}: /readyz does not say {words!r}, but {said.reasons}"
        return played
    finally:
        for proxy in proxies:
            proxy.__exit__(None, None, None)


def memory() -> int:
    """Return the bytes that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", QUICK)
def test_a_job_through_broken_endpoints(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle, name: str
) -> None:
    play(module_anvil, tmp_path / "game", bundle, next(run for run in RUNS if run.name == name))


@pytest.mark.slow
def test_nothing_is_staked_while_two_endpoints_disagree(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """Nobody joins while the chains differ; once they agree, the job is done as any other."""
    with (
        FaultProxy(module_anvil.url) as sound,
        FaultProxy(module_anvil.url) as other,
        game(module_anvil, tmp_path / "game", bundle, [sound.url, other.url]) as played,
    ):
        other.always = Trouble.FORKED
        joined, me = 0, played.address("trainer-0")
        withheld: Callable[[], bool] = lambda: played.said.any("join is withheld")  # noqa: E731
        for _ in range(400):
            played.services["trainer-0"].round()
            played.said.hear(played.members[0].node)
            joined += played.client.snapshot().job(played.job_id).trainer(me) is not None
            if withheld():
                break
        assert withheld(), played.said.reasons
        assert joined == 0
        assert played.said.any("endpoints disagree about block")
        assert played.members[0].node.metrics.value("stakes_withheld") > 0
        other.always = None
        expect_justice(played, played.play(), bundle)
        assert not played.members[0].node.problems.topics()


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_campaign(module_anvil: Anvil, tmp_path: Path, bundle: Bundle, part: int) -> None:
    """More than a hundred runs; memory is that of the first few."""
    assert len(RUNS) >= 100
    failed, grown = list[str](), 0
    for number, run in enumerate(RUNS[part::PARTS]):
        try:
            played = play(module_anvil, tmp_path / str(number), bundle, run)
        except AssertionError as error:
            failed.append(f"{run.name}: {str(error)[:500]}")
        else:
            print(f"{run.name}: {played.said.failures:.0f} failures", file=sys.__stderr__, flush=True)
        if number == 4:
            grown = memory()
    assert not failed, "\n".join(failed)
    assert memory() - grown < MEMORY_BYTES, f"{(memory() - grown) >> 20} MiB more than after five runs"
