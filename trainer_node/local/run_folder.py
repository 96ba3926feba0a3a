"""The folder of a run on this machine, from which it continues after a stop of any kind.

run.json        what it is a run of: the terms of the program
lock            held while a process computes the run
state.sqlite3   kept states by their tensors' hashes, checkpoints, roots of rounding logs
artifacts/      a Store with the tensors of kept states, run trees, step trees of checkpoints and rounding logs
claim.json      at the end: what is claimed, for those who check it (trainer_node.audit)
metrics.jsonl   the metrics of each step
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json
from sqlalchemy.exc import DatabaseError, OperationalError

from referee_py.errors import InvalidInput, Unavailable
from referee_py.execute import RunClaim
from referee_py.program.terms import Terms

from ..errors import ConfigError
from ..run.checkpoints import Checkpoint, StoredCheckpoints
from ..run.replay import Replay
from ..storage.artifacts import Kind, Name
from ..storage.database import Database
from ..storage.process import exclusive
from ..storage.store import Store
from ..storage.untrusted_file import write_plain
from .bundle import RUN, Bundle
from .claim_file import CLAIM, Claim, Refinement
from .metrics_file import MetricsFile

KEPT_STATES = 2
"""Least number of states whose tensors are kept: the last, and the one before in case the disk has damaged the last."""
_CONTENTS = ("metrics.jsonl", "state.sqlite3", "artifacts", CLAIM)
"""Files that a run writes, besides the one that says what it is a run of."""
SHARE = 50
"""A state is kept again after this many times as long as it took to write the last one."""


@dataclass(frozen=True, slots=True)
class KeepRule:
    """Checkpoints that keep their tensors: every ``every``-th (0: none), and the last ``window``.

    What is dropped can be computed again from the checkpoint before it.
    """

    every: int = 0
    window: int = 0

    @classmethod
    def of(cls, text: str) -> KeepRule:
        """Read "all", "last", "every:K" or "window:K". Raises InvalidInput."""
        kind, _, number = text.partition(":")
        if text == "all":
            return cls(every=1)
        if text == "last":
            return cls()
        if (
            kind in ("every", "window")
            and number.isascii()
            and number.isdigit()
            and len(number) < 19
            and int(number)
        ):
            return cls(**{kind: int(number)})
        raise InvalidInput(f"{text[:40]!r} checkpoints cannot be kept: choose all, last, every:K or window:K")


class RunFolder:
    """The parts of an open folder. It keeps the checkpoints of its run (`checkpoints.Checkpoints`).

    ``keep_s``: seconds of computing after which `due` asks for the state to be kept.
    """

    def __init__(self, path: Path, terms: Terms, keep_s: float, keeps: KeepRule) -> None:
        self.path = path
        self._terms, self._keeps = terms, keeps
        # NOTE: no fsync for each tensor: a torn one is noticed when it is read, and the state before it is restored.
        self.store = Store(path / "artifacts", sync=False)
        self.database = Database(path / "state.sqlite3")
        self.metrics = MetricsFile(path / "metrics.jsonl")
        self.key = int.from_bytes(terms.hash(), "big")
        self._checkpoints = StoredCheckpoints(self.database, self.key)
        self._keep_s = keep_s
        self._asked = self._kept = time.monotonic()
        self._wait_s = keep_s
        self._kept_for_others: set[bytes] = set()
        self._last: list[tuple[int, bytes | None, tuple[bytes, ...]]] = []
        for known in self._checkpoints.all():
            self._retain(known.step, known.root, self.slots(known.step))

    @property
    def step(self) -> int:
        """The last step after which the state is kept; 0 if there is none."""
        return self._checkpoints.last

    def all(self) -> Sequence[Checkpoint]:
        return self._checkpoints.all()

    def slots(self, step: int) -> tuple[bytes, ...]:
        return self._checkpoints.slots(step)

    def add(self, step: int, root: bytes | None, slots: tuple[bytes, ...]) -> None:
        """Record a state whose tensors are in the store, and drop the tensors of the state before the last.

        INVARIANT: the metrics of every step up to a recorded state are on disk.
        """
        self.metrics.sync()
        self._checkpoints.add(step, root, slots)
        for tensor in self._retain(step, root, slots):
            self.store.forget(Name(Kind.TENSOR, tensor))
        self._kept = time.monotonic()
        self._wait_s = max(self._keep_s, SHARE * (self._kept - self._asked))

    def _retain(self, step: int, root: bytes | None, slots: tuple[bytes, ...]) -> set[bytes]:
        """Count a checkpoint among the last ones. Return the tensors that nothing needs any more."""
        self._last.append((step, root, slots))
        states = max(KEPT_STATES, self._keeps.window)
        if len(self._last) <= states:
            return set()
        oldest, claimed, unneeded = self._last.pop(0)
        number = -(-oldest // self._terms.strides[0])
        if claimed is not None and self._keeps.every and number % self._keeps.every == 0:
            self._kept_for_others.update(unneeded)
        return set(unneeded) - self._kept_for_others.union(*(set(held) for _, _, held in self._last))

    def due(self) -> bool:
        """Return whether the state must be kept now. To be asked after each step, before its state is written."""
        self._asked = time.monotonic()
        return self._asked - self._kept >= self._wait_s

    def publish(self, bundle: Bundle, claim: RunClaim) -> None:
        """Leave what others need to check the run (`trainer_node.audit.published`)."""
        Claim.of(bundle.name, bundle.terms, bundle.put(self.store), claim).write(self.path)

    def show(self, replay: Replay, interval: int, step: int | None = None, node: int | None = None) -> None:
        """Publish more of an interval, computed again, so that others find where their run parts from it: its finer run
        trees with the trees of its steps; of a ``step`` also all records; of a ``node`` in it also the tensors.

        Raises InvalidInput for what the run does not have, and Unavailable if what is computed is not what was claimed.
        """
        claim, terms = self._claim(), self._terms
        end = min(interval * terms.strides[0], terms.steps)
        start = (interval - 1) * terms.strides[0]
        if not 0 <= start < end:
            raise InvalidInput(f"interval {interval}: the run has {-(-terms.steps // terms.strides[0])}")
        if step is not None and not start < step <= end:
            raise InvalidInput(
                f"step {step} is not in interval {interval}, which has steps {start + 1} to {end}"
            )
        if node is not None and (step is None or not 0 <= node < terms.node_count):
            raise InvalidInput(
                f"node {node}: a step has nodes 0 to {terms.node_count - 1}; name the step, too"
            )
        known = {checkpoint.step: checkpoint.root for checkpoint in self.all()}
        found = list(_refined(replay, start, end, known.get(end), step))
        if step is not None:
            for number in range(terms.node_count):
                self.store.put_record(replay.record(step, number))
            if node is not None:
                replay.publish(step, node)
        more = [known for known in found if known not in claim.refinements]
        claim.model_copy(update={"refinements": [*claim.refinements, *more]}).write(self.path)

    def _claim(self) -> Claim:
        path = self.path / CLAIM
        try:
            return Claim.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValueError) as error:
            raise InvalidInput(
                f"{path} is not a claim; finish the run first, with --resume: {error}"
            ) from error

    def close(self) -> None:
        self.metrics.close()
        self.database.close()


@contextlib.contextmanager
def open_run(
    path: Path,
    terms: Terms,
    arithmetic: str,
    *,
    resume: bool,
    keep_s: float,
    keeps: KeepRule = KeepRule(),
) -> Iterator[RunFolder]:
    """Open the folder of a run, or create it. ``arithmetic``: the mode in words. ``resume``: it may have begun.

    Raises InvalidInput for a run of something else, or a run that has begun without ``resume``; AlreadyRunning while
    another process computes it; ConfigError if the disk is full or refuses a file, also for what the block writes.
    """
    if (path / "job.json").exists():
        raise InvalidInput(f"{path} is a bundle; name another folder for the run")
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(exclusive(path / "lock", f"run folder {path}"))
            _identify(path / RUN, _description(terms, arithmetic), resume)
            folder = RunFolder(path, terms, keep_s, keeps)
            stack.callback(folder.close)
            yield folder
    except (OSError, OperationalError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.orig
        raise ConfigError(
            f"cannot write to {path}: {reason}; make room or repair that, and continue with --out {path} --resume: "
            "what was computed up to the last kept state is there"
        ) from error
    except DatabaseError as error:
        raise ConfigError(
            f"{path / 'state.sqlite3'} is damaged: {error.orig}; remove it and continue with --out {path} --resume, "
            "which computes the run from its beginning"
        ) from error


def _refined(
    replay: Replay, start: int, end: int, last: bytes | None, step: int | None
) -> Iterator[Refinement]:
    """Yield the finer run trees under ``(start, end]``, or those on the way to a step, which ``replay`` puts into its
    store."""
    if end - start == 1:
        replay.step_tree(end)
        return
    level, stride = next((k, s) for k, s in enumerate(replay.terms.strides) if s < end - start)
    tree = replay.run_tree(level, start, end)
    if last is not None and tree.leaves[-1] != last:
        raise Unavailable(
            f"steps {start + 1} to {end}, computed again, lead to another checkpoint than the run has claimed: there "
            "is nothing to show, and the claim is wrong or this machine is"
        )
    yield Refinement(start=start, end=end, stride=stride, root=tree.root.hex())
    for number, leaf in enumerate(tree.leaves):
        first = start + number * stride
        until = min(first + stride, end)
        if stride > 1 and (step is None or first < step <= until):
            yield from _refined(replay, first, until, leaf, step)


def _description(terms: Terms, arithmetic: str) -> dict[str, object]:
    """Return what identifies a run, in the order in which differences are reported."""
    first = {"steps": terms.steps, "arithmetic": arithmetic, "strides": list(terms.strides)}
    roots = {name: getattr(terms, name) for name in Terms.__slots__ if name.endswith("_root")}
    return {**first, "opset": terms.opset, **{name: root.hex() for name, root in roots.items()}}


def _identify(path: Path, wanted: dict[str, object], resume: bool) -> None:
    """Create the file that says what is run, or compare it. Raises InvalidInput."""
    if not path.exists():
        # SAFETY: a run cuts its metrics and drops states, and what it finds may be somebody else's.
        if foreign := [name for name in _CONTENTS if (path.parent / name).exists()]:
            raise InvalidInput(
                f"{path.parent} was not made by `assay program run` and contains {', '.join(foreign)}; "
                "choose another --out"
            )
        write_plain(path, json.dumps(wanted, indent=1) + "\n")
        return
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
        found = from_json(path.read_bytes())
        differing = [name for name in wanted if found[name] != wanted[name]]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{path} does not say what is run: {error!r}; use another folder") from error
    if differing:
        name = differing[0]
        raise InvalidInput(
            f"{path.parent} holds a run with {name} {found[name]}, this program has {name} {wanted[name]}; "
            "resume with the same program, steps and arithmetic, or use another folder"
        )
    if not resume:
        raise InvalidInput(
            f"{path.parent} holds a run of this program already; --resume continues it, another --out starts a new run"
        )
