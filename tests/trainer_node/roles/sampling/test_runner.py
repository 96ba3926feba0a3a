"""What a sampler checks next, what it holds, when it turns to the whole run of a job, and what a draw is made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from referee_py.errors import Unavailable
from tests.trainer_node.audit.runs import opened, publish
from trainer_node.audit.interval import Auditor, computes
from trainer_node.compute.packages import Work
from trainer_node.compute.run_execution import Equipment
from trainer_node.daemon.remembered import Remembered
from trainer_node.errors import DiskFailed
from trainer_node.roles.sampling.budget import ChainClock, Means
from trainer_node.roles.sampling.checks import Checks, Plan, Root, provable
from trainer_node.roles.sampling.draw import public_seed
from trainer_node.roles.sampling.interval_runner import ATTEMPTS
from trainer_node.roles.sampling.runner import SampleRunner
from trainer_node.roles.sampling.sampler import Samples
from trainer_node.run.refutation import Refuted
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.database import Database
from trainer_node.storage.store_files import path_of

NOTHING: Any = None
EQUIPMENT = Equipment(
    *(NOTHING, Database(None), NOTHING), max_memory=1, exact_slowdown=1.0, max_logs=1, evaluator=NOTHING
)
HOUR = 3600


class Wanted:
    """What a node checks: the same of every root."""

    def __init__(self) -> None:
        self.drawn = Plan((1, 2, 3, 4))
        self.refuted: tuple[int, ...] = ()
        self.of: bytes | None = None
        """The root of which these were refuted; None stands for all."""
        self.gone: list[Refuted] = []
        self.whole_s = 0.0

    def plan(self, _: Any, __: Any) -> Plan:
        return self.drawn

    def staked(self, _: Any, group: Any, __: Any) -> tuple[int, ...]:
        return self.refuted if self.of in (None, group.root) else ()

    def share(self, _: Any) -> float:
        return 1.0

    def lost(self, _: Any, lie: Refuted) -> bool:
        return lie in self.gone

    def means(self) -> Means:
        return Means(max_whole_s=self.whole_s)


class Runner(SampleRunner):
    """Checks published runs in place of what claimants serve; a root that is not among them is not served."""

    runs: dict[bytes, Auditor]

    def _auditor(self, task: Any, _: Any) -> Auditor:
        if task.group.root not in self.runs:
            raise Unavailable("nobody serves the run tree")
        return self.runs[task.group.root]

    def _estimate(self, _: Any) -> Any:
        return SimpleNamespace(train_s=lambda _: 1.0)

    def _whole_s(self, _: Any) -> float:
        return 1.0

    def _store(self, *_: Any, **__: Any) -> Any:
        return next(iter(self.runs.values())).published.source.store

    def checked(self, job: Any) -> list[Refuted]:
        """Check what is left of a job now. Raises the first error, after all roots have had their turn."""
        self._works.setdefault(job.id, Work(job, 0))
        checks = self._checks.setdefault(job.id, Checks(ChainClock(lambda: 0.0)))
        self._find_again(job, checks)
        self._begin(job, checks)
        ended = [root.running for root in checks.works() if root.running is not None]
        wait(ended)
        for root in checks.works():
            root.running, root.tries.retry_at = None, 0.0
        for future in ended:
            future.result()
        return checks.found()

    def left(self, job: Any) -> bool:
        return any(self._todo(job, self._checks[job.id]))


@pytest.fixture
def wanted() -> Wanted:
    return Wanted()


@pytest.fixture
def runner(wanted: Wanted) -> Iterator[Runner]:
    made = Runner(EQUIPMENT, samples=wanted)
    made.runs = {}
    yield made
    made.close()


def auditor_of(folder: Path, **lie: Any) -> Auditor:
    """Four intervals of three steps."""
    run = opened(publish(folder / "run", 12, 3, **lie), folder / "cache")
    return Auditor(run, 1 << 26, computes(run.terms.mode))


@pytest.fixture
def lying(tmp_path: Path) -> Auditor:
    """The third interval is wrong."""
    return auditor_of(tmp_path, lie=8)


def job_of(*roots: bytes, dead: bytes = b"", ends: int = HOUR) -> Any:
    """Return a job in its challenge phase. ``dead``: a root that has died for good."""
    groups = [
        SimpleNamespace(index=k, root=root, refutes=None, dead=root == dead, until=0, refutable_until=0)
        for k, root in enumerate(roots)
    ]
    by_root = {group.root: group for group in groups}
    return SimpleNamespace(
        id=1,
        groups=groups,
        at_stake_by_root=1.0,
        group_of_root=by_root.get,
        claimable_until=lambda root: None if root == dead else ends,
        challenge_end=ends,
        challenge_period=ends,
        rules=SimpleNamespace(clock=ends),
        program=SimpleNamespace(steps=12, strides=(3,)),
    )


def test_every_wrong_root_is_found_and_kept(runner: Runner, tmp_path: Path) -> None:
    one, two = auditor_of(tmp_path / "one", lie=8), auditor_of(tmp_path / "two", lie=2)
    roots = one.published.root, two.published.root
    runner.runs = dict(zip(roots, (one, two), strict=True))
    found = runner.checked(job_of(*roots))
    assert {(lie.against, lie.index) for lie in found} == {(roots[0], 2), (roots[1], 0)}
    for lie in found:
        assert runner.replay(1, lie).run_tree(0, 0, 12).root == lie.root
    assert not runner.works_at(1), "nothing goes on"
    idle = {(1, (lie.against, lie.index + 1)) for lie in found}
    assert runner._tensors._idle.keys() == idle, "each of them has a state of its own"


def test_a_root_that_nobody_serves_hides_no_other(runner: Runner, lying: Auditor) -> None:
    root = lying.published.root
    runner.runs = {root: lying}
    with pytest.raises(Unavailable):
        runner.checked(job_of(b"withheld", root))
    (found,) = runner._checks[1].found()
    assert (found.against, found.index) == (root, 2)


def test_a_root_whose_data_the_disk_refuses_hides_no_other(runner: Runner, tmp_path: Path) -> None:
    """What the disk keeps of one part is damaged: it costs that part its turn, and is told."""
    one, two = auditor_of(tmp_path / "one", lie=8), auditor_of(tmp_path / "two", lie=2)
    roots = one.published.root, two.published.root
    runner.runs = dict(zip(roots, (one, two), strict=True))
    constant = path_of(
        one.published.source.store.root, Name(Kind.TENSOR, one.published.program.constants[0].hash)
    )
    constant.unlink(missing_ok=True)
    constant.mkdir(parents=True)
    with pytest.raises(DiskFailed):
        runner.checked(job_of(*roots))
    assert [lie.against for lie in runner.found(1)] == [roots[1]]
    constant.rmdir()
    assert {lie.against for lie in runner.checked(job_of(*roots))} == set(roots)


def test_who_waits_for_data_has_no_tensors_in_memory(lying: Auditor) -> None:
    read = list[int]()

    def package() -> Any:
        read.append(1)
        return lying.package

    auditor = Auditor(lying.published, 1 << 26, computes(lying.published.terms.mode), package=package)
    list(auditor.bring(2))
    assert not read
    auditor.replay(2)
    auditor.replay(2)
    assert len(read) == 1
    auditor.release()
    auditor.replay(2)
    assert len(read) == 2


def test_an_interval_that_is_checked_holds_its_tensors_no_longer_than_that(
    runner: Runner, lying: Auditor, tmp_path: Path
) -> None:
    honest = auditor_of(tmp_path / "honest")
    runner.runs = {run.published.root: run for run in (honest, lying)}
    runner.checked(job_of(*runner.runs))
    assert "package" not in vars(honest)
    key = lying.published.root, 3
    assert list(runner._tensors._idle) == [(1, key)], "what is wrong may be refuted and played"
    runner._checks[1].refuted = (key,)
    runner._at_stake(1, True)
    assert runner._tensors._kept == {1: 1}
    runner._at_stake(1, False)
    assert runner._tensors._kept == {1: 1}, "no stake rests on the whole run, and one on this"
    assert not runner._tensors._idle
    runner.forget(1)
    assert not runner._tensors._kept


def test_a_root_that_is_withheld_is_so_whatever_was_found_of_another(runner: Runner, lying: Auditor) -> None:
    root = lying.published.root
    runner.runs = {root: lying}
    job = job_of(root, b"withheld")
    for _ in range(ATTEMPTS):
        assert not runner.withheld(job)
        with pytest.raises(Unavailable):
            runner.checked(job)
    assert runner.withheld(job)
    assert not runner.withheld(job_of(root, b"withheld", dead=b"withheld"))


def test_the_whole_run_is_taken_where_it_fits_and_no_other_is_before_it(
    runner: Runner, wanted: Wanted
) -> None:
    job = job_of(b"withheld")
    checks = runner._checks[1] = Checks(ChainClock(lambda: 0.0), roots={b"withheld": Root(withheld=True)})
    assert not runner.takes_whole(job, 0), "this node would not compute the whole"
    wanted.whole_s = HOUR
    assert runner.takes_whole(job, 0)
    assert not runner.takes_whole(job, HOUR - 1), "it takes a second, and twice that is asked for"
    for after_s, taken in ((HOUR / 2 - 1, True), (HOUR / 2, False), (math.inf, False)):
        checks.whole_after_s = after_s
        assert runner.takes_whole(job, 0) == taken


def test_the_whole_run_is_instead_of_parts_once_it_has_begun_and_as_long_as_it_goes_on(
    runner: Runner, wanted: Wanted
) -> None:
    job, wanted.whole_s = job_of(b"withheld"), HOUR
    runner._checks[1] = Checks(ChainClock(lambda: 0.0), roots={b"withheld": Root(withheld=True)})
    assert runner.takes_whole(job, 0)
    assert runner.left(job), "it would be computed, and is not"
    runner._works[1] = Work(NOTHING, 0, claim=Future())
    assert not runner.left(job)
    runner._works[1].claim = None
    assert runner.left(job), "it has failed, and is tried again later"


def test_what_was_found_stays_when_its_root_has_died(runner: Runner, lying: Auditor) -> None:
    root = lying.published.root
    runner.runs = {root: lying}
    (found,) = runner.checked(job_of(root))
    dead = job_of(root, dead=root)
    assert not runner.left(dead)
    assert runner.checked(dead) == [found]
    assert runner.checked(job_of(root)) == [found], "where the root is claimed again"


def test_a_restart_finds_what_it_has_staked_on_first(runner: Runner, wanted: Wanted, lying: Auditor) -> None:
    """Also beyond its budget, and if the root has died meanwhile: a hearing about it may go on."""
    root = lying.published.root
    runner.runs = {root: lying}
    wanted.drawn, wanted.refuted = Plan((1, 2), cpu_s=0.0, max_bytes=0), (3,)
    (found,) = runner.checked(job_of(root, dead=root))
    assert found.index == 2


def test_what_was_lost_does_not_hide_other_intervals(runner: Runner, wanted: Wanted, lying: Auditor) -> None:
    root = lying.published.root
    runner.runs = {root: lying}
    wanted.drawn = Plan((3, 1, 2, 4))
    (found,) = runner.checked(job_of(root))
    assert not runner.left(job_of(root))
    wanted.gone = [found]
    assert runner.left(job_of(root))


def test_a_budget_ends_within_an_interval(
    runner: Runner, wanted: Wanted, lying: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client chooses how long an interval is."""
    steps: list[int] = []
    replay = lying.replay

    def noted(interval: int, on_step: Callable[[int], None]) -> bytes:
        return replay(interval, lambda step: on_step(steps.append(step) or step))  # type: ignore[func-returns-value]

    monkeypatch.setattr(lying, "replay", noted)
    runner.runs = {lying.published.root: lying}
    wanted.drawn = Plan((3, 4), cpu_s=1e-9)
    assert runner.checked(job_of(lying.published.root)) == []
    assert steps == [7]
    assert not runner.left(job_of(lying.published.root))


# ---------------------------------------------------------------------------------------- data of another program


@pytest.mark.parametrize("odd", [1, 2, 3])
@pytest.mark.parametrize("drawn", [(4,), (3, 4), (2, 3, 4)])
def test_states_of_another_shape_prove_wrong_the_interval_that_ends_there(
    runner: Runner, wanted: Wanted, tmp_path: Path, odd: int, drawn: tuple[int, ...]
) -> None:
    made_up = auditor_of(tmp_path, odd=odd)
    runner.runs, wanted.drawn = {made_up.published.root: made_up}, Plan(drawn)
    (found,) = runner.checked(job_of(made_up.published.root))
    assert found.index == odd - 1
    honest = auditor_of(tmp_path / "honest")
    assert found.claimed == made_up.published.tree.leaves[odd - 1] != found.computed
    assert runner.replay(1, found).state(3 * odd).arrays[0].shape == honest.package.initial[0].shape


TWISTS = {
    "no output": lambda record: replace(record, outputs=()),
    "an output too many": lambda record: replace(record, outputs=record.outputs * 2),
    "an input too few": lambda record: replace(record, inputs=record.inputs[1:]),
    "another operator": lambda record: replace(record, structure=bytes(32)),
}


@pytest.mark.parametrize("twist", TWISTS)
def test_a_record_of_another_program_is_the_same(
    runner: Runner, wanted: Wanted, tmp_path: Path, twist: str
) -> None:
    made_up = auditor_of(tmp_path, odd=2, twist=TWISTS[twist])
    runner.runs, wanted.drawn = {made_up.published.root: made_up}, Plan((4,))
    (found,) = runner.checked(job_of(made_up.published.root))
    assert found.index == 1


@pytest.mark.parametrize("odd", range(1, 100))
def test_the_search_for_what_is_provable_looks_at_few_states(odd: int) -> None:
    """Whatever the claim does after its first malformed state, what is found begins well and ends badly."""
    from trainer_node.errors import Malformed

    looked = list[int]()

    def state(number: int) -> None:
        looked.append(number)
        if number >= odd:
            raise Malformed("")

    assert provable(99, state) == odd
    assert len(looked) <= 7


# ---------------------------------------------------------------------------------------- the runner's own promises


def test_a_job_that_is_forgotten_holds_no_lane(runner: Runner) -> None:
    checks = runner._checks[1] = Checks(ChainClock(lambda: 0.0))
    checks.roots[b"root"] = Root(running=Future())
    runner._works[1] = Work(NOTHING, 0)
    assert runner.busy
    assert runner.works_at(1)
    runner.forget(1)
    assert checks.over
    assert not runner.busy


def test_a_draw_is_of_the_claim_and_not_of_a_refutation_with_its_root() -> None:
    """Who refutes with a root and claims it later must not know the block that decides what is checked."""
    root = bytes(32)
    events = [
        SimpleNamespace(name="Claimed", block=block, args={"group": group, "root": root})
        for block, group in ((10, 1), (20, 2))
    ]
    job, confirmed = job_of(root), list[bool]()
    snapshot = SimpleNamespace(
        job=lambda _: job,
        job_events=lambda *_: events,
        block=SimpleNamespace(number=30),
        pool=lambda of: SimpleNamespace(amount=7 if of is job else 0),
        confirm=lambda: confirmed.append(True),
    )
    block = lambda number: SimpleNamespace(hash=bytes([number]))  # noqa: E731
    client = SimpleNamespace(snapshot=lambda: snapshot, agreed_block=block)
    me = "0x" + "aa" * 20
    node: Any = SimpleNamespace(client=client, settings=NOTHING, remembered=Remembered(), address=me)
    group: Any = SimpleNamespace(index=2, root=root)
    assert Samples(node)._public(job, group) == (job, 7, public_seed(bytes([21]), me, root))
    assert confirmed
