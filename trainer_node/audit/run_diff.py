"""Comparison of two runs, programs or claims: what their configurations have in common, and where they part.

configuration   terms, hyperparameters, data, initial state: from the programs
claims          last states and rounding logs, as they are claimed
place           where the runs part (`parting`)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from referee_py.commit.tensor import Array
from referee_py.errors import AssayError, InvalidInput, Unavailable
from referee_py.program import Program
from referee_py.program.describe import Names
from referee_py.program.describe_diff import Difference, TensorDifference, differences
from referee_py.program.modes import mode_or_unknown

from ..local.bundle import JOB, Bundle
from ..local.claim_file import CLAIM, MAX_CLAIM_BYTES, Claim
from ..local.metrics_file import RESERVED
from ..run.package import MAX_HEADER_BYTES
from ..storage.store import Store
from ..storage.untrusted_file import read_plain
from .address import Address
from .parting import Place, Search, first_element
from .published import PublishedRun

METRICS, MAX_METRICS_BYTES = "metrics.jsonl", 64 << 20
NO_NAMES = Names()


@dataclass(frozen=True)
class Compared:
    """One of the two: a published run, a claim alone, or a bundle. What it does not have is None."""

    text: str
    claim: Claim | None = None
    run: PublishedRun | None = None
    bundle: Bundle | None = None

    @classmethod
    def open(cls, text: str, cache: Path) -> Compared:
        """Read a folder, a claim file, or an address. Raises InvalidInput, Unavailable, HashMismatch."""
        path = Path(text)
        # NOTE: a run may be computed into the folder of its bundle. Then what it claims is compared.
        if (path / JOB).is_file() and not (path / CLAIM).is_file():
            return cls(text, bundle=Bundle.read(path))
        if path.is_file():
            try:
                claim = Claim.model_validate_json(read_plain(path, MAX_CLAIM_BYTES))
            except (OSError, ValidationError) as error:
                raise InvalidInput(f"{text} is not a {CLAIM}: {str(error).splitlines()[0]}") from error
            return cls(text, claim=claim)
        run = PublishedRun(Address(text), Store(cache, sync=False))
        return cls(text, claim=run.claim, run=run)

    @property
    def program(self) -> Program | None:
        found = self.bundle or self.run
        return found.program if found is not None else None

    @property
    def names(self) -> Names | None:
        """The labels of a bundle's program; of what is published alone nobody has any."""
        return None if self.bundle is None else Names.of(self.bundle.labels, self.bundle.program)

    @property
    def program_file(self) -> str:
        """SHA-256 of the program's file."""
        if self.claim is not None:
            return self.claim.program_file
        assert self.bundle is not None
        return self.bundle.program.file_hash().hex()

    @property
    def root(self) -> str | None:
        return self.claim.root if self.claim is not None else None

    @property
    def terms(self) -> tuple[int, tuple[int, ...], int]:
        """Steps, strides and mode."""
        known = self.bundle.terms if self.bundle is not None else self.claim
        assert known is not None
        return known.steps, tuple(known.strides), known.mode

    def tensor(self, kind: str, number: int, max_bytes: int) -> Array | None:
        """Return a constant, or a tensor of the initial state ("initial"); None of a claim alone.

        Raises Unavailable for one that nobody serves, or that has more bytes than are read.
        """
        if self.bundle is not None:
            found: Sequence[Array] = self.bundle.constants if kind == "constants" else self.bundle.initial
            return found[number]
        if self.run is None:
            return None
        told = getattr(self.run.program, kind)[number]
        if told.type.nbytes > max_bytes:
            raise Unavailable(f"it has {told.type.nbytes} bytes, the limit is {max_bytes}: raise --memory")
        return self.run.source.tensor(told.hash, told.type.nbytes + MAX_HEADER_BYTES)

    def metrics(self) -> dict[int, dict[str, Any]]:
        """Return the published metrics by step; empty without any. SAFETY: whoever publishes may write anything."""
        rows: dict[int, dict[str, Any]] = {}
        if self.run is None:
            return rows
        try:
            lines = Address(self.text).read(METRICS, MAX_METRICS_BYTES).splitlines()
        except Unavailable:
            return rows
        for line in lines:
            try:
                row = from_json(line)
            except ValueError:
                continue
            if isinstance(row, dict) and isinstance(row.get("step"), int):
                rows[row["step"]] = {name: value for name, value in row.items() if name not in RESERVED}
        return rows


@dataclass(frozen=True)
class RunDiff:
    """All differences. ``configuration`` by kind; ``metric``: the first step at which published metrics differ."""

    configuration: dict[str, tuple[Difference, ...]]
    place: Place | None
    metric: tuple[int, Difference] | None
    compared: str
    """The things that were compared, in words."""
    unparted: str = ""
    """A sentence about two claims without a place: that they do not part, or why that is not known."""

    @property
    def same(self) -> bool:
        return self.place is None and self.metric is None and not any(self.configuration.values())

    def to_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {"same": self.same, **found}


def compare(
    one: Compared,
    other: Compared,
    *,
    names: Names = NO_NAMES,
    replay: bool = True,
    max_memory: int = 8 << 30,
    device: str = "cpu",
) -> RunDiff:
    """Compare two. ``names``: labels of the program of one of them, if they are known; ``max_memory``: bytes of a
    tensor that is read, and of a step. Raises Unavailable for missing programs."""
    configuration = _configuration(one, other, names, max_memory)
    place, compared, unparted = None, "configuration", ""
    if one.claim is not None and other.claim is not None:
        compared, unparted = "configuration and claims", "the runs do not part: both have the same root"
        if one.claim.root != other.claim.root:
            place, compared, unparted = _parting(one, other, names, replay, max_memory, device)
    return RunDiff(configuration, place, _metric(one, other), compared, unparted)


def _parting(
    one: Compared, other: Compared, names: Names, replay: bool, max_memory: int, device: str
) -> tuple[Place | None, str, str]:
    """Return where two claims with different roots part, what was compared for it, and a sentence if nowhere."""
    if one.run is None or other.run is None:
        end = min(one.terms[0], other.terms[0])
        return Place(0, end, note="of a claim alone only the root is known"), "configuration and claims", ""
    labels = _fitting(names, one.run.program)
    search = Search(one.run, other.run, labels, max_memory, device)
    place = search.place(replay=replay)
    if place is not None:
        replayed = ", and a replay" if place.step is not None else ""
        return place, f"configuration, checkpoints{replayed}", ""
    words = (
        f"whether the runs part is not known: {search.unknown}"
        if search.unknown
        else f"the runs do not part at any of the {len(search.common)} checkpoints that both have"
    )
    return None, "configuration and checkpoints", words


def _fitting(names: Names, program: Program) -> Names:
    """Return names, if there are as many as a program has things. NOTE: the other one of the two may have more."""
    counts = (
        (names.nodes, program.nodes),
        (names.slots, program.slots),
        (names.constants, program.constants),
    )
    return names if all(len(a) in (0, len(b)) for a, b in counts) else NO_NAMES


# ------------------------------------------------------------------------------------------------------- configuration


def _configuration(
    one: Compared, other: Compared, names: Names, max_bytes: int
) -> dict[str, tuple[Difference, ...]]:
    shown: dict[str, Callable[[Any], str]] = {
        "steps": str,
        "strides": lambda strides: ", ".join(map(str, strides)),
        "mode": lambda mode: mode_or_unknown(mode).name,
    }
    pairs = zip(shown.items(), one.terms, other.terms, strict=True)
    terms = [Difference(name, show(a), show(b)) for (name, show), a, b in pairs if a != b]
    found: dict[str, tuple[Difference, ...]] = {"terms": tuple(terms), "claims": _claims(one, other)}
    first, second = one.program, other.program
    if first is None or second is None:
        pair = one.program_file, other.program_file
        found["program"] = (Difference("SHA-256 of its file", *pair),) if pair[0] != pair[1] else ()
        return found
    told = differences(
        first, second, _fitting(one.names or names, first), _fitting(other.names or names, second)
    )
    structure = () if told.structure is None else (told.structure,)
    return found | {
        "counts": told.counts,
        "hyperparameters": told.scalars,
        "operators": structure,
        "sources of slots": told.slots,
        "data": _tensors(one, other, "constants", told.constants, max_bytes),
        "initial state": _tensors(one, other, "initial", told.initial, max_bytes),
    }


def _claims(one: Compared, other: Compared) -> tuple[Difference, ...]:
    """Return the hashes besides the root that two claims have different."""
    if one.claim is None or other.claim is None:
        return ()
    named = ("checkpoint after the last step", "last"), ("root of the rounding logs", "logs")
    pairs = ((what, getattr(one.claim, name), getattr(other.claim, name)) for what, name in named)
    return tuple(Difference(what, a, b) for what, a, b in pairs if a != b)


def _tensors(
    one: Compared, other: Compared, kind: str, found: Sequence[TensorDifference], max_bytes: int
) -> tuple[Difference, ...]:
    """Return differences of tensors with the first element that differs; one that cannot be read is said to be so."""
    more = []
    for tensors in found:
        known = Difference(tensors.what, tensors.first, tensors.second)
        try:
            pair = [
                None if number is None else side.tensor(kind, number, max_bytes)
                for side, number in zip((one, other), tensors.places, strict=True)
            ]
            at = None if pair[0] is None or pair[1] is None else first_element(pair[0], pair[1])
            if at is not None:
                known = Difference(f"{known.what}, element {at[0]} ({at[3]} differ)", at[1], at[2])
        except (AssayError, OSError, MemoryError) as error:
            why = (str(error) or "too little memory")[:300]
            known = Difference(f"{known.what}, not read ({why})", known.first, known.second)
        more.append(known)
    return tuple(more)


def _metric(one: Compared, other: Compared) -> tuple[int, Difference] | None:
    first, second = one.metrics(), other.metrics()
    for step in sorted(first.keys() & second.keys()):
        for name in sorted(first[step].keys() & second[step].keys()):
            a, b = first[step][name], second[step][name]
            # NOTE: NaN is no other result than NaN. Our files have it as a string, those of others may not.
            if a != b and not (_is_nan(a) and _is_nan(b)):
                return step, Difference(name, str(a), str(b))
    return None


def _is_nan(value: Any) -> bool:
    return value == "NaN" or (isinstance(value, float) and math.isnan(value))
