"""Answers to data requests: each piece of work is done once, in the order of deadlines, and moves come first."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import repops

from referee_py.availability import LeafShown, Piece, Place, Response
from referee_py.availability.pieces import check
from referee_py.availability.solver import blocks_of, response_of
from referee_py.availability.state import OUTPUTS
from referee_py.commit import Record, Tree
from referee_py.commit.tensor import Array
from referee_py.errors import Unavailable
from referee_py.execute import Run, State
from referee_py.rounding.entries import Log
from tests.support.slow_run import ticking
from trainer_node.play import answers as module
from trainer_node.play.answers import Answers
from trainer_node.run.turns import Turns
from trainer_node.storage.store import Store

from .. import near
from ..desk import PROGRAM, STRIDES, TERMS, Remembered, honest_run, tiny_package
from ..run.test_rounded import Trainer

STRIDE = STRIDES[0]
NODE = PROGRAM.slots[0].node
FIRST, LAST = 0, -(-TERMS.steps // STRIDE) - 1


class Machine:
    """Computes answers for one run; counts its steps, and stops at each of them if told to."""

    def __init__(self, folder: Path) -> None:
        self.steps = Counter[str]()
        self.during: Callable[[], None] = lambda: None
        """Called after each step, in the thread that computes it."""
        self.replay = ticking(self._tick)(
            tiny_package(), repops.backend("cpu"), Store(folder, sync=False), Remembered()
        )
        self.root = self.replay.train().root
        self.steps.clear()
        self.stop = threading.Event()
        self.answers = Answers(self.stop)

    def _tick(self, kind: str) -> None:
        self.steps[kind] += 1
        self.during()

    def ask(self, wanted: Mapping[Place, int]) -> dict[Place, Response]:
        found = self.answers.ask(
            1, self.replay, {(self.root, place): until for place, until in wanted.items()}
        )
        return {place: answer for (_, place), answer in found.items()}

    def all_of(self, wanted: Mapping[Place, int]) -> dict[Place, Response]:
        """Return the answers once nothing is being computed any more."""
        self.ask(wanted)
        self.rest()
        return self.ask(wanted)

    def rest(self) -> None:
        self.answers._thread.submit(int).result()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


class Known:
    """What a party knows that has kept all of its run: the reference for answers."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def run_tree(self, level: int, start: int, end: int) -> Tree:
        assert (level, start, end) == (0, 0, TERMS.steps)
        return self.run.commit_run().tree

    def step_tree(self, step: int) -> Tree:
        return self.run.commit_step(self._before(step))[1].tree

    def record(self, step: int, node: int) -> Record:
        return self.run.commit_step(self._before(step))[1].records[node]

    def tensors(self, step: int, node: int) -> tuple[list[Array], list[Array]]:
        found = self.run.node_values(self._before(step), node)[node]
        return list(found.inputs), list(found.outputs)

    def run_log_tree(self) -> None:
        raise AssertionError

    def log_tree(self, step: int) -> None:
        raise AssertionError(step)

    def log(self, step: int, node: int) -> Log | None:
        raise AssertionError(step, node)

    def _before(self, step: int) -> State:
        return self.run.advance(self.run.initial(), step - 1)


def leaf(tree: int, node: int, tensor: int = OUTPUTS, part: int = 0) -> Place:
    return Place(Piece.LEAF, tree, node, tensor, part)


def test_every_answer_is_that_of_a_party_that_has_kept_all(machine: Machine) -> None:
    """Also of places that do not exist."""
    places = [
        place
        for tree in (FIRST, LAST)
        for node in range(len(PROGRAM.nodes))
        for place in (
            Place(Piece.RECORD, tree, node),
            *(
                leaf(tree, node, tensor, part)
                for tensor in (0, 1, 200, OUTPUTS, 400)
                for part in (0, 1, 1 << 40)
            ),
        )
    ]
    known = Known(honest_run())
    found = machine.all_of(dict.fromkeys(places, 100))
    assert found == {place: response_of(TERMS, place, known) for place in places}
    for place, answer in found.items():
        assert check(TERMS, machine.root, place, answer) >= 0


def test_all_that_is_asked_under_a_checkpoint_takes_its_interval_once(machine: Machine) -> None:
    """However much it is: some 500 leaves and records took as many intervals."""
    places = [leaf(LAST, node, OUTPUTS, part) for node in range(len(PROGRAM.nodes)) for part in range(50)]
    places += [Place(Piece.RECORD, LAST, node) for node in range(len(PROGRAM.nodes))]
    assert len(machine.all_of(dict.fromkeys(places, 100))) == len(places)
    assert machine.steps == {"run": (TERMS.steps - 1) % STRIDE, "shown": 1}


def test_the_first_answers_are_there_before_the_last_are_computed(machine: Machine) -> None:
    """The checkpoint that is due first comes first, whatever its number."""
    early, late = Place(Piece.RECORD, LAST, NODE), Place(Piece.RECORD, FIRST, NODE)
    wanted, seen = {late: 200, early: 100}, list[set[Place]]()
    machine.during = lambda: seen.append(set(machine.ask(wanted)))
    assert set(machine.all_of(wanted)) == {early, late}
    assert seen[0] == set()
    assert seen[-1] == {early}, "while the last step of the other one was computed"


def test_what_is_asked_while_an_interval_is_computed_is_answered_with_it(machine: Machine) -> None:
    places = [leaf(FIRST, node) for node in range(len(PROGRAM.nodes))]

    def more() -> None:
        if machine.steps["run"] == 1:
            machine.ask(dict.fromkeys(places, 100))

    machine.during = more
    machine.ask({places[0]: 100})
    machine.rest()
    assert set(machine.ask(dict.fromkeys(places, 100))) == set(places)
    assert machine.steps == {"run": STRIDE - 1, "shown": 1}


def test_what_is_asked_later_takes_a_step_and_records_take_none(machine: Machine) -> None:
    machine.all_of({leaf(FIRST, NODE): 100})
    machine.steps.clear()
    machine.all_of({leaf(FIRST, NODE): 100, Place(Piece.RECORD, FIRST, 0): 100})
    assert not machine.steps
    machine.all_of({leaf(FIRST, 0): 100})
    assert machine.steps == {"shown": 1}


def test_a_move_comes_before_the_next_step(machine: Machine) -> None:
    """It waits for the step that has begun, and for no other."""
    moved, began = threading.Event(), list[int]()

    def move() -> None:
        machine.replay.record(1, NODE)
        moved.set()

    def during() -> None:
        if threading.current_thread() is mover:
            began.append(shown_before[0])
        elif machine.steps["run"] == 1:
            shown_before[0] = machine.steps["run"]
            mover.start()
            while not machine.replay.turns._moves:
                pass  # it waits for this very step

    shown_before, mover = [0], threading.Thread(target=move)
    machine.during = during
    machine.all_of({leaf(FIRST, NODE): 100})
    mover.join()
    assert moved.is_set()
    assert began == [1], "one step of the answer was computed when the move's step was done"
    # The step of the move, and those of the interval.
    assert machine.steps == {"run": 1 + STRIDE - 1, "shown": 1}


def test_what_nobody_asks_any_more_is_not_computed_to_its_end(machine: Machine) -> None:
    def none() -> None:
        machine.answers.forget(1)

    machine.during = none
    machine.ask({leaf(FIRST, NODE): 100})
    machine.rest()
    assert machine.steps == {"run": 1}
    assert not machine.answers.busy
    assert machine.answers._reached is None
    assert not machine.answers._jobs


def test_with_nothing_open_nothing_is_kept(machine: Machine) -> None:
    machine.all_of({leaf(FIRST, NODE): 100, leaf(LAST, NODE): 100})
    assert machine.answers._reached is not None
    assert machine.answers._reached.step == TERMS.steps, "of one checkpoint at a time"
    assert machine.ask({}) == {}, "what is answered is dropped"
    machine.answers.forget(1)
    assert machine.answers._reached is None


def test_a_process_that_stops_stops_computing(machine: Machine) -> None:
    machine.during = machine.stop.set
    assert machine.all_of({leaf(FIRST, NODE): 100}) == {}
    assert machine.steps == {"run": 1}


def test_what_cannot_be_computed_keeps_nothing_else_from_being_answered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it is due first; and it is tried again."""
    monkeypatch.setattr(module, "RETRY_S", 3600.0)
    watch = machine.replay.watch

    def broken(*args: object) -> object:
        raise Unavailable("the disk has lost it")

    wanted = {leaf(FIRST, NODE): 100, Place(Piece.DIGESTS, 1, 0): 50}
    monkeypatch.setattr(machine.replay, "watch", broken)
    assert machine.all_of(wanted) == {}
    assert machine.all_of({**wanted, leaf(LAST, NODE): 200}) == {}
    monkeypatch.setattr(machine.replay, "watch", watch)
    machine.answers._failed.clear()
    assert set(machine.all_of(wanted)) == {leaf(FIRST, NODE)}, "a job without logs has no digests"


def test_a_steps_logs_are_read_once_and_each_nodes_log_is_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = Trainer(tmp_path).replay()
    replay.train()
    read, hashed = list[int](), list[int]()
    step_log = replay.step_log

    def reads(step: int) -> object:
        read.append(step)
        return step_log(step)

    def hashes(places: Sequence[Place], *of: Any) -> object:
        hashed.append(len(places))
        return blocks_of(places, *of)

    monkeypatch.setattr(replay, "step_log", reads)
    monkeypatch.setattr(module, "blocks_of", hashes)
    logs = replay.run_log_tree()
    assert logs is not None
    places = [Place(Piece.BLOCKS, step, near.TIES, 0, part) for step in (1, 2) for part in range(100)]
    places += [Place(Piece.DIGESTS, 2, 0)]
    answers = Answers(threading.Event())
    wanted = {(logs.root, place): 100 for place in places}
    answers.ask(1, replay, wanted)
    answers._thread.submit(int).result()
    found = answers.ask(1, replay, wanted)
    assert len(found) == len(places)
    for (root, place), answer in found.items():
        check(near.TERMS, root, place, answer)
    assert sorted(read) == [1, 2]
    assert hashed == [100, 100]


def test_who_asks_for_more_passes_another_who_waits_only_once(machine: Machine, tmp_path: Path) -> None:
    """Though what it asks for is always due first."""
    other, order = Machine(tmp_path / "other"), list[int]()
    mine = {(machine.root, leaf(FIRST, NODE)): 10, (machine.root, leaf(LAST, NODE)): 20}
    others = {(other.root, leaf(FIRST, NODE)): 1000}

    def during() -> None:
        order.append(1)
        machine.answers.ask(2, other.replay, others)  # it comes while the first is computed

    machine.during, other.during = during, lambda: order.append(2)
    machine.answers.ask(1, machine.replay, mine)
    machine.rest()
    assert len(machine.answers.ask(1, machine.replay, mine)) == 2
    assert len(machine.answers.ask(2, other.replay, others)) == 1
    assert [job for job, _ in itertools.groupby(order)] == [1, 2, 1]


def test_turns_of_one_thread_are_one_turn() -> None:
    turns = Turns()
    with turns.answer(), turns.move():
        pass
    with turns.move(), turns.move():
        pass
    with turns.answer():
        pass


def test_leaves_are_shown_with_their_records(machine: Machine) -> None:
    found = machine.all_of({leaf(FIRST, NODE): 100})[leaf(FIRST, NODE)]
    assert isinstance(found, LeafShown)
    assert found.tensor.leaf
