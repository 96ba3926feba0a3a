"""A verifier's judgement: the disputed operator is executed once, and what comes of it is kept for a trial.

    inputs, log      fetched from whoever serves them, and held by the job
    outputs, record  computed once, and held by the job, too
    read             both again, as a trial begins with them; a vote counts on the time that this takes

SAFETY: executing an operator may take hours where a walk along one of its chains takes milliseconds, and a client
chooses the clock. So no trial waits for an execution: its tensors are read. The chain knows which record we have signed
for, and that names its outputs, so they are found after a restart, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from referee_py.adjudication import execute_again
from referee_py.commit import NO_LOG, Record, Tag, tensor_hash
from referee_py.commit.tensor import Array, canonical
from referee_py.errors import Unavailable
from referee_py.panel.state import Submission
from referee_py.program import Program, Structure
from referee_py.rounding.step_log import NodeLog
from referee_py.trial.solver import Operator

from ..chain import HearingInfo, JobView
from ..daemon.service import Daemon
from ..errors import DiskFailed, DiskFull
from ..ids import whole
from ..network.fetcher import Fetcher
from ..network.sources import Served, Source
from ..run.fetched_logs import step_limit
from ..run.modes import backend_of
from ..run.package import MAX_HEADER_BYTES, check_leaves, check_operator, load_program
from ..run.trial_cost import TrialCost, cost_of
from ..storage.artifacts import Kind, Name
from ..storage.disk import on_disk
from ..storage.refused_by_disk import Memory
from ..storage.store import Store
from .verdicts import Judged

SLOWEST_DISK = 1e8
"""Bytes that a disk reads in a second, at least. NOTE: what was just written is still in memory, so a measurement says
nothing about a disk that is read after a day or a restart."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Judgement:
    """A verifier's result: the record that it signs, and the tensors with which it defends that in a trial.

    ``trial``: what a trial takes, reading included; ``read_s``: the seconds of reading alone. ``kept``: the tensors can
    be read again; otherwise these are all that there are.
    """

    record: Record
    operator: Operator
    trial: TrialCost
    read_s: float
    kept: bool

    @property
    def judged(self) -> Judged:
        """The part that a decision needs, without the tensors."""
        return Judged(self.record, self.trial, self.read_s)


@dataclass(frozen=True)
class _Case:
    """A disputed operator to execute. ``record``: either side's, whose inputs both sides agree on."""

    structure: Structure
    record: Record
    inputs: list[Array]
    log: NodeLog | None

    def right(self, outputs: list[Array]) -> Record:
        hashes = tuple(map(tensor_hash, outputs))
        return Record(self.record.structure, self.record.inputs, hashes, self._digest)

    def is_of(self, record: Record) -> bool:
        """Return whether a record is about these inputs and this log."""
        same = (record.structure, record.inputs) == (self.record.structure, self.record.inputs)
        return same and record.log == self._digest

    @property
    def _digest(self) -> bytes:
        return NO_LOG if self.log is None else self.log.digest


class Judge:
    """Judges for a node. ``memory`` has what the disk refuses; ``clock`` gives seconds. Safe for several threads."""

    def __init__(self, node: Daemon, memory: Memory, clock: Callable[[], float]) -> None:
        self._node, self._memory, self._clock = node, memory, clock

    def judge(
        self, job: JobView, hearing: HearingInfo, fetcher: Fetcher, signed: bytes | None, *, defends: bool
    ) -> Judgement:
        """Return the right record of the disputed node, from what is kept, or from inputs that either side serves.

        ``signed``: the hash of the record that we have signed for, if any; ``defends``: our bond is in the hearing.
        Then what fits nowhere is played all the same. Raises Unavailable, DiskFailed, InvalidInput, HashMismatch.
        """
        store, began = fetcher.store, self._clock()
        case = self._case(job, hearing, fetcher, defends=defends, room=not defends)
        known = None if signed is None else _recalled(store, signed, case)
        if known is not None:
            return self._judgement(job, hearing, case, *known, kept=True, read_s=self._clock() - began)
        if store.in_memory and not defends:
            self._memory.check_room(sum(output.nbytes for output in case.structure.outputs))
        mode = job.program.mode
        outputs = execute_again(
            case.structure, case.record, case.inputs, backend_of("cpu", mode), mode, case.log
        )
        outputs = [*map(canonical, outputs)]
        right = case.right(outputs)
        try:
            store = self._keep(job, store, right, outputs)
        except DiskFailed as error:
            if not defends:
                raise
            _log.warning("verdict.not_kept", match=whole(hearing.match_id), reason=str(error))
            return self._judgement(job, hearing, case, right, outputs, kept=False)
        if defends:
            return self._judgement(job, hearing, case, right, outputs, kept=True)
        # SAFETY: read before it is signed, as a trial reads it: so it is known that we can, and how long it takes.
        del case, outputs
        began = self._clock()
        case = self._case(job, hearing, fetcher, defends=False)
        known = _recalled(store, right.hash(), case)
        if known is None:
            raise Unavailable("the outputs were kept, and cannot be read")
        return self._judgement(job, hearing, case, *known, kept=True, read_s=self._clock() - began)

    # ------------------------------------------------------------------ inside

    def _case(
        self,
        job: JobView,
        hearing: HearingInfo,
        fetcher: Fetcher,
        *,
        defends: bool,
        room: bool = False,
    ) -> _Case:
        """Return what is to be executed; fetch what is not here. ``room``: for the outputs, too."""
        at = hearing.terms.submission
        # SAFETY: the limit may be lower than when we signed; our bond is lost if we do not play.
        memory = math.inf if defends else self._node.settings.limits.memory_bytes
        source = Served(fetcher, servers(job, hearing))
        program = load_program(source, job.program, job.program_file)
        structure = program.nodes[at.node]
        limit = check_operator(program, job.program, at.node, memory) + MAX_HEADER_BYTES
        record = hearing.terms.dispute.records[0]
        self._check_room(job, source.store, program, at.node, record, outputs=room)
        source.fetch_all([Name(Kind.TENSOR, tensor) for tensor in record.inputs], limit)
        inputs = [source.store.get_tensor(tensor) for tensor in record.inputs]
        return _Case(structure, record, inputs, self._log_of(job, program, at, source))

    def _check_room(
        self, job: JobView, store: Store, program: Program, node: int, record: Record, *, outputs: bool
    ) -> None:
        """Raise DiskFull if what is to be kept of a node and is not here would take room that other jobs may need."""
        sizes = [on_disk(program.type_of(operand).nbytes) for operand in program.nodes[node].inputs]
        names = [Name(Kind.TENSOR, tensor) for tensor in record.inputs]
        missing = sum(size for name, size in zip(names, sizes, strict=False) if store.find(name) is None)
        if outputs:
            missing += sum(on_disk(kind.nbytes) for kind in program.nodes[node].outputs)
        if missing and not store.in_memory and (full := self._node.keeper.fits(job.id, missing)) is not None:
            raise DiskFull(f"the operator is not judged: {full}")

    def _keep(self, job: JobView, store: Store, right: Record, outputs: list[Array]) -> Store:
        """Keep a judgement on the disk, or in memory where the disk refuses. Return the view of the store that has it.

        Raises DiskFull if there is no room for it anywhere.
        """
        try:
            _put(store, right, outputs)
        except DiskFailed:
            if store.in_memory:
                raise
            store = self._node.store.held_by(job.id, memory=self._memory)
            _put(store, right, outputs)
        return store

    def _judgement(
        self,
        job: JobView,
        hearing: HearingInfo,
        case: _Case,
        right: Record,
        outputs: list[Array],
        *,
        kept: bool,
        read_s: float = 0.0,
    ) -> Judgement:
        """``read_s``: the seconds in which this process has read the tensors, from a disk or from what it remembers."""
        read_s += sum(array.nbytes for array in (*case.inputs, *outputs)) / SLOWEST_DISK
        trial = cost_of(hearing.terms.submission.node, case.structure, case.inputs, job.program.mode)
        trial = replace(trial, seconds=trial.seconds + read_s)
        entries = None if case.log is None else case.log.read()
        return Judgement(right, Operator(case.inputs, outputs, entries), trial, read_s, kept)

    def _log_of(self, job: JobView, program: Program, at: Submission, source: Source) -> NodeLog | None:
        """Return the disputed node's log, to which the job's rounding logs commit; None if there is none.

        NOTE: it comes from the root that the trainer has revealed, because both records may name a wrong log.
        """
        terms = job.program
        if not terms.arithmetic.follows_logs:
            return None
        check_leaves(terms)
        roots = source.tree(Tag.LOG_RUN_TREE, job.logs, terms.steps).leaves
        limit = step_limit(program, self._node.settings.limits.memory_bytes)
        step = source.log(roots[at.step - 1], terms.node_count, limit)
        return step.nodes.get(at.node)


def _put(store: Store, right: Record, outputs: list[Array]) -> None:
    for array in outputs:
        store.put_tensor(array)
    store.put_record(right)


def _recalled(store: Store, signed: bytes, case: _Case) -> tuple[Record, list[Array]] | None:
    """Return the record that we have signed for and its outputs, if they are kept and are of this case.

    NOTE: they are not computed again, though a disk may have lost or damaged them: then None is returned, and they are.
    """
    try:
        record = store.get_record(signed)
        if not case.is_of(record):
            return None
        return record, [store.get_tensor(output) for output in record.outputs]
    except (Unavailable, DiskFailed):
        return None


def servers(job: JobView, hearing: HearingInfo) -> list[str]:
    """Return the servers that may have the data of a hearing: the client's, both spokesmen's, then all others'."""
    spokesmen = hearing.terms.submission.players
    return job.servers(first=lambda claim: claim.owner in spokesmen, client=True)
