"""A bundle: one folder with all that a client needs to post a job and to serve it. Needs no torch.

program.cbor      the program file
job.json          steps, strides, roots, and the SHA-256 of program.cbor
labels.json       names of nodes, slots, constants and metrics, for people; names and SHA-256 of the extras
artifacts/        a Store with the program file and its tensors, by hash
extras/           small files for those who take the result elsewhere (a configuration, a tokenizer), by SHA-256
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from referee_py.errors import HashMismatch, InvalidEncoding, InvalidInput, Unavailable, UnknownVersion
from referee_py.program import MAX_FILE_BYTES, Program, SlotSource
from referee_py.program.describe import Names
from referee_py.program.read import read_program
from referee_py.program.terms import Terms

from ..storage.artifacts import Array, parse_hash
from ..storage.made_folders import made, mark
from ..storage.store import Store
from ..storage.untrusted_file import read_plain, write_plain

FORMAT = 1
JOB = "job.json"
RUN = "run.json"
"""File of a run's folder, which no bundle has (`run_folder`)."""
BY = "assay program build"
"""Text of the mark in a bundle's folder."""
_CONTENTS = (JOB, "program.cbor", "labels.json", "extras", "artifacts")
MAX_EXTRAS = 64
MAX_EXTRA_BYTES = 64 << 20
EXTRA_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""Names of extras. SAFETY: in a bundle they are not paths; where they become paths, they cannot leave their folder."""


@dataclass(frozen=True)
class Bundle:
    """A program, its terms and its tensors. `labels` is the content of labels.json, apart from the extras.

    `extras` are small files by name. Raises InvalidInput for one that is too large, or has no plain name.
    """

    name: str
    program: Program
    terms: Terms
    constants: tuple[Array, ...] = field(repr=False)
    initial: tuple[Array, ...] = field(repr=False)
    labels: dict[str, Any] = field(default_factory=dict, repr=False)
    extras: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check_count(self.extras)
        for name, data in self.extras.items():
            if not EXTRA_NAME.fullmatch(name) or len(data) > MAX_EXTRA_BYTES:
                raise InvalidInput(
                    f"{name[:80]!r} of {len(data)} bytes cannot be kept with a program: use a plain name, and at "
                    f"most {MAX_EXTRA_BYTES} bytes"
                )

    @property
    def metrics(self) -> dict[str, SlotSource]:
        """The output of each metric, for `referee_py.execute.Metrics`."""
        return {name: SlotSource(*place) for name, place in self.names.metrics.items()}

    @cached_property
    def names(self) -> Names:
        """The labels that fit the program. SAFETY: the others are left out, since a bundle may come from anybody."""
        return Names.of(self.labels, self.program)

    def with_mode(self, mode: int) -> Bundle:
        """Return this bundle in another arithmetic. Raises UnknownVersion for one that is not implemented."""
        terms = Terms.of(self.program, self.terms.steps, self.terms.strides, mode)
        return replace(self, terms=terms)

    def write(self, folder: Path) -> Path:
        """Write the bundle; return the folder. Writing the same bundle twice changes nothing.

        Raises InvalidInput for a folder with the bundle of another program, or with such files of anybody else. What is
        left of a bundle that we were stopped at is written over.
        """
        program = self.program.to_bytes()
        _check_folder(folder, hashlib.sha256(program).hexdigest())
        folder.mkdir(parents=True, exist_ok=True)
        mark(folder, BY)
        self.put(Store(folder / "artifacts"))
        write_plain(folder / "program.cbor", program)
        named = {name: hashlib.sha256(data).hexdigest() for name, data in self.extras.items()}
        if named:
            (folder / "extras").mkdir(exist_ok=True)
        for name, digest in named.items():
            write_plain(folder / "extras" / digest, self.extras[name])
        _write_json(folder / "labels.json", {"format": FORMAT, "extras": named, **self.labels})
        # INVARIANT: this file is written last, so a folder that has it has the whole bundle.
        _write_json(folder / JOB, self._job(program))
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
            job = from_json(read_plain(folder / JOB, MAX_FILE_BYTES))
            labels = from_json(read_plain(folder / "labels.json", MAX_FILE_BYTES))
            if job["format"] != FORMAT or labels.pop("format") != FORMAT:
                raise UnknownVersion(f"{folder} is of another format; this build reads {FORMAT}")
            steps, strides, mode = (job["terms"][name] for name in ("steps", "strides", "mode"))
            if not isinstance(strides, list) or any(type(n) is not int for n in (steps, mode, *strides)):
                raise ValueError("its terms are no whole numbers")
            file_hash, program_hash = parse_hash(job["program_file"]), parse_hash(job["program_hash"])
            name = str(job["name"])
            extras = {str(name): parse_hash(digest) for name, digest in labels.pop("extras", {}).items()}
        except FileNotFoundError as error:
            raise InvalidEncoding(f"{folder} is not a bundle: {_why(folder)}") from error
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidEncoding(f"{folder} is not a bundle: {error}; build it again") from error
        _check_count(extras)
        data = read_plain(folder / "program.cbor", MAX_FILE_BYTES)
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
            {name: _read_extra(folder / "extras" / digest.hex(), digest) for name, digest in extras.items()},
        )

    @classmethod
    def read_of(cls, folder: Path, files: Mapping[str, str]) -> Bundle:
        """Read the bundle of one of some programs. ``files``: SHA-256 of their files, by whose they are.

        Raises InvalidInput for the bundle of another program, and as `read`.
        """
        found = cls.read(folder)
        if (own := found.program.file_hash().hex()) not in files.values():
            wanted = ", ".join(f"that of {whose} is {digest}" for whose, digest in files.items())
            raise InvalidInput(
                f"{folder} is the bundle of another program, {found.name[:80]!r}: its file has the SHA-256 {own}, "
                f"{wanted}; leave out --bundle, or give the right one"
            )
        return found


def _why(folder: Path) -> str:
    """Return what a folder is in which a bundle's file is missing, and what to do."""
    if not folder.is_dir():
        return "there is no such folder; name one that a program was built to"
    if (folder / RUN).exists():
        return "it is a run; name the folder of the program that was run"
    if (folder / JOB).exists():
        return "a file of it is missing; build it again"
    return f"it has no {JOB}; name a folder that a program was built to"


def _check_folder(folder: Path, program_file: str) -> None:
    """Raise InvalidInput for a folder that a bundle of this program may not be written to."""
    remedy = "name another folder, or move it away"
    # SAFETY: a folder from elsewhere may hold links to folders of the user.
    if links := [name for name in _CONTENTS if (folder / name).is_symlink()]:
        raise InvalidInput(f"{folder / links[0]} is a link, and no part of a bundle; {remedy}")
    if (folder / JOB).exists():
        try:
            found = from_json(read_plain(folder / JOB, MAX_FILE_BYTES))
            other, name = found["program_file"] != program_file, str(found["name"])
        except (InvalidInput, OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{folder / JOB} is not a bundle's; {remedy}") from error
        if other:
            raise InvalidInput(f"{folder} holds the bundle of another program, {name[:80]!r}; {remedy}")
    elif not made(folder, BY) and (held := [name for name in _CONTENTS if (folder / name).exists()]):
        raise InvalidInput(f"{folder} is not a bundle and holds {held[0]!r}; {remedy}")


def _check_count(extras: Mapping[str, bytes]) -> None:
    if len(extras) > MAX_EXTRAS:
        raise InvalidInput(f"{len(extras)} extra files of a program; the limit is {MAX_EXTRAS}")


def _read_extra(path: Path, digest: bytes) -> bytes:
    """Return an extra file of the program. Raises Unavailable, InvalidInput or HashMismatch."""
    try:
        data = read_plain(path, MAX_EXTRA_BYTES)
    except OSError as error:
        raise Unavailable(f"{path} is missing ({error.strerror}); build the bundle again") from error
    if hashlib.sha256(data).digest() != digest:
        raise HashMismatch(f"{path} is not the file that labels.json names; build the bundle again")
    return data


def _write_json(path: Path, value: Any) -> None:
    write_plain(path, json.dumps(value, indent=1, sort_keys=True) + "\n")
