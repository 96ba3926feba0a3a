"""Daemons that cheat: the node's own, composed with a run that lies, a silent party, or a verifier that signs a lie.

A liar is consistent: it really computes with its lie, commits to what it computed, and defends that in a dispute with
the same players as everybody.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import repops

from referee_py.commit import Record
from referee_py.execute import Executor, NodeHook, NodeValues, State, StepTrace
from referee_py.trial.solver import Operator
from trainer_node.chain import HearingInfo, JobView, TransactionManager
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.service import Daemon, Service, open_daemon
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.sources import Served
from trainer_node.play.judgement import Judgement, servers
from trainer_node.roles import challenger, trainer
from trainer_node.roles.participant import Participant
from trainer_node.roles.verifier import Verifier
from trainer_node.run.package import MAX_HEADER_BYTES
from trainer_node.run.replay import Replay
from trainer_node.settings.settings import Settings

from .faults import Fault, Lie, Target, executor_of, values_of, watched


def lying(lie: Lie) -> type[Replay]:
    """Return the replay of a run with this lie; the honest one for none."""
    if lie.fault is Fault.NONE:
        return Replay

    class LyingReplay(Replay):
        """A run that lies. One that appeals stands by its own record, whatever is right."""

        @property
        def _target(self) -> Target:
            package = self._package
            return Target(self.program, package.constants, package.initial, self._backend, lie.step, lie.node)

        def _executor(self) -> Executor | None:
            return executor_of(lie.fault, self._target)

        def _values(self, state: State, node: int) -> NodeValues:
            return values_of(lie.fault, self._target, state, node)

        def _watched(self, before: State, hook: NodeHook) -> StepTrace:
            watched(lie.fault, self._target, before, hook)
            return self._run.commit_step(before)[1]

        def right(self, step: int, node: int) -> Record:
            return self.record(step, node) if lie.appeals else super().right(step, node)

    return LyingReplay


class SilentParticipant(Participant):
    """Never moves in a match or a hearing, and answers no request."""

    def _take_part(self, node: Daemon, key: TransactionManager) -> None:
        """Take no part."""


class LyingVerifier(Verifier):
    """Signs the wrong record of a disputed operator, and stands by it."""

    def _judge(self, job: JobView, hearing: HearingInfo, fetcher: Fetcher) -> Judgement:
        right = super()._judge(job, hearing, fetcher)
        wrong = next(record for record in hearing.terms.dispute.records if record != right.record)
        most = max(array.nbytes for array in right.operator.outputs) + MAX_HEADER_BYTES
        source = Served(fetcher, servers(job, hearing))
        false = [source.tensor(output, most) for output in wrong.outputs]
        operator = Operator(right.operator.inputs, false, right.operator.log)
        return replace(right, record=wrong, operator=operator, kept=False)


def run_trainer(settings: Settings, lie: Lie) -> None:
    """Run a trainer with this lie, until asked to stop."""
    participant = SilentParticipant if lie.fault is Fault.WITHHOLD else Participant
    trainer.run(settings, lying(lie), participant)


def run_challenger(settings: Settings, lie: Lie) -> None:
    """Run a challenger that disputes right results by this lie, until asked to stop."""
    challenger.run(settings, lying(lie))


def run_verifier(settings: Settings, **_: Any) -> None:
    """Run a verifier that signs what is wrong, until asked to stop."""
    repops.set_num_threads(settings.worker_threads)
    with open_daemon(settings, "verifier") as node:
        Service(node, Loop(node, LyingVerifier(node)).tick).run()
