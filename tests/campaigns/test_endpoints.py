"""A whole job with a liar through endpoints as providers have them: the right result, and the honest balance kept.

`make endpoints` plays each quirk of `quirks.py`, from the node's start on and from the middle of the job on; a few are
quick tests. Where the chain cannot work, nothing is staked.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from eth_utils.address import to_checksum_address

from assay_lab.faults import EXPECTED, Fault
from tests.conftest import Anvil
from tests.e2e.test_disputes import expect_justice
from trainer_node.chain import Call
from trainer_node.errors import Reverted
from trainer_node.local.bundle import Bundle

from .games import Game, game
from .quirk_kinds import Quirk, QuirkProxy
from .quirks import QUIRKS

QUICK = "logs: HTTP 400", "pending refused", "reverts: HTTP 500"
ROUNDS = 12
"""Rounds of a trainer whose endpoint cannot work."""


def by_name(name: str) -> Quirk:
    return next(quirk for quirk in QUIRKS if quirk.name == name)


def test_every_quirk_names_where_it_was_seen() -> None:
    assert len({quirk.name for quirk in QUIRKS}) == len(QUIRKS) >= 25
    for quirk in QUIRKS:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", quirk.seen), quirk.name


Captured = pytest.CaptureFixture[str]


def play(
    anvil: Anvil, folder: Path, bundle: Bundle, captured: Captured, quirk: Quirk, *, from_start: bool
) -> None:
    """Play a job through an endpoint with a quirk."""
    with QuirkProxy(anvil.url) as proxy:
        if from_start and quirk.works:
            proxy.quirk = quirk
        with game(anvil, folder, bundle, [proxy.url]) as played:
            if not quirk.works:
                _stakes_nothing(played, proxy, quirk)
                return
            if not from_start:

                def begin() -> None:
                    me = played.address("trainer-0")
                    if played.client.snapshot().job(played.job_id).trainer(me) is not None:
                        proxy.quirk = quirk

                played.between = begin
            _is_refused(played, proxy)
            outcome = played.play()
            _is_refused(played, proxy)
            expect_justice(played, outcome, bundle)
            assert outcome.matches == [(EXPECTED[Fault.POISON_DATA], {played.address("trainer-1")})], (
                quirk.name
            )
        assert proxy.acted > 0, f"{quirk.name}: it has done nothing"
        if quirk.told:
            assert played.said.any(quirk.told), f"/readyz does not say {quirk.told!r}: {played.said.reasons}"
            assert quirk.told in captured.readouterr().err, f"no log says {quirk.told!r}"


def _is_refused(played: Game, proxy: QuirkProxy) -> None:
    """Let the contract refuse the honest trainer's call: the name of its error comes through."""
    node = next(member.node for member in played.members if member.honest)
    assert node.transactions is not None
    with pytest.raises(Reverted) as caught:
        node.transactions.simulate(Call.of(node.client.contracts.jobs, "join", played.job_id + 1))
    assert caught.value.name == ("revert" if proxy.quirk is by_name("reverts: no data") else "WrongPhase")


def _stakes_nothing(played: Game, proxy: QuirkProxy, quirk: Quirk) -> None:
    """Let an honest trainer look at an open job through an endpoint that cannot work."""
    proxy.quirk = quirk
    trainer, me = played.services["trainer-0"], to_checksum_address(played.address("trainer-0"))
    before = played.web3.eth.get_balance(me)
    for _ in range(ROUNDS):
        trainer.round()
        played.said.hear(played.members[0].node)
    assert proxy.acted > 0
    assert played.client.snapshot().job(played.job_id).trainer(me) is None
    assert played.web3.eth.get_balance(me) == before
    assert played.said.any(quirk.told), f"/readyz does not say {quirk.told!r}: {played.said.reasons}"


@pytest.mark.parametrize("name", QUICK)
def test_a_job_through_an_endpoint_with_a_quirk(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle, capfd: Captured, name: str
) -> None:
    play(module_anvil, tmp_path / "game", bundle, capfd, by_name(name), from_start=True)


@pytest.mark.slow
@pytest.mark.parametrize("from_start", [True, False], ids=["from the start", "in the middle"])
@pytest.mark.parametrize("quirk", QUIRKS, ids=lambda quirk: quirk.name)
def test_campaign(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle, capfd: Captured, quirk: Quirk, from_start: bool
) -> None:
    if not from_start and (quirk.early or not quirk.works):
        pytest.skip("it shows itself at the start, or nothing is staked")
    play(module_anvil, tmp_path / "game", bundle, capfd, quirk, from_start=from_start)
