"""One endpoint of three, from which a sampler reads, lies: it chooses no draw, wipes no work and hides no stake."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from web3 import Web3

from assay_lab.faults import Fault
from tests.campaigns.proxy import FaultProxy
from tests.conftest import Anvil
from tests.trainer_node.chain.liar import Liar
from trainer_node.chain import JobPhase, JobView
from trainer_node.daemon.service import Daemon
from trainer_node.errors import ChainError
from trainer_node.local.bundle import Bundle
from trainer_node.roles.sampling.draw import drawn, public_seed
from trainer_node.roles.sampling.sampler import Samples

from .arena import REWARD, STAKE, Arena, Member, in_intervals

INTERVALS = 20


class Told(Arena):
    """An arena whose challenger reads from a liar first."""

    urls: tuple[str, ...] = ()

    def _node(self, name: str, role: str, **settings: Any) -> Daemon:
        if name == "challenger":
            settings["rpc_url"] = list(self.urls)
        return super()._node(name, role, **settings)

    @property
    def challenger(self) -> Member:
        return next(member for member in self.members if member.name == "challenger")


@pytest.fixture
def liar(anvil: Anvil) -> Iterator[Liar]:
    """An endpoint that lies once it is told how, and two sound ones."""
    with contextlib.ExitStack() as stack:
        proxies = [
            stack.enter_context(p)
            for p in (Liar(anvil.url), FaultProxy(anvil.url, 1), FaultProxy(anvil.url, 2))
        ]
        Told.urls = tuple(proxy.url for proxy in proxies)
        yield proxies[0]  # type: ignore[misc]


def until_claimed(arena: Told) -> JobView:
    """Let the others act until a root is claimed, and some blocks later."""
    others = [member for member in arena.members if member is not arena.challenger]
    while not (job := arena.client.snapshot().job(arena.job_id)).claims:
        before = arena.web3.eth.block_number
        for member in others:
            member.loop.tick()
        if arena.web3.eth.block_number == before and not any(member.busy for member in others):
            arena.skip(30)
    arena.skip(1)
    arena.skip(1)
    return job


def in_blocks(number: int, hash_: bytes) -> Callable[[Any], dict[str, Any]]:
    """Give a block another hash, wherever it is asked for."""

    def lie(told: Any) -> dict[str, Any]:
        block = told.get("result")
        if block and int(block["number"], 16) == number:
            return {"result": {**block, "hash": "0x" + hash_.hex()}}
        return dict(told)

    return lie


def without_claims(told: Any) -> dict[str, Any]:
    """Move every event to an earlier block of the same transaction."""
    logs = told.get("result") or []
    return {"result": [{**log, "blockNumber": hex(int(log["blockNumber"], 16) - 1)} for log in logs]}


def with_less(told: Any) -> dict[str, Any]:
    """Show a larger reward, for which less is checked."""
    text = str(told.get("result") or "")
    return {"result": text.replace(f"{10**18:064x}", f"{10**12:064x}")}


@pytest.mark.parametrize("kind", ["hash", "events", "reward"])
def test_it_does_not_choose_what_is_checked(kind: str, anvil: Anvil, tmp_path: Any, liar: Liar) -> None:
    with Told(
        *(anvil, tmp_path, in_intervals(INTERVALS)),
        trainers=[Fault.WRONG_OP_OUTPUT],
        fault_step=21,
        check="share",
        verifiers=0,
        threshold=0,
    ) as arena:
        job = until_claimed(arena)
        samples, me = Samples(arena.challenger.node), arena.address("challenger")
        (claimed,) = (e for e in arena.client.snapshot().job_events(job.id) if e.name == "Claimed")
        block, group = claimed.block + 1, job.groups[0]
        sound = samples.plan(job, group)
        assert sound is not None
        seed = public_seed(arena.client.block(block).hash, me, group.root)
        assert sound.intervals == drawn(seed, INTERVALS, len(sound.intervals))
        methods = {
            "hash": ("eth_getBlockByNumber", in_blocks(block, hashlib.sha256(b"chosen").digest())),
            "events": ("eth_getLogs", without_claims),
            "reward": ("eth_call", with_less),
        }
        method, lie = methods[kind]
        liar.lies[method] = lie
        for _ in range(4):
            with contextlib.suppress(ChainError):
                assert samples.plan(job, group) == sound
        for _ in range(10):  # other endpoints serve after a contradiction
            arena.challenger.loop.tick()
            with contextlib.suppress(ChainError):
                assert samples.plan(job, group) == sound
                break
        else:
            pytest.fail("one liar keeps the draw from being known")


def test_it_wipes_no_work(anvil: Anvil, tmp_path: Any, bundle: Bundle, liar: Liar) -> None:
    """It shows the job with another mode, now and then."""
    terms = bundle.terms

    def words(mode: int) -> str:
        numbers = terms.opset, mode, terms.node_count, terms.slot_count, terms.constant_count, terms.steps
        return "".join(f"{number:064x}" for number in numbers)

    changed: list[str] = []

    def lie(told: Any) -> dict[str, Any]:
        text = str(told.get("result") or "")
        changed.extend([text] if words(1) in text else [])
        return {"result": text.replace(words(1), words(2))}

    with Told.sampled(anvil, tmp_path, bundle) as arena:
        until_claimed(arena)
        runner = arena.challenger.runner
        assert runner is not None
        for _ in range(20):
            arena.challenger.loop.tick()
            if arena.job_id in runner._works:
                break
        work = runner._works[arena.job_id]
        for _ in range(3):
            changed.clear()
            arena.challenger.node.client.agreement._odd.clear()  # as in a minute
            while not changed:  # until it serves
                liar.lies["eth_call"] = lie
                arena.challenger.loop.tick()
                liar.lies.clear()
                assert runner._works[arena.job_id] is work
            arena.challenger.loop.tick()
        outcome = arena.play()
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert outcome.profit["challenger"] == REWARD + STAKE // 2


def test_it_hides_no_refutation_from_a_node_that_starts(
    anvil: Anvil, tmp_path: Any, bundle: Bundle, liar: Liar
) -> None:
    """The refuted interval is found again, though the sampler has claimed the right root, too."""
    with Told.sampled(anvil, tmp_path, bundle) as arena:
        abi: Any = arena.client.contracts.jobs.abi
        (event,) = (e for e in abi if e["type"] == "event" and e["name"] == "Refuted")
        kinds = ",".join(one["type"] for one in event["inputs"])
        topic = "0x" + bytes(Web3.keccak(text=f"Refuted({kinds})")).hex()
        hidden: list[Any] = []

        def lie(told: Any) -> dict[str, Any]:
            logs = told.get("result") or []
            hidden.extend(log for log in logs if log["topics"][0] == topic)
            return {"result": [log for log in logs if log["topics"][0] != topic]}

        me = arena.address("challenger")
        while True:
            job = arena.client.snapshot().job(arena.job_id)
            mine = job.stakes_of(me)
            if (job.open_matches and len(mine) == 2) or job.phase.ended:
                break
            if job.open_matches and mine:
                arena.challenger.loop.tick()
            else:
                arena.turn()
        assert not job.phase.ended
        liar.lies["eth_getLogs"] = lie
        arena.restart("challenger")
        outcome = arena.play()
        assert hidden
        assert outcome.job.phase is JobPhase.ACCEPTED
        assert all(me not in losers for _, losers in outcome.matches), outcome.matches
        assert outcome.profit["challenger"] == REWARD + STAKE // 2
