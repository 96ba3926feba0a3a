"""Matrix products in one thread, compared with the peak of the processor."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import repops
import torch

from .contest import close, draw
from .contractions import SQUARES
from .report import RATIO, Table, factor
from .timing import Work, medians, one_thread, ratio, take_turns

SOURCE = Path(__file__).with_name("fma.c")
ROUNDS = 10_000
FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")


class _Loop:
    """fma.c as a function: ``loop()`` does ``multiply_adds`` of them."""

    def __init__(self, folder: str) -> None:
        library = Path(folder, "fma.so")
        subprocess.run(["cc", *FLAGS, str(SOURCE), "-o", str(library)], check=True)
        self._run = ctypes.CDLL(str(library)).multiply_add
        self._run.restype = ctypes.c_long
        self._run.argtypes = (ctypes.c_long, ctypes.c_float, ctypes.c_void_p)
        self._kept = (ctypes.c_float * 24)(*range(24))
        self.multiply_adds = int(self())

    def __call__(self) -> int:
        return int(self._run(ROUNDS, 0.5, self._kept))


def measure(turns: int) -> Table:
    """Return GFLOP/s of CPU time, and what share of a loop of multiply-adds that is, for square products."""
    table = Table("peak", ["product", "peak GFLOP/s", "ours", "of the peak", "torch", "of the peak", RATIO])
    execute = repops.backend("cpu").execute
    works: list[Work] = []
    for m, k, n in SQUARES:
        a, b = draw(m, k), draw(k, n)
        arrays = [a.numpy(), b.numpy()]
        close(execute("mm", arrays, {})[0], a @ b, f"{m} x {k} x {n}")
        works += [partial(execute, "mm", arrays, {}), partial(torch.mm, a, b)]
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        loop = _Loop(folder)
        # All take turns, so that a busy minute of the machine is not one product's.
        peak, *times = take_turns([loop, *works], turns, time.process_time)
    for (m, k, n), ours, theirs in zip(SQUARES, times[::2], times[1::2], strict=True):
        words = [f"{loop.multiply_adds * 2e-9 / medians([peak])[0]:.0f}"]
        for found in (ours, theirs):
            share = ratio(peak, found) * m * k * n / loop.multiply_adds
            words += [f"{m * k * n * 2e-9 / medians([found])[0]:.0f}", f"{share:.0%}"]
        table.add(f"{m} x {k} x {n}", *words, factor(ratio(theirs, ours)))
    return table
