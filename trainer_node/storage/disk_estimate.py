"""The disk space that a job takes until it is over, by its program and terms alone, before anything is fetched.

    part           of a refutation: what a run keeps at one checkpoint, the run tree, the logs of an interval
    package        the program, its constants, the initial state
    run            at each checkpoint of the first stride: the state, the step's tree, the records of its writers
    disputes       in each of `DISPUTES`: the trees of the refinements and of every step of the last one, ours and the
                   opponent's; the disputed operator's tensors, records and logs

All of it is an upper bound for a whole file system of blocks; slots that a step leaves as they are take no new space.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from repops.opset import MAX_RANK

from referee_py.commit import HASH_BYTES
from referee_py.program import Program, TensorType
from referee_py.program.terms import Terms

from ..reason import Reason
from .artifacts import MAX_RECORD_BYTES
from .disk import BLOCK_BYTES, on_disk

DISPUTES = 3
"""Disputes of a job whose data are on disk at the same time."""
_HEADER_BYTES = 2 + 8 * MAX_RANK
_LOGGED = 64
"""In rounded-f64 one element of this many is taken to need an entry, of a byte or two (docs/rounding-logs.md)."""


def disk_needed(program: Program, terms: Terms) -> int:
    """Return the bytes that a job takes on disk: package, run and disputes."""
    return package_bytes(program) + run_bytes(program, terms) + DISPUTES * dispute_bytes(program, terms)


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes on disk: of a ``whole`` job, disputes included; and for a refutation of one interval what it begins with
    (``start``), and its ``disputes``."""

    whole: int
    start: int = 0
    disputes: int = 0

    def left(self, held: int, *, part: bool) -> int:
        """Return the bytes that the job, or a refutation, may still take if it holds so many.

        NOTE: what a sampler holds may be of other intervals, so it does not count for the disputes about this one.
        """
        return self.disputes + max(0, self.start - held) if part else max(0, self.whole - held)


def needs_of(program: Program, terms: Terms) -> Needs:
    """Return what a job takes on disk. A refutation begins with the package, the state before its interval and what
    proves it, and the interval's logs."""
    interval = replace(terms, steps=min(terms.strides[0], terms.steps))
    trees = on_disk(-(-terms.steps // terms.strides[0]) * HASH_BYTES)
    trees += on_disk(terms.steps * HASH_BYTES) if terms.arithmetic.follows_logs else 0
    start = package_bytes(program) + run_bytes(program, interval) + trees
    return Needs(disk_needed(program, terms), start, DISPUTES * dispute_bytes(program, terms))


def package_bytes(program: Program) -> int:
    """Return the bytes of a job's program and tensors."""
    tensors = (*program.constants, *program.initial)
    return on_disk(len(program.to_bytes())) + sum(_tensor(tensor.type) for tensor in tensors)


def run_bytes(program: Program, terms: Terms) -> int:
    """Return the bytes that a run keeps: its states and what proves them, and its logs."""
    checkpoints = -(-terms.steps // terms.strides[0])
    state = sum(_tensor(tensor.type) for tensor in program.initial)
    records = len({slot.node for slot in program.slots}) * on_disk(_record(program))
    run_tree = on_disk(checkpoints * HASH_BYTES)
    logs = 0
    if terms.arithmetic.follows_logs:
        entries = sum(t.count for node in program.nodes for t in node.outputs if t.dtype.is_float)
        logs = terms.steps * on_disk(2 * entries // _LOGGED) + on_disk(terms.steps * HASH_BYTES)
    return checkpoints * (state + _step_tree(terms) + records) + run_tree + logs


def dispute_bytes(program: Program, terms: Terms) -> int:
    """Return the bytes that one dispute takes."""
    spans = [min(stride, terms.steps) for stride in terms.strides]
    trees = sum(on_disk(-(-wide // fine) * HASH_BYTES) for wide, fine in itertools.pairwise(spans))
    steps = spans[-2] if len(spans) > 1 else terms.steps
    operator = max(
        (
            sum(_tensor(program.type_of(operand)) for operand in node.inputs)
            + sum(_tensor(type_) for type_ in node.outputs)
            for node in program.nodes
        ),
        default=0,
    )
    ours = trees + steps * _step_tree(terms) + operator + on_disk(_record(program))
    return ours + trees + 2 * _step_tree(terms) + operator + on_disk(MAX_RECORD_BYTES)


class NoRoom(Reason):
    text = (
        "it may take {needed} bytes more on disk, its disputes included; {room} are free and not kept for other jobs: "
        "make room, raise limits.store_bytes, or leave the job to others"
    )
    needed: int
    room: int


def too_full(needed: int, room: int) -> NoRoom | None:
    """Return why not to stake on a job, or None: its data would not fit on the disk. ``room``: bytes that are free and
    that no other job may need."""
    return NoRoom(needed, max(room, 0)) if needed > room else None


def _tensor(type_: TensorType) -> int:
    return on_disk(_HEADER_BYTES + type_.nbytes)


def _step_tree(terms: Terms) -> int:
    return on_disk(terms.node_count * HASH_BYTES)


def _record(program: Program) -> int:
    """Return the bytes of a program's largest record: hashes of the structure, the log, all inputs and outputs."""
    most = max((len(node.inputs) + len(node.outputs) for node in program.nodes), default=0)
    return min(MAX_RECORD_BYTES, (most + 4) * HASH_BYTES + BLOCK_BYTES // 8)
