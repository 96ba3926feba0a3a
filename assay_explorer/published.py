"""A published run without a chain: what it claims, what receipts say of its intervals, its metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from referee_py.errors import Unavailable
from trainer_node.audit.address import Address
from trainer_node.audit.coverage import Coverage, files_in, merge
from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt import UNKNOWN
from trainer_node.local.bundle import Bundle
from trainer_node.local.metrics_file import RESERVED
from trainer_node.storage.store import Store

from . import curve, drawing, text
from .intervals import MAX_SHOWN, Interval, Intervals
from .operator import Graph
from .rendering import NotThere, Place, render

METRICS, MAX_METRICS_BYTES = "metrics.jsonl", 16 << 20
MAX_CURVES = 4


class RunPages:
    """Makes the page of one run. ``receipts``: folders of receipts, or files. Raises Unavailable, InvalidInput."""

    hosts: frozenset[str] = frozenset()

    def __init__(
        self,
        address: str,
        cache: Path,
        *,
        bundles: Sequence[Bundle] = (),
        receipts: Sequence[Path] = (),
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        self.hosts = hosts
        at = Address(address)
        self._address = address
        self._run = PublishedRun(at, Store(cache, sync=False))
        self._coverage = merge(self._run, files_in(receipts)) if receipts else None
        self._series = _metrics(at)
        names = next(
            (one.names for one in bundles if one.program.file_hash().hex() == self._run.claim.program_file),
            None,
        )
        self._graph = Graph(self._run.program, names) if names is not None else None

    def close(self) -> None:
        """Nothing is open."""

    def failure(self, title: str, reason: str) -> str:
        return render("failure.html", title, Place(), reason=reason)

    def home(self, page: int = 1) -> str:
        """The run."""
        if page != 1:
            raise NotThere("a run has one page")
        claim, run = self._run.claim, self._run
        strip = strip_of(run, self._coverage)
        return render(
            "run.html",
            f"Run {claim.name[:60]}",
            Place(),
            address=self._address,
            claim=claim,
            terms=run.terms,
            strip=strip,
            strip_chart=drawing.intervals(strip),
            curve=curve.draw(self._series, claim.steps) if self._series else None,
            coverage=self._coverage,
            chances=_chances(self._coverage),
            differences=_differences(self._coverage),
            modules=self._graph.modules()[0] if self._graph is not None else [],
            checkpoints=[
                (run.span(number)[1], leaf) for number, leaf in enumerate(run.tree.leaves[:MAX_SHOWN], 1)
            ],
        )


def strip_of(run: PublishedRun, coverage: Coverage | None) -> Intervals:
    """Return what receipts say of each interval: wrong, checked, sampled (by one auditor), or unseen."""
    said: dict[int, tuple[str, str]] = {}
    for number, known in (coverage.intervals if coverage else {}).items():
        if known.differ:
            said[number] = "disputed", f"{text.plural(len(known.differ), 'auditor')} found it wrong"
        elif known.agreed:
            kind = "checked" if known.auditors > 1 else "sampled"
            said[number] = kind, f"by {text.plural(known.auditors, 'auditor')}"
    size = -(-run.count // MAX_SHOWN)
    order = ("disputed", "unseen", "sampled", "checked")
    shown = []
    for low in range(1, run.count + 1, size):
        numbers = range(low, min(low + size, run.count + 1))
        kinds = [said.get(number, ("unseen", ""))[0] for number in numbers]
        kind = next(kind for kind in order if kind in kinds)
        by = next((said[number][1] for number in numbers if number in said and said[number][0] == kind), "")
        shown.append(Interval(low, run.span(low)[0] + 1, run.span(numbers[-1])[1], kind, by))
    counts = {
        kind: sum(what == kind for what, _ in said.values()) for kind in ("checked", "sampled", "disputed")
    }
    counts["unseen"] = run.count - len(said)
    return Intervals(tuple(shown), run.count, counts, "")


def _chances(coverage: Coverage | None) -> list[tuple[int, str]]:
    return [] if coverage is None else [(lies, f"{chance:.3g}") for lies, chance in coverage.chances()]


def _differences(coverage: Coverage | None) -> list[tuple[int, str, str]]:
    found = []
    for number, known in (coverage.intervals if coverage else {}).items():
        for auditor, receipt in known.differ.items():
            places = ("step", receipt.step), ("node", receipt.node), ("element", receipt.element)
            words = ", ".join(f"{what} {place}" for what, place in places if place != UNKNOWN)
            found.append((number, auditor, words or "another checkpoint follows"))
    return found[:100]


def _metrics(address: Address) -> list[curve.Series]:
    """Return the published metrics as curves. SAFETY: their publisher may have written anything."""
    try:
        data = address.read(METRICS, MAX_METRICS_BYTES)
    except Unavailable:
        return []
    found: dict[str, list[tuple[int, float]]] = {}
    for line in data.splitlines():
        try:
            row: Any = from_json(line)
        except ValueError:
            continue
        step = row.get("step") if isinstance(row, dict) else None
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 1 << 48:
            continue
        for name, value in row.items():
            known = name in found or len(found) < MAX_CURVES
            if name not in RESERVED and known and isinstance(value, int | float) and math.isfinite(value):
                found.setdefault(name, []).append((step, float(value)))
    return [(text.said(name, 40), points) for name, points in found.items() if len(points) > 1]
