"""repops against torch, side by side in one process: the cases of a table, by number of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import repops
import torch
from repops.tensors import Array
from rich.progress import track

from .report import RATIO, Table, factor, ms
from .timing import medians, ratio, take_turns

THREADS = (1, 2)
Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """The fastest of the alternatives ``theirs`` counts. ``check`` raises if ``ours`` computed something else."""

    family: str
    name: str
    ours: Work
    theirs: Sequence[Work]
    check: Work


def draw(*shape: int) -> torch.Tensor:
    """Return standard normal numbers that depend only on the shape, aligned as torch aligns."""
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)).clone()


def close(ours: Array, theirs: torch.Tensor, name: str) -> None:
    np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-3, atol=1e-2, err_msg=name)


def measure(name: str, cases: Iterable[Case], turns: int) -> Table:
    """Return milliseconds and torch's time over ours, with the geometric mean of each family at the end."""
    columns = [name.rstrip("s")]
    for threads in THREADS:
        columns += [f"{threads} thread{'s' * (threads > 1)}: ours", "torch", RATIO]
    table = Table(name, columns)
    found: dict[str, list[list[float]]] = {}
    with torch.no_grad():
        for case in track(list(cases), name):
            case.check()
            row, ratios = [case.name], []
            for threads in THREADS:
                torch.set_num_threads(threads)
                repops.set_num_threads(threads)
                ours, *theirs = take_turns([case.ours, *case.theirs], turns)
                best = min(theirs, key=lambda times: medians([times])[0])
                ratios.append(ratio(best, ours))
                row += [*map(ms, medians([ours, best])), factor(ratios[-1])]
            found.setdefault(case.family, []).append(ratios)
            table.add(*row)
    for family, many in found.items():
        if len(many) > 1:
            means = np.exp(np.log(many).mean(axis=0))
            table.add(
                f"**{family}, geometric mean of {len(many)}**",
                *(w for m in means for w in ("", "", factor(m))),
            )
    return table
