"""A published run: what others need to check any interval of it.

    claim.json          what is claimed, a `Claim`
    artifacts/          program, tensors of the initial state and the constants, the run tree;
                        of each checkpoint that is kept: its step tree, the records of the nodes that write the slots,
                        and the slots; finer run trees and more records, if they are published

INVARIANT: nothing is used that does not lead to the claim's root. claim.json itself is only a claim: whoever has the
root from elsewhere (a chain, a receipt) compares it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from referee_py.commit import Tag, Tree, depth_of, fold_path
from referee_py.errors import Unavailable
from referee_py.execute.run import checkpoint_steps
from referee_py.program import MAX_FILE_BYTES
from referee_py.program.read import read_program
from referee_py.program.terms import Terms

from ..local.bundle import JOB, RUN
from ..local.claim_file import CLAIM, MAX_CLAIM_BYTES, Claim
from ..network.sources import Source
from ..storage.artifacts import Name
from ..storage.store import Store
from ..storage.stored_tree import StoredTree
from .address import Address
from .claimed import ClaimedRun


class Located(Source):
    """Artifacts at an address."""

    def __init__(self, address: Address, store: Store) -> None:
        super().__init__(store)
        self._address = address

    def bring(self, name: Name, max_bytes: int) -> None:
        self._address.fetch(name, self.store, max_bytes)

    def once(self, name: Name, max_bytes: int) -> bytes | bytearray:
        # NOTE: states are nearly all of a run, and an audit of many intervals would fill the disk with them.
        if self.store.has(name):
            return super().once(name, max_bytes)
        data = self._address.checked(name, self.store, max_bytes)
        self.fetched += len(data)
        return data


class PublishedRun(ClaimedRun):
    """A run at an address. Raises Unavailable for what is missing or is not what the claim leads to.

    ``cache`` keeps what was fetched. ``root``, if given, is what claim.json must claim.
    """

    def __init__(self, address: Address, cache: Store, root: bytes | None = None) -> None:
        claim = _read_claim(address)
        if root is not None and root.hex() != claim.root:
            raise Unavailable(f"{address.text} publishes a run with root {claim.root}, not {root.hex()}")
        self._open(claim, Located(address, cache))
        _check_last(claim, self.tree)

    def _open(self, claim: Claim, source: Source) -> None:
        self.claim = claim
        file = bytes.fromhex(claim.program_file)
        program = read_program(source.blob(file, MAX_FILE_BYTES))
        terms = Terms.of(program, claim.steps, claim.strides, claim.mode)
        if terms.hash().hex() != claim.program_hash:
            raise Unavailable(f"{claim.name}: the claim names another program hash than its program has")
        roots = bytes.fromhex(claim.root), bytes.fromhex(claim.logs)
        ClaimedRun.__init__(self, source, terms, program, file, *roots)

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


def _read_claim(address: Address) -> Claim:
    try:
        data = address.read(CLAIM, MAX_CLAIM_BYTES)
    except Unavailable as error:
        raise Unavailable(f"{error}; {_remedy(address.folder)}") from error
    try:
        return Claim.model_validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or CLAIM
        raise Unavailable(f"{CLAIM} at {address.text} is not a claim: {place}: {first['msg']}") from error


def _remedy(folder: Path | None) -> str:
    """Return what to do where there is no claim in a folder, or at an address."""
    if folder is None:
        return "an audit needs the address of a published run"
    if not folder.is_dir():
        return f"there is no folder {folder}: name that of a run"
    if (folder / JOB).exists():
        return "this is a bundle: run it first, with --out, and name the folder of that run"
    if (folder / RUN).exists():
        return "this run has not ended: run its program again with the same --out and --resume"
    return "name the folder that a program was run with --out to"


def _check_last(claim: Claim, tree: StoredTree) -> None:
    """Raise Unavailable unless `last` is the last leaf, as the chain checks it."""
    index, path = len(tree.leaves) - 1, [bytes.fromhex(node) for node in claim.path]
    last = bytes.fromhex(claim.last)
    proven = (
        len(path) == depth_of(len(tree.leaves)) and fold_path(Tag.RUN_TREE, last, index, path) == tree.root
    )
    if last != tree.leaves[index] or not proven:
        raise Unavailable(f"{CLAIM}: last is not the last leaf of the run tree")
