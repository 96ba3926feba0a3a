"""A work of a job that is tried again later delays nothing else in the job. The attacks: somebody lets one work fail,
for want of memory; what was known of the job by then was not known any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer_node.audit.runs import opened, publish
from tests.trainer_node.desk import STRANGER, until
from tests.trainer_node.slow import SlowServer
from trainer_node.chain import ClaimView, Group
from trainer_node.compute.outcomes import RETRY_S, Outcomes
from trainer_node.compute.tries import Tries
from trainer_node.errors import MemoryShort
from trainer_node.storage.store import Store

from .member import RICH
from .sampling.test_siege import Siege, siege  # noqa: F401
from .test_found_lies_that_wait import Waiting
from .test_what_a_lie_rests_on import same_numbers  # noqa: F401


def test_a_root_without_memory_delays_no_refutation_of_another_one(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The liar claims a second root in the job, which has no room beside the refutation that is about to be sent. The
    whole job rested for a 32nd of the challenge period."""
    rounds, node, of, shorts = Waiting(siege, tmp_path), siege.node, siege.job(1, siege.lie), list[str]()
    rounds.node.wei = RICH
    siege.prepared(of)
    takes, wait = node._tensors._takes[1], Outcomes.wait

    def waits(outcomes: Outcomes, *of_whom: Any) -> None:
        shorts.append(str(of_whom[-1]))
        wait(outcomes, *of_whom)

    monkeypatch.setattr(Outcomes, "wait", waits)
    node._tensors.limit = takes.alone + (takes.step + takes.state) // 2
    until(lambda: bool(rounds.go(1) and node.found(1)))
    until(lambda: bool(rounds.go(1) and rounds.refuted))  # so it has its room
    second = opened(publish(tmp_path / "run2", 12, 3, lie=2), tmp_path / "seen2")
    with SlowServer(Store(tmp_path / "run2" / "artifacts", sync=False), siege.clock) as server:
        claims = (*of.claims, ClaimView(1, STRANGER, 1, 1, True, False, False, server.uri))
        groups = (*of.groups, Group(1, second.root, bytes(32), 0, 0, 0, 0, (1,)))
        with rounds.changed(claims=claims, groups=groups):
            until(lambda: bool(rounds.go(1) and shorts))
            until(lambda: not node.busy)
            assert [rounds.go(1) and rounds.refuted[:] for _ in range(20)] == [[1]] * 20


def test_a_delay_is_of_one_work(siege: Siege) -> None:  # noqa: F811
    """A package that is here, a measurement and a claim stay known, whatever fails then."""
    of, node = siege.job(1, siege.lie), siege.node
    siege.prepared(of)
    until(lambda: node.train(of) is not None)
    work, claim = node._works[1], node.train(of)
    for tries in (work.package_tries, work.measure_tries, work.run_tries, work.return_tries):
        node._outcomes.wait(work, tries, MemoryShort("x", waits=True))
        assert tries.retry_at == siege.clock() + RETRY_S
    assert node.prepare(of) is not None
    assert node.train(of) == claim


def test_a_claim_stays_known_without_its_package(siege: Siege) -> None:  # noqa: F811
    """It is the disk that has lost it, and nobody serves it any more."""
    of, node = siege.job(1, siege.lie), siege.node
    siege.prepared(of)
    until(lambda: node.train(of) is not None)
    claim = node.train(of)
    node._works[1].package = None
    node._works[1].package_tries = Tries(retry_at=1e9)
    assert node.prepare(of) is None, "nothing is staked on it"
    assert node.train(of) == claim
