"""A run that is stopped, loses files or is asked about any part of itself is still the same run."""

from __future__ import annotations

from pathlib import Path

import pytest
import repops

from assay_lab.daemons import lying
from assay_lab.faults import Fault, Lie
from referee_py.commit import tensor_hash
from referee_py.rounding import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.blocks import log_digest
from referee_py.rounding.entries import Log
from trainer_node.errors import DiskFailed
from trainer_node.rounded.evaluators import NumpyEvaluator
from trainer_node.run.log_sources import OwnLogs
from trainer_node.run.replay import Interrupted, Replay
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from .. import near
from ..desk import STRIDES, TERMS, Remembered, honest_run, tiny_package

N = TERMS.steps


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, sync=False)


def replay(store: Store, checkpoints: Remembered) -> Replay:
    return Replay(tiny_package(), repops.backend("cpu"), store, checkpoints)


def test_the_claim_is_the_honest_one_and_its_tree_is_served(store: Store) -> None:
    claim = replay(store, Remembered()).train()
    interval = honest_run().commit_run()
    assert claim == interval.claim()
    assert store.has(Name(Kind.TREE, claim.root, interval.tree.tag, len(interval.checkpoints)))


@pytest.mark.parametrize("stop_after", range(1, N))
def test_stopped_after_any_step_it_goes_on_to_the_identical_claim(store: Store, stop_after: int) -> None:
    checkpoints = Remembered()
    steps: list[int] = []
    with pytest.raises(Interrupted):
        replay(store, checkpoints).train(steps.append, lambda: steps[-1] == stop_after)
    committed = [known.step for known in checkpoints.found if known.root is not None]
    assert committed == [s for s in (4, 8, 12) if s <= stop_after]

    steps.clear()
    assert replay(store, checkpoints).train(steps.append) == honest_run().commit_run().claim()
    assert steps[0] == stop_after + 1, "no step is computed twice"


def test_a_state_that_is_due_is_kept_between_checkpoints(store: Store) -> None:
    checkpoints = Remembered()
    steps: list[int] = []
    claim = replay(store, checkpoints).train(steps.append, due=lambda: steps[-1] in (2, 4, 7))
    assert [known.step for known in checkpoints.found] == [2, 4, 7, 8, 12]
    assert [known.step for known in checkpoints.found if known.root is None] == [2, 7]
    steps.clear()
    again = replay(store, Remembered(checkpoints.found[:3], checkpoints.states))
    assert again.train(steps.append) == claim
    assert steps[0] == 8


def test_a_step_is_told_before_its_checkpoint_is_recorded(store: Store) -> None:
    checkpoints = Remembered()

    def on_step(step: int) -> None:
        assert all(known.step < step for known in checkpoints.found)

    replay(store, checkpoints).train(on_step)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_what_was_lost_from_the_disk_is_computed_again(store: Store, lost: int) -> None:
    checkpoints = Remembered()
    claim = replay(store, checkpoints).train()
    for known in checkpoints.found[-lost:]:
        for slot in checkpoints.slots(known.step):
            store.forget(Name(Kind.TENSOR, slot))
    again = replay(store, Remembered(list(checkpoints.found), dict(checkpoints.states)))
    assert again.step_tree(N).root == claim.last, "a dispute restores an older state"
    assert again.train() == claim


def test_every_part_of_the_run_can_be_looked_at(store: Store) -> None:
    run = honest_run()
    roots = run.commit_interval(run.initial(), N, 1).checkpoints
    mine = replay(store, Remembered())
    mine.train()
    for step in (N, 1, 7, 6, 7):
        assert mine.step_tree(step).root == roots[step - 1]
    assert list(mine.run_tree(1, 4, 8).leaves) == [roots[5], roots[7]]
    assert list(mine.run_tree(2, 6, 8).leaves) == [roots[6], roots[7]]
    assert mine.terms.strides == STRIDES


def test_what_a_verifier_needs_is_published(store: Store) -> None:
    mine = replay(store, Remembered())
    mine.train()
    step, node = 7, 8
    mine.publish(step, node)
    record = mine.record(step, node)
    assert store.get_record(record.hash()) == record
    assert [tensor_hash(store.get_tensor(tensor)) for tensor in record.inputs] == list(record.inputs)

    store.forget(Name(Kind.TENSOR, record.inputs[0]))
    mine.publish(step, node)
    assert not store.has(Name(Kind.TENSOR, record.inputs[0])), "a round costs nothing after the first"


STEP, NODE = 7, 8


def no_step(*_: object) -> None:
    raise AssertionError("a step is computed once more")


def test_published_tensors_are_read_and_not_computed_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many trials at once, each move would take an interval otherwise, and a clock holds a few of them only."""
    mine = replay(store, Remembered())
    mine.train()
    record, computed = mine.record(STEP, NODE), mine.operator(STEP, NODE)
    mine.publish(STEP, NODE)
    with monkeypatch.context() as patch:
        patch.setattr(mine, "_values", no_step)
        for _ in range(20):
            operator = mine.operator(STEP, NODE)
            for found, wanted in zip(
                (*operator.inputs, *operator.outputs), (*computed.inputs, *computed.outputs), strict=True
            ):
                assert tensor_hash(found) == tensor_hash(wanted)
        assert mine.right(STEP, NODE) == record
        with pytest.raises(AssertionError, match="once more"):
            mine.again(STEP, NODE)  # that is a second execution, or nothing

    store.forget(Name(Kind.TENSOR, record.inputs[0]))
    assert tuple(map(tensor_hash, mine.operator(STEP, NODE).inputs)) == record.inputs, "computed again"
    mine.publish(STEP, NODE)
    assert store.has(Name(Kind.TENSOR, record.inputs[0])), "and offered again"


def test_what_the_disk_refuses_is_computed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = list[DiskFailed | None]()
    mine = Replay(tiny_package(), repops.backend("cpu"), store, Remembered(), unkept=refused.append)
    record = mine.record(STEP, NODE)

    def full(_: object) -> bytes:
        raise DiskFailed("no space left on device")

    monkeypatch.setattr(store, "put_record", full)
    mine.publish(STEP, NODE)
    assert refused[-1] is not None
    monkeypatch.setattr(mine, "_values", no_step)
    assert tuple(map(tensor_hash, mine.operator(STEP, NODE).outputs)) == record.outputs


@pytest.mark.parametrize("appeals", [False, True])
def test_a_liar_has_the_tensors_of_its_record_and_knows_what_is_right(store: Store, appeals: bool) -> None:
    lie = Lie(Fault.WRONG_OP_OUTPUT, STEP, NODE, appeals)
    honest = replay(store, Remembered())
    liar = lying(lie)(tiny_package(), repops.backend("cpu"), store, Remembered())
    record, truth = liar.record(STEP, NODE), honest.record(STEP, NODE)
    assert record.inputs == truth.inputs
    assert record.outputs != truth.outputs
    operator = liar.operator(STEP, NODE)
    assert tuple(map(tensor_hash, operator.inputs)) == record.inputs
    assert tuple(map(tensor_hash, operator.outputs)) == record.outputs
    assert liar.right(STEP, NODE) == (record if appeals else truth)
    assert honest.right(STEP, NODE) == truth


def test_an_operator_has_the_log_that_the_run_goes_by(store: Store) -> None:
    package, mode = near.package(), Rounding.of(near.package().terms.mode)
    log_source = OwnLogs(Database(None), 1, store, package.terms.node_count, package.terms.steps)
    backend = Rounded(mode, log_source, NumpyEvaluator())
    run = Replay(package, backend, store, Remembered(), log_source=log_source)
    run.train()
    record, operator = run.record(STEP, near.TIES), run.operator(STEP, near.TIES)
    assert isinstance(operator.log, Log)
    assert log_digest(operator.log) == record.log
    assert run.right(STEP, near.TIES) == record
    assert run.operator(STEP, 0).log is None
