"""A published run: what others need to check any interval of it.

    claim.json          what is claimed, a `Claim`
    artifacts/          program, tensors of the initial state and the constants, the run tree;
                        of each checkpoint that is kept: its step tree, the records of the nodes that write the slots,
                        and the slots; finer run trees and more records, if they are published

INVARIANT: nothing is used that does not lead to the claim's root. claim.json itself is only a claim: whoever has the
root from elsewhere (a chain, a receipt) compares it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from referee_py.commit import HASH_BYTES, NO_LOG, Record, Tag, Tree, depth_of, fold_path
from referee_py.commit.tensor import Array
from referee_py.errors import Unavailable
from referee_py.execute import RunClaim
from referee_py.execute.run import checkpoint_steps
from referee_py.program import MAX_FILE_BYTES, Program
from referee_py.program.read import read_program
from referee_py.program.terms import Terms

from ..artifacts import MAX_RECORD_BYTES, Kind, Name
from ..package import MAX_HEADER_BYTES, Package, load
from ..store import Store
from .location import Location

FORMAT = 1
MAX_CLAIM_BYTES = 16 << 20
CLAIM = "claim.json"

_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Step = Annotated[int, Field(ge=0, lt=1 << 48)]


class Refinement(BaseModel):
    """A finer run tree that is published: over `(start, end]` at a stride."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: _Step
    end: _Step
    stride: _Step
    root: _Hash


class Claim(BaseModel):
    """The content of claim.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = Field(ge=FORMAT, le=FORMAT)
    name: str = Field(max_length=200)
    program_file: _Hash
    program_hash: _Hash
    steps: _Step
    strides: list[Annotated[int, Field(ge=1, lt=1 << 64)]] = Field(min_length=1, max_length=8)
    mode: int = Field(ge=0, lt=256)
    root: _Hash
    last: _Hash
    path: list[_Hash] = Field(max_length=64)
    logs: _Hash = NO_LOG.hex()
    refinements: list[Refinement] = Field(default=[], max_length=1 << 16)

    @classmethod
    def of(cls, name: str, terms: Terms, program_file: bytes, claim: RunClaim) -> Claim:
        return cls(
            format=FORMAT,
            name=name[:200],
            program_file=program_file.hex(),
            program_hash=terms.hash().hex(),
            steps=terms.steps,
            strides=list(terms.strides),
            mode=terms.mode,
            root=claim.root.hex(),
            last=claim.last.hex(),
            path=[node.hex() for node in claim.path],
            logs=claim.logs.hex(),
        )

    def write(self, folder: Path) -> None:
        unnamed = folder / f"{CLAIM}.new"
        unnamed.write_text(json.dumps(self.model_dump(), indent=1) + "\n")
        unnamed.replace(folder / CLAIM)


class Source:
    """Gets artifacts from a location into a store: what `trainer_node.package` needs of a fetcher."""

    def __init__(self, location: Location, store: Store) -> None:
        self.location = location
        self.store = store

    def fetch(self, name: Name, max_bytes: int | None = None) -> None:
        self.location.fetch(name, self.store, min(max_bytes or self.store.max_bytes, self.store.max_bytes))

    def fetch_all(self, names: Sequence[Name], _uris: Any = (), *, max_bytes: int | None = None) -> None:
        for name in names:
            self.fetch(name, max_bytes)

    def blob(self, sha256: bytes, _uris: Any = (), *, max_bytes: int | None = None) -> bytes:
        self.fetch(Name(Kind.BLOB, sha256), max_bytes)
        return self.store.get_blob(sha256)

    def tree(self, tag: Tag, root: bytes, count: int) -> Tree:
        self.fetch(Name(Kind.TREE, root, tag, count), HASH_BYTES * count)
        return self.store.get_tree(tag, root, count)

    def record(self, record: bytes) -> Record:
        self.fetch(Name(Kind.RECORD, record), MAX_RECORD_BYTES)
        return self.store.get_record(record)

    def tensor(self, tensor: bytes, max_bytes: int) -> Array:
        self.fetch(Name(Kind.TENSOR, tensor), max_bytes)
        return self.store.get_tensor(tensor)


class PublishedRun:
    """A run at a location. Raises Unavailable for what is missing or is not what the claim leads to.

    ``cache`` keeps what was fetched. ``root``, if given, is what claim.json must claim.
    """

    def __init__(self, location: Location, cache: Store, root: bytes | None = None) -> None:
        self.source = Source(location, cache)
        self.claim = _read_claim(location)
        if root is not None and root.hex() != self.claim.root:
            raise Unavailable(
                f"{location.address} publishes a run with root {self.claim.root}, not {root.hex()}"
            )
        self.program: Program = read_program(
            self.source.blob(bytes.fromhex(self.claim.program_file), max_bytes=MAX_FILE_BYTES)
        )
        self.terms = Terms.of(self.program, self.claim.steps, self.claim.strides, self.claim.mode)
        if self.terms.hash().hex() != self.claim.program_hash:
            raise Unavailable(f"{location.address}: {CLAIM} names another program hash than its program has")
        self.steps = checkpoint_steps(0, self.terms.steps, self.terms.strides[0])
        self.tree = self.source.tree(Tag.RUN_TREE, bytes.fromhex(self.claim.root), len(self.steps))
        _check_last(self.claim, self.tree)

    @property
    def count(self) -> int:
        """The number of intervals."""
        return len(self.steps)

    def span(self, interval: int) -> tuple[int, int]:
        """Return `(start, end]` of an interval, counted from 1."""
        return (self.steps[interval - 2] if interval > 1 else 0), self.steps[interval - 1]

    def package(self, max_memory: int) -> Package:
        """Return the program with its tensors. Raises InvalidProgram for one that needs more memory."""
        return load(self.source, self.terms, bytes.fromhex(self.claim.program_file), (), max_memory)  # type: ignore[arg-type]

    def slots(self, interval: int) -> list[Array]:
        """Return the slots at the end of an interval, from the records under its checkpoint."""
        tree = self.step_tree(self.tree.leaves[interval - 1])
        arrays = []
        for slot, descriptor in zip(self.program.slots, self.program.initial, strict=True):
            record = self.source.record(tree.leaves[slot.node])
            if slot.output >= len(record.outputs):
                raise Unavailable(f"the record of node {slot.node} has no output {slot.output}")
            limit = descriptor.type.nbytes + MAX_HEADER_BYTES
            arrays.append(self.source.tensor(record.outputs[slot.output], limit))
        return arrays

    def step_tree(self, root: bytes) -> Tree:
        return self.source.tree(Tag.STEP_TREE, root, self.terms.node_count)

    def refined(self, start: int, end: int, stride: int, last: bytes) -> Tree:
        """Return the published run tree of `(start, end]` at a finer stride, whose last leaf is `last`."""
        count = len(checkpoint_steps(start, end, stride))
        for known in self.claim.refinements:
            if (known.start, known.end, known.stride) == (start, end, stride):
                tree = self.source.tree(Tag.RUN_TREE, bytes.fromhex(known.root), count)
                if tree.leaves[-1] != last:
                    raise Unavailable(
                        f"the published tree of steps {start + 1} to {end} ends in another checkpoint"
                    )
                return tree
        raise Unavailable(f"no run tree of steps {start + 1} to {end} at stride {stride} is published")


def _read_claim(location: Location) -> Claim:
    data = location.read(CLAIM, MAX_CLAIM_BYTES)
    try:
        return Claim.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or CLAIM
        raise Unavailable(f"{CLAIM} at {location.address} is no claim: {place}: {first['msg']}") from error


def _check_last(claim: Claim, tree: Tree) -> None:
    """Raise Unavailable unless `last` is the last leaf, as the chain checks it."""
    index, path = len(tree.leaves) - 1, [bytes.fromhex(node) for node in claim.path]
    last = bytes.fromhex(claim.last)
    proven = (
        len(path) == depth_of(len(tree.leaves)) and fold_path(Tag.RUN_TREE, last, index, path) == tree.root
    )
    if last != tree.leaves[index] or not proven:
        raise Unavailable(f"{CLAIM}: last is not the last leaf of the run tree")
