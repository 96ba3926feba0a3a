"""Published runs of a program with two operators, honest and not, and what auditors say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from eth_account.signers.local import LocalAccount

from assay_lab.faults.executors import executor_of
from assay_lab.faults.kinds import Target
from assay_lab.names import Fault
from referee_py.commit import Record, Tag, Tree
from referee_py.execute import Executor, RunClaim
from tests.trainer_node.cli.growing import growing
from trainer_node.audit.address import Address
from trainer_node.audit.engine import IntervalReport
from trainer_node.audit.interval import Finding, Verdict
from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt import receipt_of
from trainer_node.audit.receipt_file import Signed
from trainer_node.local.run_folder import KeepRule, open_run
from trainer_node.run.modes import backend_of
from trainer_node.run.replay import Replay
from trainer_node.storage.store import Store


class _Lying(Replay):
    """A run in which the first slot is off by one unit in the last place after ``step``; 0 for an honest one."""

    step = 0

    def _executor(self) -> Executor | None:
        tensors = self.program, self._package.constants, self._package.initial
        fault = Fault.WRONG_OP_OUTPUT if self.step else Fault.NONE
        return executor_of(fault, Target(*tensors, self._backend, self.step))


class _Odd(_Lying):
    """A run whose checkpoints from interval ``odd`` on lead to something that cannot be of the program: a slot with the
    right bytes in another shape, or a record that ``twist`` makes."""

    odd, twist = 1, None

    def train(self, *given: Any, **named: Any) -> RunClaim:
        super().train(*given, **named)
        _, trace = self._run.commit_step(self.state(self.terms.steps - 1))
        (slot,) = self.program.slots
        record, flat = trace.records[slot.node], self.state(self.terms.steps).arrays[0]
        tensor = self._store.put_tensor(flat.reshape(1, -1))
        told = replace(record, outputs=(tensor,)) if self.twist is None else self.twist(record)
        records = [*trace.records[: slot.node], told, *trace.records[slot.node + 1 :]]
        step = Tree(Tag.STEP_TREE, [record.hash() for record in records])
        self._store.put_tree(step)
        self._store.put_records(records)
        leaves = self.run_tree(0, 0, self.terms.steps).leaves
        made_up = [step.root] * (len(leaves) - self.odd + 1)
        run = Tree(Tag.RUN_TREE, [*leaves[: self.odd - 1], *made_up])
        self._keep(0, 0, self.terms.steps, run)
        return RunClaim(run.root, run.leaves[-1], tuple(run.path(len(leaves) - 1)))


Twist = Callable[[Record], Record]


def publish(
    folder: Path, steps: int, stride: int, lie: int = 0, odd: int = 0, twist: Twist | None = None
) -> Path:
    """Write a run with random numbers that keeps all its checkpoints, with a lie in one step, or with states that
    cannot be of the program from interval ``odd`` on; return its folder."""
    rng = np.random.default_rng()
    # NOTE: a factor that rounds to 1 would leave every state as it was, and no claim about steps would be wrong.
    factor, begin = 1 + float(rng.choice((-1, 1)) * rng.uniform(1e-5, 1e-4)), float(rng.uniform(1, 2))
    bundle = growing(steps, (stride, 1) if stride > 1 else (1,), factor=factor, begin=begin)
    terms = bundle.terms
    kind = type("Lying", (_Lying,), {"step": lie})
    if odd:
        kind = type("Odd", (_Odd,), {"odd": odd, "twist": None if twist is None else staticmethod(twist)})
    with open_run(folder, terms, "repops-f32", resume=False, keep_s=60, keeps=KeepRule(every=1)) as opened:
        replay = kind(bundle, backend_of("cpu"), opened.store, opened)
        opened.publish(bundle, replay.train(due=opened.due))
    return folder


def opened(folder: Path, cache: Path) -> PublishedRun:
    return PublishedRun(Address(str(folder)), Store(cache, sync=False))


def signed(run: PublishedRun, account: LocalAccount, interval: int, **places: int) -> Signed:
    """Return a receipt that nobody has computed: a MATCH, or with places where the runs part."""
    verdict = Verdict.DIFFERS if places else Verdict.MATCH
    finding = replace(Finding(interval, *run.span(interval), verdict), **places)  # type: ignore[arg-type]
    receipt = receipt_of(run, IntervalReport.of(run, "cpu", finding), account.address)
    assert receipt is not None
    return Signed.by(account, receipt)


def write_all(receipts: Iterable[Signed], folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for receipt in receipts:
        receipt.write(folder)
    return folder
