"""Compare the rule of the mode tc16 with what tensor cores gave: `python scripts/check_tensor_rows.py FOLDER`.

Each `.txt` of the folder has a block a line: 16 factors and 16 factors (bf16, 4 hex digits each), c and d (binary32, 8
hex digits), where d is what a device gave for c and the sum of the products. Words before these four are ignored, and
so are lines that begin with #. A NaN is a NaN, whatever its bits.

Prints a table: for each file the rows, and how many each implementation of the rule gets wrong. A file whose blocks
have another number of products is of a device with another rule, and is skipped. Exits with status 1 if a row is wrong
or no row was compared, with 2 if a file cannot be read as rows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from repops.host import tensor_core
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.reference.tensor_core import TERMS, block
from repops.tensors import Array, canonical

from referee_py.element import tensor as court

Rule = Callable[[Array, Array, Array], Array]


def rules() -> dict[str, Rule]:
    """Return the implementations of the rule: from factors (uint16, rows of 16) and c (uint32) to d (uint32)."""
    kernels = {f"C, {ISA_NAMES[isa]}": partial(tensor_core.blocks, isa=isa) for isa in range(BEST_ISA + 1)}
    return {"reference": block, **kernels, "court": judged}


def judged(a: Array, b: Array, c: Array) -> Array:
    """Return what the steps of a trial give for blocks, one after the other.

    NOTE: the twin's steps; tests/contracts/float/TensorBlock.t.sol compares the contract with rows and with the twin.
    """
    return np.array(
        [_judged(*row) for row in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)], np.uint32
    )


def _judged(left: list[int], right: list[int], c: int) -> int:
    pairs = list(zip(left, right, strict=True))
    e, flags = court.opened(c)
    for pair in pairs:
        e, flags = court.widen(e, flags, *pair)
    total = court.begun(e, 0, c)
    for pair in pairs:
        total = court.accumulate(e, total, *pair)
    return court.rounded(e, flags, total)


class Rows(NamedTuple):
    """Recorded blocks: factors as [rows, products], c and d."""

    a: Array
    b: Array
    c: Array
    d: Array


def _number(digits: str, width: int, path: Path) -> list[int]:
    if not digits or len(digits) % width:
        raise ValueError(f"{path}: {digits!r} is not a multiple of {width} digits")
    return [int(digits[at : at + width], 16) for at in range(0, len(digits), width)]


def read(path: Path) -> Rows:
    """Return the rows of a file. Raise ValueError if it has others, or none."""
    found: list[tuple[list[int], list[int], int, int]] = []
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        words = line.split()
        if len(words) < 4:
            raise ValueError(f"{path}: {line!r} is not a row")
        first, second, (c,), (d,) = (
            _number(word, 4 + 4 * (i > 1), path) for i, word in enumerate(words[-4:])
        )
        if len(first) != len(second) or (found and len(first) != len(found[0][0])):
            raise ValueError(f"{path}: rows differ in their number of products")
        found.append((first, second, c, d))
    if not found:
        raise ValueError(f"{path} has no rows")
    left, right, before, after = zip(*found, strict=True)
    a, b = (np.array(bits, np.uint16) for bits in (left, right))
    return Rows(a, b, np.array(before, np.uint32), np.array(after, np.uint32))


def wrong(rule: Rule, rows: Rows) -> int:
    """Return the number of rows that the rule computes differently."""
    computed, recorded = (
        canonical(bits.view(np.float32)).view(np.uint32)
        for bits in (rule(rows.a, rows.b, rows.c), rows.d.copy())
    )
    return int((computed != recorded).sum())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args(arguments).folder
    by_name, compared, bad = rules(), 0, 0
    print(f"{'file':28} {'rows':>7}  " + "  ".join(f"{name:>11}" for name in by_name))
    for path in sorted(folder.glob("*.txt")):
        try:
            rows = read(path)
        except ValueError as error:
            print(f"check_tensor_rows: {error}", file=sys.stderr)
            return 2
        count, products = rows.a.shape
        if products != TERMS:
            print(
                f"{path.name:28} {count:7}  skipped: blocks of {products} products, of another rule than {TERMS}"
            )
            continue
        found = [wrong(rule, rows) for rule in by_name.values()]
        compared, bad = compared + count, bad + sum(found)
        print(f"{path.name:28} {count:7}  " + "  ".join(f"{number:>5} wrong" for number in found))
    print(f"{compared} rows compared, {bad} results wrong")
    return 1 if bad or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
