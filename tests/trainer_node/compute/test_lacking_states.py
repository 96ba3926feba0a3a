"""A disk that was full for a part of a run: no part of a dispute but the first computes more than an interval, what was
refused is computed again once there is room, and nothing is staked before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repops
from repops.opset import F32

from referee_py.commit import Tag
from referee_py.errors import Unavailable
from referee_py.program import Program, SlotSource, TensorDescriptor
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, f32_bits, slot
from tests.support.small_disk import Refusal
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.mending import MEND_S
from trainer_node.observe.metrics import Metrics
from trainer_node.observe.problems import Problems
from trainer_node.run.checkpoints import StoredCheckpoints
from trainer_node.run.package import Package
from trainer_node.run.replay import Interrupted, Replay
from trainer_node.run.tensors import Takes
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import STRIDES, TERMS, honest_run, job, runner, serving, until
from ..slow import Hand

CLAIM = honest_run().commit_run().claim()
STEPS, WIDE = 512, 8
MATCH = 4 * WIDE
"""Steps of a dispute at strides (8, 1): an interval before it, twice the interval, a step and what is published."""


def long_package() -> Package:
    initial = [np.ones((4,), np.float32)]
    op = Writer([], initial)
    half = op("full", shape=(4,), dtype=F32, bits=f32_bits(1.5))
    last = op("mul", slot(0), half)
    made = Program(
        tuple(op.nodes), (SlotSource(last.index, 0),), (), tuple(map(TensorDescriptor.of, initial))
    )
    return Package(Terms.of(made, STEPS, (WIDE, 1)), made, (), tuple(initial))


class Long:
    """A run of many steps, which are counted, on a disk that may refuse."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store, self.database = Store(folder, sync=False), Database(folder / "node.sqlite3")
        self.checkpoints = StoredCheckpoints(self.database, 1)
        self.told: list[Any] = []
        self.steps, self._patch = 0, monkeypatch
        self.run = self.opened()

    def opened(self) -> Replay:
        """Return the run; opened again, it is that after a restart."""
        run = Replay(
            long_package(), repops.backend("cpu"), self.store, self.checkpoints, unkept=self.told.append
        )
        step = run._run.executor.step

        def counted(*given: Any) -> Any:
            self.steps += 1
            return step(*given)

        self._patch.setattr(run._run.executor, "step", counted)
        return run

    def full(self) -> Refusal:
        return Refusal(self._patch, 0)

    def taken(self, part: Callable[[], object]) -> int:
        before = self.steps
        part()
        return self.steps - before


@pytest.fixture
def long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Long]:
    made = Long(tmp_path, monkeypatch)
    yield made
    made.database.close()


def dispute(run: Replay, first: int) -> None:
    """What a match about the first step of an interval asks for, which needs the step before it, too."""
    run.run_tree(1, first, first + WIDE)
    run.step_tree(first + 1)
    if first:
        run.step_tree(first)
    run.publish(first + 1, 1)


def test_what_was_refused_is_made_good_and_a_dispute_takes_what_was_reckoned(long: Long) -> None:
    refusal = long.full()
    claim = long.run.train()
    refusal.end()
    assert long.checkpoints.kept == 0
    assert long.taken(lambda: long.run.make_good(bool)) == STEPS, "each step once"
    assert long.checkpoints.kept == STEPS // WIDE
    assert long.taken(lambda: dispute(long.run, STEPS - WIDE)) <= MATCH
    again = long.opened()
    assert long.taken(lambda: again.train()) == 0
    assert again.train() == claim
    assert all(served(long.store, known.root) for known in long.checkpoints.all())


def served(store: Store, root: bytes | None) -> bool:
    """Whether the tree under a checkpoint is offered, with which others go on from there."""
    assert root is not None
    return store.find(Name(Kind.TREE, root, Tag.STEP_TREE, 2)) is not None


def test_on_a_disk_that_stays_full_only_the_first_part_computes_from_the_start(long: Long) -> None:
    """The attack: each part of a dispute, and each answer, took the whole run."""
    long.full()
    long.run.train()
    first = STEPS - WIDE
    assert long.taken(lambda: long.run.run_tree(1, first, STEPS)) == STEPS
    assert long.taken(lambda: dispute(long.run, first)) <= MATCH
    assert long.taken(lambda: long.run.approach(STEPS, bool)) <= WIDE, "an answer goes on from there, too"


def test_what_is_requested_does_not_take_the_place_of_what_a_dispute_has_reached(long: Long) -> None:
    long.full()
    long.run.train()
    long.run.run_tree(1, STEPS - WIDE, STEPS)
    for step in (4 * WIDE, 3 * WIDE, 2 * WIDE):
        long.run.approach(step, bool)
    assert long.taken(lambda: dispute(long.run, STEPS - WIDE)) <= MATCH
    states = long.run._states
    assert len(states._moves) + len(states._answers) <= 3, "whatever is asked for"


def test_a_disk_that_refuses_again_ends_the_attempt_and_keeps_what_it_has_taken(
    long: Long, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = long.full()
    long.run.train()
    refusal.end()
    Refusal(monkeypatch, 40)
    assert long.taken(lambda: long.run.make_good(bool)) < STEPS
    kept = long.checkpoints.kept
    assert 0 < kept < STEPS // WIDE
    assert long.taken(lambda: long.run.make_good(bool)) <= WIDE, "it goes on from there"
    with pytest.raises(Interrupted):
        long.run.make_good(lambda: True)
    assert long.checkpoints.kept == kept


def test_each_round_of_a_hearing_on_a_full_disk_computes_nothing(long: Long) -> None:
    """The attack: the operator's inputs, so an interval, were computed in each round in which the match was heard."""
    long.run.train()
    refusal = long.full()
    long.run.step_tree(STEPS)
    taken = [long.taken(lambda: long.run.publish(STEPS, 1)) for _ in range(3)]
    assert taken[0] < WIDE
    assert taken[1:] == [0, 0]
    refusal.end()
    assert long.taken(lambda: long.run.publish(STEPS, 1)) == 0
    record = long.run.record(STEPS, 1)
    assert all(long.store.find(Name(Kind.TENSOR, tensor)) for tensor in record.inputs)


def test_a_checkpoint_counts_as_kept_only_with_what_others_need_to_go_on(
    long: Long, monkeypatch: pytest.MonkeyPatch
) -> None:
    Refusal(monkeypatch, 1)  # the state of the first checkpoint is kept, and its tree is refused
    long.run.train()
    assert long.checkpoints.kept == 0


def test_the_count_of_kept_states_follows_what_is_written_and_dropped(long: Long) -> None:
    long.run.train()
    counts = [long.checkpoints.kept]
    known = long.checkpoints.all()[3]
    slots = long.checkpoints.slots(known.step)
    long.database.put_checkpoint(1, known.step, known.root, [])
    counts.append(long.checkpoints.kept)
    long.checkpoints.add(known.step, known.root, slots)
    long.checkpoints.add(known.step, known.root, slots)
    counts.append(long.checkpoints.kept)
    long.database.put_checkpoint(1, 3, None, list(slots))
    counts.append(long.checkpoints.kept)
    long.database.drop_states(1, but={STEPS})
    counts.append(long.checkpoints.kept)
    whole = STEPS // WIDE
    assert counts == [whole, whole - 1, whole, whole, 1]
    assert StoredCheckpoints(long.database, 1).kept == 1


# ---------------------------------------------------------------------- a node's runs


class Node:
    """A node's runner whose disk may refuse, as its daemons use it."""

    def __init__(self, works: JobRunner, problems: Problems, clock: Hand, uri: str) -> None:
        self.works, self.problems, self.clock = works, problems, clock
        self.job = job(uri=uri)

    def train(self, *, ours: bool) -> Any:
        return until(lambda: self.works.train(self.job, ours=ours))

    def unstaked(self) -> str:
        """Why nothing is staked on the run."""
        return str(self.works.too_full(1) or "")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    clock, database, problems = Hand(), Database(None), Problems(Metrics())
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", database, clock=clock, problems=problems) as works,
    ):
        made = Node(works, problems, clock, uri)
        until(lambda: works.prepare(made.job))
        yield made
    database.close()


CHECKPOINTS = -(-TERMS.steps // STRIDES[0])


def lacking(node: Node, monkeypatch: pytest.MonkeyPatch) -> Replay:
    """Return a finished run of ours, all of whose states a full disk has refused. There is room again."""
    refusal = Refusal(monkeypatch, 0)
    node.train(ours=True)
    until(lambda: not node.works.busy)
    refusal.end()
    return node.works.replay(1)


def test_nothing_is_staked_on_a_run_that_lacks_states_until_they_are_there(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = Refusal(monkeypatch, 0)
    assert node.train(ours=False) == CLAIM, "the run ends all the same"
    assert f"the states after 0 of the {CHECKPOINTS} checkpoints" in node.unstaked()
    until(lambda: not node.works.busy)
    assert node.problems.shown().notices[-1].startswith("job 1: states: the disk has kept")
    assert node.unstaked(), "the disk refuses still"
    refusal.end()
    node.clock.on(MEND_S)
    assert until(lambda: not node.unstaked() and not node.works.busy)
    assert not [topic for topic in node.problems.topics() if topic.endswith("states")]
    assert node.works.replay(1).on_disk


def test_a_part_of_a_run_needs_no_other_state(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    Refusal(monkeypatch, 0)
    node.train(ours=False)
    assert node.unstaked()
    assert node.works.too_full(1, part=True) is None


def test_a_strangers_run_that_lacks_states_gives_way_in_memory_and_is_computed_again_before_a_stake(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack: it kept its memory until its job was over, though nothing was at stake in it."""
    refusal, tensors = Refusal(monkeypatch, 0), node.works._tensors
    node.train(ours=False)
    until(lambda: not node.works.busy)
    tensors.of(1, Takes(step=tensors.limit))
    tensors.of(2, Takes(step=1))
    with tensors.lent(2):
        assert tensors.used == 1
    assert node.works.known(1) == CLAIM, "its result stays"
    with pytest.raises(Unavailable):
        node.works.replay(1)
    refusal.end()
    assert node.unstaked()
    node.clock.on(MEND_S)
    assert until(lambda: not node.unstaked() and not node.works.busy)
    assert node.works.replay(1).on_disk


def test_a_trainer_commits_and_says_what_is_lacking_until_it_is_there(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot's stake is at risk either way."""
    refusal = Refusal(monkeypatch, 0)
    assert node.train(ours=True) == CLAIM
    told = [one for one in node.problems.shown().reasons if one.startswith("job 1: states")]
    assert len(told) == 1
    assert "make room" in told[0]
    refusal.end()
    node.clock.on(MEND_S)
    until(lambda: node.train(ours=True) and not node.works.busy)
    node.train(ours=True)
    assert node.problems.shown().ready


def test_moves_are_made_while_states_are_computed_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    run = lacking(node, monkeypatch)
    with run.turns.move():  # a move computes
        node.clock.on(MEND_S)
        node.train(ours=True)
        assert node.works.works_at(1)
        assert run.step_tree(TERMS.steps).root == CLAIM.last
        assert node.works.works_at(1), "it waits for its turn"
    assert until(lambda: not node.works.works_at(1))
    assert not node.unstaked()


def test_a_job_that_is_forgotten_is_made_good_no_further(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    run = lacking(node, monkeypatch)
    with run.turns.move():
        node.clock.on(MEND_S)
        node.train(ours=True)
        going = node.works._mending._going[1]
        node.works.forget(1)
    going.cancel()
    until(going.done)
    assert run._states.lacking()
    assert not node.problems.topics()
