"""A trainer that forges one log of its run, and nothing else, in an arena where everybody else is honest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from assay_lab.faults import Fault, Lie
from referee_py.commit.tensor import Array
from referee_py.execute import Backend
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Attrs, Evaluator, Rounded
from referee_py.rounding.entries import Log
from referee_py.rounding.evaluate import Evaluation
from referee_py.rounding.follow import follow, write
from referee_py.rounding.log_source import LogSource
from referee_py.rounding.rounded_output import Evaluated
from referee_py.rounding.step_log import NodeLog
from tests.conftest import Anvil
from trainer_node.chain import JobView
from trainer_node.compute.job_runner import JobRunner
from trainer_node.compute.run_execution import Equipment
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle
from trainer_node.run.devices import evaluator_of
from trainer_node.run.modes import backend_of

from .arena import Arena
from .brink import PLAIN
from .forgeries import Forged, Forgery, Gone, Sight, to_the_letter
from .hostile import HostileServer


class Forger(Rounded):
    """Writes the forged log again each time its step runs, and follows it; if `knows`, follows what the log is worth.

    Elements that are wrong because of an entry are put into `ignored`.

    INVARIANT: it computes with its lie and commits to the result: its outputs are the same each time it is asked.
    """

    def __init__(
        self,
        rounding: Rounding,
        log_source: LogSource,
        evaluator: Evaluator,
        forgery: Forgery,
        knows: bool,
        ignored: set[int],
    ) -> None:
        super().__init__(rounding, log_source, evaluator)
        self._ignored = ignored
        self._forgery, self._knows = forgery, knows
        self._recorded: NodeLog | None = None
        self._forges = False

    def begin(self, step: int) -> None:
        super().begin(step)
        self._recorded, self._forges = None, step == self._forgery.step
        if self._forges:
            self._given = None

    def execute(self, node: int, name: str, inputs: Sequence[Array], attrs: dict[str, Any]) -> list[Array]:
        outputs = super().execute(node, name, inputs, attrs)
        if not self._forges or node != self._forgery.node or node != PLAIN:
            return outputs
        (output,) = outputs
        x, empty = output.astype(np.float64), Log.empty(output.size)
        sight = Sight(self.rounding, x, x, empty, inputs[0], lambda _: empty)
        forged = self._forge(node, sight)
        return outputs if self._knows else [to_the_letter(sight, forged.applied).reshape(output.shape)]

    def round(
        self,
        node: int,
        name: str,
        inputs: Sequence[Array],
        attrs: Attrs,
        evaluation: Evaluated,
        out: Array | None = None,
        rounding: Rounding | None = None,
    ) -> Any:
        if not self._forges or node != self._forgery.node:
            return super().round(node, name, inputs, attrs, evaluation, out, rounding)
        assert isinstance(evaluation, Evaluation), "it lies in numpy's memory"
        x = evaluation.x.copy()
        values, honest = write(name, inputs, attrs, evaluation, self.rounding)
        operand, *others = inputs

        def again(other: Array) -> Log:
            elsewhere = self.evaluator.evaluate(name, [other, *others], attrs, self.rounding.bounds)
            return write(name, inputs, attrs, elsewhere, self.rounding)[1]

        own = values.astype(np.float64)
        sight = Sight(self.rounding, x, own, honest, operand, again)
        forged = self._forge(node, sight)
        worth = Log.empty(x.size) if forged.said is None else forged.said.entries(x.size)
        fresh = self.evaluator.evaluate(name, list(inputs), attrs, self.rounding.bounds)
        values = follow(name, inputs, attrs, fresh, worth, self.rounding).values
        if not self._knows:
            asked = to_the_letter(sight, forged.applied).reshape(x.shape)
            wrong = np.flatnonzero(asked.view(np.uint32) != values.view(np.uint32))
            log = forged.applied
            self._ignored |= set(wrong.tolist()) & {*log.narrow.tolist(), *log.wide.tolist()}
            values = asked
        if out is None:
            return values
        out[...] = values.reshape(out.shape)
        return out

    def log(self, node: int) -> bytes:
        if self._recorded is not None and node == self._forgery.node and not self._knows:
            return self._recorded.digest
        return super().log(node)

    def _forge(self, node: int, sight: Sight) -> Forged:
        forged = self._forgery.make(sight)
        self._recorded = forged.recorded
        self._written.pop(node, None)
        if forged.said is not None:
            self._written[node] = forged.said
        return forged


class ForgersRunner(JobRunner):
    """A runner whose rounded jobs are computed by the forger."""

    def __init__(self, node: Daemon, forgery: Forgery, knows: bool, ignored: set[int]) -> None:
        settings = node.settings
        super().__init__(
            Equipment(
                *(node.fetcher, node.database, partial(backend_of, settings.device)),
                max_memory=settings.limits.memory_bytes,
                exact_slowdown=settings.limits.exact_slowdown,
                max_logs=settings.limits.log_bytes,
                evaluator=lambda: evaluator_of(settings.evaluator),
            )
        )
        self._forgery = forgery, knows, ignored

    def _computes(self, job: JobView, log_source: LogSource | None) -> Backend:
        if log_source is None:
            return self._backend(job.program.mode)
        return Forger(Rounding.of(job.program.mode), log_source, self._evaluator(), *self._forgery)


@contextlib.contextmanager
def open_forgers_runner(
    node: Daemon, forgery: Forgery, knows: bool, ignored: set[int]
) -> Iterator[JobRunner]:
    """Open the forger's runner, closed at the end."""
    runner = ForgersRunner(node, forgery, knows, ignored)
    try:
        yield runner
    finally:
        runner.close()


class ForgersArena(Arena):
    """One trainer, who forges, and an honest challenger with other hardware.

    `ignored` has the elements of the forged node that are not the truth because the trainer followed an entry.
    """

    def __init__(self, anvil: Anvil, folder: Path, bundle: Bundle, forgery: Forgery, *, knows: bool) -> None:
        self._forgery, self._knows = forgery, knows
        self.ignored: set[int] = set()
        super().__init__(anvil, folder, bundle, trainers=[Fault.NONE])
        trainer = next(member for member in self.members if member.name == "trainer-0")
        trainer.honest = knows or forgery.gone in (Gone.IDLE, Gone.ADMITTED)

    def _open_runner(
        self, node: Daemon, lie: Lie, *, follows: bool
    ) -> contextlib.AbstractContextManager[JobRunner]:
        if follows:
            return super()._open_runner(node, lie, follows=follows)
        return open_forgers_runner(node, self._forgery, self._knows, self.ignored)


class BadlyServedArena(Arena):
    """One trainer with a hostile server, who also forges if a forgery is given, and an honest challenger."""

    def __init__(
        self,
        anvil: Anvil,
        folder: Path,
        bundle: Bundle,
        server: HostileServer,
        forgery: Forgery | None = None,
    ) -> None:
        self._server, self._forgery = server, forgery
        super().__init__(anvil, folder, bundle, trainers=[Fault.NONE])
        server.store = self.members[-2].node.store

    def _node(self, name: str, role: str, **settings: object) -> Daemon:
        if name == "trainer-0":
            settings["public_uri"] = self._server.uri
        return super()._node(name, role, **settings)

    def _open_runner(
        self, node: Daemon, lie: Lie, *, follows: bool
    ) -> contextlib.AbstractContextManager[JobRunner]:
        if follows or self._forgery is None:
            return super()._open_runner(node, lie, follows=follows)
        return open_forgers_runner(node, self._forgery, False, set())
