"""Hashing: tensors and trees, against hashlib on the same bytes."""

from __future__ import annotations

import hashlib

import numpy as np
import repops

from referee_py.commit import Tag, Tree, tensor_hash

from .report import Table
from .timing import medians, ratio, take_turns

MEGABYTES = 64
LEAVES = 1 << 16


def _hash(array: np.ndarray, threads: int) -> bytes:
    repops.set_num_threads(threads)
    return tensor_hash(array)


def measure(turns: int) -> Table:
    """Return the rates; hashlib has one thread."""
    array = np.random.default_rng(0).standard_normal(MEGABYTES * 250_000, dtype=np.float32)
    data = array.view(np.uint8).data
    leaves = [hashlib.sha256(number.to_bytes(4, "big")).digest() for number in range(LEAVES)]
    times = take_turns(
        [
            lambda: _hash(array, 1),
            lambda: _hash(array, 2),
            lambda: hashlib.sha256(data).digest(),
            lambda: Tree(Tag.RUN_TREE, leaves).root,
        ],
        turns,
    )
    tensor, two, plain, tree = medians(times)
    table = Table("commitments", ["what", "rate", "time"])
    for threads, seconds in (("one thread", tensor), ("two threads", two)):
        what = f"`tensor_hash` of {MEGABYTES} MB, {threads}"
        table.add(what, f"{MEGABYTES / seconds:.0f} MB/s", f"{seconds * 1e3:.0f} ms")
    table.add(
        "`hashlib.sha256` of the same, one thread", f"{MEGABYTES / plain:.0f} MB/s", f"{plain * 1e3:.0f} ms"
    )
    table.add("`tensor_hash` / `hashlib.sha256`, one thread", f"{ratio(times[2], times[0]):.2f}", "")
    table.add(f"`Tree` over {LEAVES} leaves", f"{LEAVES / tree / 1e6:.2f} M leaves/s", f"{tree * 1e3:.0f} ms")
    return table
