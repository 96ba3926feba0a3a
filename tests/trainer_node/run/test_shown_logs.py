"""Logs that were shown on the chain: who computes the steps puts them together, once, and the loop nothing of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from repops.opset import F32

from referee_py.availability import Piece, Place, Response
from referee_py.availability.solver import blocks_of, digests_of
from referee_py.commit import NO_LOG, Tag, Tree, digest, fold_path, merkle
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.modes import Rounding
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, f32_bits
from trainer_node.chain import JobView
from trainer_node.chain.codec.availability import Ledger
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.processors import Share
from trainer_node.errors import DiskFull, LogsLate, MemoryShort
from trainer_node.limits.waits import logs_s
from trainer_node.play.data_requests import DataRequester
from trainer_node.run.fetched_logs import _Absent
from trainer_node.run.onchain_logs import Shown
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .. import near
from ..desk import Sent, runner, until
from ..sent import CONTRACTS
from ..slow import Hand, SlowServer
from .test_slow_logs import Revealed

NODES = 1024
PAGE = 256
"""Digests of a page."""


# ---------------------------------------------------------------------- what it takes


def empty_logs(steps: int) -> tuple[Shown, int]:
    """Return what is shown of a run whose nodes have no logs, and its number of pages."""
    initial = np.ones((), np.float32)
    op = Writer([], [initial])
    for _ in range(NODES):
        last = op("full", shape=(), dtype=F32, bits=f32_bits(1.0))
    program = Program(tuple(op.nodes), (SlotSource(last.index, 0),), (), (TensorDescriptor.of(initial),))
    terms = Terms.of(program, steps, (steps, 1), Rounding(32).mode)
    step = Tree(Tag.LOG_TREE, [NO_LOG] * NODES)
    run = Tree(Tag.LOG_RUN_TREE, [step.root] * steps)
    places = [Place(Piece.DIGESTS, t, page) for t in range(1, steps + 1) for page in range(NODES // PAGE)]
    answers: dict[tuple[bytes, Place], Response] = {
        (run.root, place): digests_of(place, run, step) for place in places
    }
    shown = Shown(terms, program, run.root, answers)
    assert not list(shown.missing())
    return shown, len(places)


def test_a_step_takes_two_hashes_for_each_digest_and_all_its_paths_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The attack: a page's 256 digests were folded anew for each of them, 63,000 hashes a page."""
    shown, pages = empty_logs(steps=2)
    hashes = 0

    def counted(*args: Any) -> bytes:
        nonlocal hashes
        hashes += 1
        return digest(*args)

    monkeypatch.setattr(merkle, "digest", counted)
    logs = [shown.step(1), shown.step(2)]
    assert hashes <= 2 * pages * PAGE
    tree, hashes = logs[1].tree(NODES), 0
    paths = [tree.path(node) for node in range(NODES)]
    assert hashes == 0
    assert all(fold_path(Tag.LOG_TREE, NO_LOG, node, path) == tree.root for node, path in enumerate(paths))


# ---------------------------------------------------------------------- who does it, and how often


class Counted(Shown):
    """Notes which steps are put together."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.made: list[int] = []

    def step(self, step: int) -> Any:
        self.made.append(step)
        return super().step(step)


class Desk:
    """A challenger's runner, a trainer that serves slowly, and the chain's requests of the trainer's logs."""

    def __init__(self, revealed: Revealed, works: JobRunner, server: SlowServer, clock: Hand) -> None:
        self.revealed, self.works, self.server, self.clock = revealed, works, server, clock
        self.view: JobView = replace(revealed.view(server.uri), challenge_end=10**9)
        self.delivered: list[Counted] = []
        self.reads = 0
        deliver = works.deliver

        def noted(job_id: int, shown: Shown) -> None:
            self.delivered.append(Counted(shown._terms, shown._program, shown._logs, shown._answers))
            deliver(job_id, self.delivered[-1])

        works.deliver = noted  # type: ignore[method-assign]
        self.requester = DataRequester(CONTRACTS, Sent(), works, 10**18, spare=lambda _: 10**20)  # type: ignore[arg-type]

    def starve(self) -> None:
        """Let the budget for the logs end, while the server holds what it was asked for."""
        until(lambda: self.works.prepare(self.view))
        self.server.release.clear()
        asked = len(self.server.seen)
        until(lambda: self.works.train(self.view) or len(self.server.seen) > asked)
        self.clock.on(logs_s(self.view) + 1)
        until(lambda: self.works.train(self.view) or self.works.starved(1))
        until(lambda: not self.works.busy)

    @property
    def reached(self) -> int:
        """The last step that the run has done with logs from the server. NOTE: the first ones may come at the very end
        of the budget."""
        source = self.works._works[1].log_source
        return 0 if source is None else source.reached

    def round(self) -> Any:
        """One round of the loop, in which all logs have been shown."""
        claim = self.works.train(self.view)
        snapshot: Any = SimpleNamespace(
            now=10, block=SimpleNamespace(number=5), ledger=lambda *_: self._ledger(), head=lambda: 5
        )
        self.requester.due(snapshot, self.view)
        return claim

    def _ledger(self) -> Ledger:
        self.reads += 1
        return Ledger(answers=self.answers())

    def answers(self) -> dict[tuple[bytes, Place], Response]:
        logs, count = self.revealed.trainer.log_source, len(near.PROGRAM.nodes)
        run, found = logs.tree, dict[tuple[bytes, Place], Response]()
        for number in range(1, near.STEPS + 1):
            log = logs.get(number)
            assert log is not None
            step = log.tree(count)
            place = Place(Piece.DIGESTS, number, 0)
            found[run.root, place] = digests_of(place, run, step)
            for node, one in log.nodes.items():
                place = Place(Piece.BLOCKS, number, node)
                found[run.root, place] = blocks_of([place], run, step, one.read())[0]
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    clock, database, revealed = Hand(), Database(None), Revealed(tmp_path / "trainer")
    with ExitStack() as opened:
        server = opened.enter_context(SlowServer(revealed.store, clock))
        node = runner(tmp_path / "node", database, follows=True, clock=clock)
        yield Desk(revealed, opened.enter_context(node), server, clock)
    revealed.trainer.database.close()
    database.close()


def test_they_are_handed_over_once_and_each_step_is_put_together_by_its_run(desk: Desk) -> None:
    """The attack: a trainer serves slowly until the budget is over, and then shows all. In every round until the run
    was done the loop put all of it together anew."""
    desk.starve()
    works, served = desk.works, desk.reached
    # The run cannot begin before the rounds are over.
    held = works._runs.submit(Share(), lambda _: desk.server.release.wait(120))
    desk.server.release.clear()
    until(held.running)
    try:
        assert [desk.round() for _ in range(5)] == [None] * 5
        assert len(desk.delivered) == 1
        assert desk.reads == 1, "nothing is asked of the chain any more"
        assert works.starved(1) is None
        assert desk.delivered[0].made == [], "the loop computes nothing of it"
    finally:
        desk.server.release.set()
    assert until(lambda: works.train(desk.view)) == desk.revealed.claim
    assert desk.delivered[0].made == list(range(served + 1, near.STEPS + 1))
    run = works.replay(1)
    whole = run.run_log_tree()
    for step in (near.STEPS, 1):
        log = run.log_tree(step)
        assert log is not None
        assert whole is not None
        assert fold_path(Tag.LOG_RUN_TREE, log.root, step - 1, whole.path(step - 1)) == desk.view.logs
    assert sorted(desk.delivered[0].made) == list(range(1, near.STEPS + 1)), "a dispute finds them"


def test_they_are_served_as_files_again(desk: Desk) -> None:
    desk.starve()
    assert until(desk.round) == desk.revealed.claim
    store, count = Store(desk.works._fetcher.store.root, sync=False), len(near.PROGRAM.nodes)
    for root in desk.revealed.trainer.log_source.tree.leaves:
        assert store.has(Name(Kind.LOG, root, count=count))


def test_a_run_that_waits_for_a_log_goes_on_when_all_are_shown(desk: Desk) -> None:
    until(lambda: desk.works.prepare(desk.view))
    desk.server.release.clear()
    try:
        desk.works.train(desk.view)
        work = desk.works._works[1]
        until(lambda: work.log_source is not None and work.log_source._windows)
        assert work.log_source is not None
        work.log_source._absent[near.STEPS] = _Absent(0.0, 0.0, 2, needed=True)  # another window, say
        desk.round()
        assert until(lambda: desk.works.train(desk.view)) == desk.revealed.claim
        assert work.run_tries.failures == 0, "it has not failed"
    finally:
        desk.server.release.set()


@pytest.mark.parametrize(
    ("error", "at_once"),
    [(LogsLate("no server"), True), (DiskFull("x"), False), (MemoryShort("x", waits=True), False)],
)
def test_only_a_run_that_ended_for_want_of_logs_begins_again_at_once(
    desk: Desk, error: Exception, at_once: bool
) -> None:
    """`deliver` set back the delay of whatever had failed."""
    desk.starve()
    work = desk.works._works[1]
    until(lambda: not desk.works.busy)
    assert work.claim is None or work.claim.done()
    before = desk.clock()
    for failed in (LogsLate("no server"), error):
        future: Any = SimpleNamespace(done=lambda: True, exception=lambda failed=failed: failed)
        desk.works._outcomes.result(work, future)
    later, failures = work.run_tries.retry_at, work.run_tries.failures
    assert later > before
    desk.works.deliver(1, Shown(near.TERMS, near.PROGRAM, desk.view.logs, desk.answers()))
    assert work.run_tries.retry_at == (0.0 if at_once else later)
    assert work.run_tries.failures == failures
