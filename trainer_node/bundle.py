"""A bundle: one folder with all that a client needs to post a job and to serve it. Needs no torch.

program.cbor      the program file
job.json          steps, strides, roots, and the SHA-256 of program.cbor
labels.json       names of nodes, slots, constants and metrics, for people
artifacts/        a Store with the program file and its tensors, by hash
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from referee_py.errors import HashMismatch, InvalidEncoding, UnknownVersion
from referee_py.program import Program, SlotSource
from referee_py.program.read import read_program
from referee_py.program.terms import Terms

from .artifacts import Array, parse_hash
from .store import Store

FORMAT = 1


@dataclass(frozen=True)
class Bundle:
    """A program, its terms and its tensors. `labels` is the content of labels.json."""

    name: str
    program: Program
    terms: Terms
    constants: tuple[Array, ...] = field(repr=False)
    initial: tuple[Array, ...] = field(repr=False)
    labels: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def metrics(self) -> dict[str, SlotSource]:
        """The output of each metric, for `referee_py.execute.Metrics`."""
        return {name: SlotSource(*place) for name, place in self.labels.get("metrics", {}).items()}

    def with_mode(self, mode: int) -> Bundle:
        """Return this bundle in another arithmetic. Raises UnknownVersion for one that is not implemented."""
        terms = Terms.of(self.program, self.terms.steps, self.terms.strides, mode)
        return replace(self, terms=terms)

    def write(self, folder: Path) -> Path:
        """Write the bundle; return the folder. Writing the same bundle twice changes nothing."""
        folder.mkdir(parents=True, exist_ok=True)
        program = self.program.to_bytes()
        self.put(Store(folder / "artifacts"))
        (folder / "program.cbor").write_bytes(program)
        _write_json(folder / "labels.json", {"format": FORMAT, **self.labels})
        _write_json(folder / "job.json", self._job(program))
        return folder

    def put(self, store: Store) -> bytes:
        """Copy the program file and the tensors into a store. Returns the program file's SHA-256."""
        for array in (*self.constants, *self.initial):
            store.put_tensor(array)
        return store.put_blob(self.program.to_bytes())

    def _job(self, program: bytes) -> dict[str, Any]:
        terms = {name: getattr(self.terms, name) for name in Terms.__slots__}
        return {
            "format": FORMAT,
            "name": self.name,
            "program_file": hashlib.sha256(program).hexdigest(),
            "program_hash": self.terms.hash().hex(),
            "terms": {k: v.hex() if isinstance(v, bytes) else v for k, v in terms.items()},
        }

    @classmethod
    def read(cls, folder: Path) -> Bundle:
        """Read a bundle, checking every hash. Raises InvalidEncoding, HashMismatch or Unavailable."""
        try:
            # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
            job = from_json((folder / "job.json").read_bytes())
            labels = from_json((folder / "labels.json").read_bytes())
            if job["format"] != FORMAT or labels.pop("format") != FORMAT:
                raise UnknownVersion(f"{folder} is of another format; this build reads {FORMAT}")
            steps, strides, mode = (job["terms"][name] for name in ("steps", "strides", "mode"))
            file_hash, program_hash = parse_hash(job["program_file"]), parse_hash(job["program_hash"])
            name = str(job["name"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidEncoding(f"{folder} is not a bundle: {error}; build it again") from error
        data = (folder / "program.cbor").read_bytes()
        if hashlib.sha256(data).digest() != file_hash:
            raise HashMismatch(
                f"{folder / 'program.cbor'} is not the file that job.json names; build it again"
            )
        program = read_program(data)
        terms = Terms.of(program, steps, strides, mode)
        if terms.hash() != program_hash:
            raise HashMismatch(
                f"the terms in {folder / 'job.json'} are not those of its program; build it again"
            )
        store = Store(folder / "artifacts")
        return cls(
            name,
            program,
            terms,
            tuple(store.get_tensor(tensor.hash) for tensor in program.constants),
            tuple(store.get_tensor(tensor.hash) for tensor in program.initial),
            labels,
        )


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")
