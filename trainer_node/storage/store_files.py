"""Paths of artifacts in a store's folder.

    <root>/blob/4f/4f...e1                   <root>/record/07/07...3c
    <root>/tensor/a0/a0...95                 <root>/tree/15/9b/9b...42.3829      (tag, root, number of leaves)
    <root>/log/c1/c1...7e.3829               (root, number of nodes)
    <root>/incoming/...                      files that are still being written
    <root>/jobs/...                          which job holds which artifacts (:mod:`trainer_node.storage.job_holds`)

SAFETY: file names are built from validated hashes only; nothing that a peer sends becomes part of a path.
"""

from __future__ import annotations

from pathlib import Path

from referee_py.errors import AssayError, InvalidInput

from .artifacts import Kind, Name, parse_hash, parse_tag

INCOMING = "incoming"
PREFIX = "assay-"
"""Prefix of the names of files that are still being written."""


def path_of(root: Path, name: Name) -> Path:
    """Return where an artifact is, or would be."""
    digits = name.hash.hex()
    if name.kind is Kind.TREE:
        return root / name.kind / f"{name.tag:02x}" / digits[:2] / f"{digits}.{name.count}"
    if name.kind is Kind.LOG:
        return root / name.kind / digits[:2] / f"{digits}.{name.count}"
    return root / name.kind / digits[:2] / digits


def find(root: Path, name: Name) -> Path | None:
    """Return the file of an artifact, or None; for a tree without a count, that with the most leaves."""
    if name.kind is Kind.TREE and name.count is None:
        folder = path_of(root, Name(Kind.TREE, name.hash, name.tag, 0)).parent
        found = [
            (int(p.suffix[1:]), p) for p in folder.glob(f"{name.hash.hex()}.*") if p.suffix[1:].isdecimal()
        ]
        return max(found)[1] if found else None
    path = path_of(root, name)
    return path if path.is_file() else None


def name_of(root: Path, path: Path) -> Name:
    """Return the artifact of a file of the store. Raises InvalidInput for a file that holds no artifact."""
    parts = path.relative_to(root).parts
    digits, _, count = parts[-1].partition(".")
    tree = parts[0] == Kind.TREE
    name = Name(
        Kind(parts[0]),
        parse_hash(digits),
        parse_tag(parts[1]) if tree else None,
        int(count) if count.isdecimal() else None,
    )
    if path_of(root, name) != path:
        raise InvalidInput("no artifact of the store has this name")
    return name


def made(root: Path, path: Path) -> bool:
    """Return whether a file of the store's folder is an artifact under its name, or one that was being written. All
    others are somebody else's."""
    if path.parent == root / INCOMING:
        return path.name.startswith(PREFIX)
    try:
        name_of(root, path)
    except (AssayError, ValueError, IndexError):
        return False
    return True
