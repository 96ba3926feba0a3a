"""What is read of pledges: what most endpoints show, and whether a challenge made now would come in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay_serve.defence import Defence
from assay_serve.model import Model
from assay_serve.pledge_page import LEAST_S, lacks
from assay_serve.pledges import Pledges
from tests.trainer_node.chain.liar import Liar
from trainer_node.chain import ChainClient, connect
from trainer_node.errors import DiskFailed, RpcUnavailable

from ..conftest import Anvil
from .pledged import FORFEIT, NOTICE, Ground, answered, run_of
from .test_defence import scene
from .test_pledges import ground as _ground

ground = _ground


@contextmanager
def through_a_liar(ground: Ground, anvil: Anvil) -> Iterator[tuple[Pledges, list[Liar]]]:
    """The contract through three endpoints, of which the first one serves, and lies once it is told to."""
    with ExitStack() as stack:
        made = [stack.enter_context(Liar(anvil.url)) for _ in range(3)]
        web3 = connect([one.url for one in made], anvil.chain_id)
        yield Pledges(ChainClient(web3, ground.client.deployment), ground.pledges.address), made


def test_one_of_three_hides_and_makes_up_nothing(ground: Ground, module_anvil: Anvil, model: Model) -> None:
    """The attack: the event of a challenge is hidden from the node that has to answer it; a pledge is made up."""
    owner, terms, backing = ground.pledged()
    signed, client = answered(model, backing, ground.now), ground.account()
    number = ground.challenge(client, terms, signed, run_of(model, signed))
    job = ground.client.snapshot().job(number)
    true = ground.pledges.pledge(owner.address)
    assert signed.backed is not None
    with through_a_liar(ground, module_anvil) as (pledges, (liar, *_)):
        liar.lies["eth_getLogs"] = []
        assert pledges.challenged(job) == ground.pledges.challenged(job) is not None
        assert pledges.conditions(owner.address) == terms
        liar.lies["eth_call"] = "0x" + (b"\0" * 31 + b"\1").hex() * 6
        assert pledges.pledge(owner.address) == true
        assert pledges.open(owner.address, 0).job_id == number
        assert not pledges.is_wrong(signed.backed.digest)


def test_a_tie_is_no_answer(ground: Ground, module_anvil: Anvil, model: Model, tmp_path: Path) -> None:
    """The attack: while a third endpoint fails for a moment, the one that serves shows the challenge as of another one,
    and the node would keep that until the job is over."""
    at = scene(ground, model, tmp_path)

    def of_another(answer: dict[str, Any]) -> dict[str, Any]:
        for log in answer["result"]:
            log["topics"][1] = "0x" + "00" * 12 + "11" * 20
        return {"result": answer["result"]}

    with through_a_liar(ground, module_anvil) as (pledges, (liar, _, third)):
        defence = Defence(at.defence._node, pledges, at.defence._owner, at.defence._runs, tmp_path)
        liar.lies["eth_getLogs"], third.lies["eth_getLogs"] = of_another, "garbage"
        with pytest.raises(RpcUnavailable, match="disagree about the challenge"):
            defence.wants(at.ours)
        third.lies.clear()
        assert defence.wants(at.ours)


def test_an_account_finds_its_own_open_challenge(ground: Ground, model: Model) -> None:
    """Else a command that is given again after a lost connection opens a second one, and has one stake for both."""
    owner, terms, backing = ground.pledged()
    signed, client = answered(model, backing, ground.now), ground.account()
    assert ground.pledges.open_of(owner.address, client.address) is None
    job = ground.challenge(client, terms, signed, run_of(model, signed))
    found = ground.pledges.open_of(owner.address, client.address)
    assert found is not None
    assert found.job_id == job
    assert ground.pledges.open_of(owner.address, owner.address) is None


@pytest.mark.parametrize(
    ("left_s", "leaves_in", "takes_s", "told"),
    [
        (LEAST_S + 60, None, None, None),
        (LEAST_S - 60, None, None, "which may be too soon"),
        (LEAST_S - 60, None, 70, None),
        (60, None, 70, "which may be too soon"),
        (-60, None, 70, "it could be challenged until"),
        (LEAST_S + 60, LEAST_S + 60, None, "may leave before"),
        (LEAST_S + 60, LEAST_S, 70, None),
        (LEAST_S + 60, 60, 70, "the pledge leaves at"),
        (NOTICE, None, None, "may leave before"),
        (NOTICE, None, 70, None),
    ],
)
def test_a_receipt_is_open_to_challenges_for_long_enough(
    ground: Ground, model: Model, left_s: int, leaves_in: int | None, takes_s: int | None, told: str | None
) -> None:
    """Of who has found it wrong it asks no more than that the challenge comes in time."""
    owner, terms, backing = ground.pledged()
    now = ground.now
    signed = answered(model, dataclasses.replace(backing, seconds=2 * NOTICE), now - 2 * NOTICE + left_s)
    kept = ground.pledges.pledge(owner.address)
    if leaves_in is not None:
        kept = dataclasses.replace(kept, leaves_at=now + leaves_in)
    found = lacks(ground.pledges, signed, terms, kept, now, FORFEIT, takes_s)
    assert [told in line for line in found if told] == ([True] if told else [])
    assert len(found) == (told is not None)


def test_a_receipt_that_cannot_be_read_now_is_asked_for_again(
    ground: Ground, model: Model, tmp_path: Path
) -> None:
    at = scene(ground, model, tmp_path)
    (file,) = tmp_path.glob("*.json")
    aside = file.rename(tmp_path / "aside")
    file.symlink_to(file)
    with pytest.raises(DiskFailed, match="see to its disk"):
        at.defence.wants(at.ours)
    file.unlink()
    aside.rename(file)
    assert at.defence.wants(at.ours)
    assert len({path for _, path in at.store.holders.held(at.ours.id)}) == at.count


def test_a_receipt_that_is_there_later_is_held(ground: Ground, model: Model, tmp_path: Path) -> None:
    """Until then the challenge is played with what the challenger serves."""
    at = scene(ground, model, tmp_path)
    (file,) = tmp_path.glob("*.json")
    aside = file.rename(tmp_path / "aside")
    for _ in range(2):
        assert at.defence.wants(at.ours)
        assert not list(at.store.holders.held(at.ours.id))
    aside.rename(file)
    assert at.defence.wants(at.ours)
    assert len({path for _, path in at.store.holders.held(at.ours.id)}) == at.count
