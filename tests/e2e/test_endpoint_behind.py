"""Whole disputes of an honest party whose endpoint lacks logs for a while: it loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assay_lab.faults import Fault
from referee_py.trial import solver as trials
from referee_py.trial.solver import Planned
from referee_py.walk.reason import Reason
from tests.conftest import Anvil
from tests.trainer_node.chain.pool import Pool, topic
from trainer_node.chain.fees import ETHER
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.run.replay import Replay

from .arena import PERIOD_S, REWARD, STAKE, Arena
from .test_disputes import honest_root
from .test_hearings import publish_inputs, silence
from .test_reorg import play_until

LIE = Fault.WRONG_OP_OUTPUT


class Blind:
    """What a player knows of the other side who concludes nothing: it posts its own halves, and waits."""

    def output(self, _number: int) -> None: ...

    def children(self) -> None: ...

    def leaf(self) -> None: ...


def blind(monkeypatch: pytest.MonkeyPatch, arena: Arena, *names: str) -> None:
    """Let these members conclude nothing in trials."""
    them = {arena.address(name) for name in names}
    real = trials.plan

    def plan(state: Any, dispute: Any, side: int, own: Any, rival: Any, now: int) -> Sequence[Planned]:
        return real(state, dispute, side, own, Blind() if state.players[side] in them else rival, now)

    monkeypatch.setattr(trials, "plan", plan)


def spoil(arena: Arena, *names: str, **how: Any) -> list[Pool]:
    """Put a pool between these members and the chain."""
    return [Pool(member.node.web3, **how) for member in arena.members if member.name in names]


@pytest.mark.slow
def test_an_honest_signer_keeps_its_bond(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The liar appeals, the honest spokesman does not play, and the signer has to stand by its right verdict. One
    answer of its endpoint lacked the event of its own vote."""
    monkeypatch.setattr(Replay, "publish", publish_inputs)
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], appeals=True) as arena:
        silence(arena, "trainer-0")
        pools = spoil(arena, "verifier-0", "verifier-1", late=(topic("Panel", "Attested"),))
        outcome = arena.play()
        assert sum(pool.hidden for pool in pools) >= 1
        lost = {name: wei / ETHER for name, wei in outcome.profit.items() if name.startswith("verifier")}
        assert min(lost.values()) >= 0, lost


@pytest.mark.slow
def test_an_honest_appellant_keeps_its_bond(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False signers stand by their verdict when the match is over. One answer lacked the opening of the match."""
    settings: dict[str, Any] = {"false_verdicts": True, "threshold": 2}
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], challenger=None, **settings) as arena:
        blind(monkeypatch, arena, "verifier-0", "verifier-1")
        (pool,) = spoil(arena, "trainer-0", late=(topic("Jobs", "Paired"),))
        outcome = arena.play()
        assert pool.hidden >= 1
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.matches == [(Reason.OPERATOR, {arena.address("trainer-1")})]
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2 + 2 * (ETHER // 2)


def held(node: Daemon, job: int) -> bool:
    """Return whether a node has something of a job that it may be asked for."""
    return bool(node.database.undone()) or node.store.holders.jobs().get(job, 0.0) is None


def test_a_restart_beside_an_endpoint_that_hides_the_match_loses_no_prize(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    """The accuser has appealed from a false verdict, and has won. Match and job have ended; the signers may still stand
    by it. It restarts, and from then on one answer of its endpoint lacks the opening of the match."""
    settings: dict[str, Any] = {"false_verdicts": True, "threshold": 2, "appeal_period": 3 * PERIOD_S}
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], challenger=None, **settings) as arena:
        silence(arena, "verifier-0", "verifier-1")
        play_until(arena, lambda job: any(claim.lost for claim in job.claims))
        arena.skip(PERIOD_S)
        accuser = next(member for member in arena.members if member.name == "trainer-0")
        me = arena.address("trainer-0")
        play_until(arena, lambda job: all(claim.collected for claim in job.stakes_of(me)))
        accuser.node.client.matches.clear()
        arena.restart("trainer-0")
        (pool,) = spoil(arena, "trainer-0", late=(topic("Jobs", "Paired"),))
        for _ in range(3):
            accuser.loop.tick()
        assert pool.hidden == 1
        assert held(accuser.node, arena.job_id)
        assert arena.job_id not in accuser.node.keeper._at_rest._idle, "a full disk takes nothing of it"
        arena.skip(2 * PERIOD_S)
        outcome = arena.play()
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2 + 2 * (ETHER // 2)

        for member in arena.members:
            for _ in range(2):
                member.loop.tick()
        assert not any(held(member.node, arena.job_id) for member in arena.members), "all is let go"


def test_an_honest_trainer_wins_its_trial(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The liar serves nothing, posts what it must and concludes nothing. One answer lacked what it has shown."""
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], verifiers=0, serve=False) as arena:
        arena.members.reverse()  # a liar that is quick
        blind(monkeypatch, arena, "trainer-1")
        late = topic("Court", "NodesRevealed"), topic("Court", "LeafShown")
        (pool,) = spoil(arena, "trainer-0", late=late)
        outcome = arena.play()
        assert pool.hidden >= 1
        assert outcome.profit["trainer-0"] >= 0, f"{outcome.matches}, {outcome.profit['trainer-0'] / ETHER}"


@pytest.mark.slow
def test_an_endpoint_whose_logs_are_one_block_behind_its_state(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No event is chosen: each answer about logs lacks the newest block, as if it were indexed a moment later."""
    settings: dict[str, Any] = {"false_verdicts": True, "threshold": 2}
    with Arena(anvil, tmp_path, bundle, trainers=[Fault.NONE, LIE], **settings) as arena:
        blind(monkeypatch, arena, "verifier-0", "verifier-1")
        spoil(arena, "trainer-0", "challenger", lag=1)
        outcome = arena.play()
        assert outcome.job.accepted_root == honest_root(bundle)
        assert outcome.profit["trainer-0"] == REWARD + STAKE // 2 + 2 * (ETHER // 2)
