"""Sizes of the logs of a step, and the share of elements with an entry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay_capture.capture import build
from referee_py.program.modes import Bounds, Rounding
from referee_py.rounding import dense
from referee_py.rounding.band import WRITTEN_WITHIN
from referee_py.rounding.entries import Log
from referee_py.rounding.evaluate import Evaluation
from referee_py.rounding.log_source import MemoryLogs
from referee_py.rounding.primitives import FIXED_TAU, NOT_LOGGED, UP, log, quantum
from referee_py.rounding.rounded_output import radius_at
from referee_py.rounding.step_log import compress

from .report import Table
from .rounding import PAPER_LOGS, Replayer, recipe_of
from .timing import one_thread

MODELS = ("gpt2-small", "resnet50", "vgg11", "logistic")
SAMPLE = 1 << 18
"""Elements of a node from which the expected share is estimated."""


@dataclass
class _Dense:
    """The log as the paper writes it, with its fixed threshold, of every node that has a log."""

    bits: int
    elements: int = 0
    packed: int = 0
    sent: int = 0
    expected: float = 0.0

    def watch(self, _: int, evaluation: Evaluation) -> None:
        x = evaluation.x.reshape(-1)
        digits = np.concatenate(
            [log(part, self.bits, FIXED_TAU) for part in np.array_split(x, x.size // SAMPLE + 1)]
        )
        narrow, none = np.flatnonzero(digits != NOT_LOGGED), np.zeros(0, np.int64)
        packed = dense.pack(Log(x.size, narrow, digits[narrow] == UP, none, np.zeros(0)))
        self.elements += x.size
        self.packed += len(packed)
        self.sent += len(compress(packed))
        chosen = np.arange(0, x.size, x.size // SAMPLE + 1)
        finite = np.where(np.isfinite(x[chosen]), x[chosen], 0.0)
        width = 2 * WRITTEN_WITHIN * radius_at(evaluation, chosen) / quantum(finite, self.bits)
        self.expected += float(np.minimum(width, 1).mean()) * x.size if chosen.size else 0.0


def measure(text: Path | None) -> Table:
    """Measure the second step."""
    columns = [
        "model",
        "b",
        "elements",
        "dense",
        "+ zstd",
        "paper: + zip",
        "sparse, proven",
        "dense / sparse",
    ]
    columns += ["sparse, probable", "dense / sparse", "in the band, of a million", "expected"]
    table = Table("rounding-logs", columns)
    with one_thread():
        for name in MODELS:
            bundle = build(recipe_of(name, text))
            for bits in (32, 26):
                paper, sizes, shares = _Dense(bits), [], []
                for bounds in Bounds:
                    log_source = MemoryLogs()
                    party = Replayer.of(bundle, Rounding(bits, bounds), log_source)
                    party.step()
                    party.backend.watch = paper.watch if bounds is Bounds.PROVEN else None
                    party.checkpoint()  # NOTE: node by node, so that every evaluation is seen
                    found = log_source.get(2)
                    assert found is not None
                    sizes.append(len(found.encode()))
                    shares.append(sum(each.read().count for each in found.nodes.values()))
                table.add(
                    *(
                        name,
                        str(bits),
                        f"{paper.elements / 1e6:.1f} M",
                        _size(paper.packed),
                        _size(paper.sent),
                    ),
                    *(
                        PAPER_LOGS.get(name, {}).get(bits, ""),
                        _size(sizes[0]),
                        f"{paper.sent / sizes[0]:.0f}",
                    ),
                    *(_size(sizes[1]), f"{paper.sent / sizes[1]:.0f}"),
                    *(
                        f"{shares[0] / paper.elements * 1e6:.1f}",
                        f"{paper.expected / paper.elements * 1e6:.1f}",
                    ),
                )
    return table


def _size(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.1f} kB"
