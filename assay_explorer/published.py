"""A published run without a chain: what it claims, what receipts say of its intervals, its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainer_node.audit.address import Address
from trainer_node.audit.certificate import MAX_EVIDENCE, NO_NAMES, Certificate, certify_run
from trainer_node.audit.coverage import Coverage, files_in, merge
from trainer_node.audit.parting import place_words
from trainer_node.audit.published import PublishedRun
from trainer_node.audit.receipt import UNKNOWN
from trainer_node.audit.run_diff import Compared, RunDiff, compare
from trainer_node.local.bundle import Bundle
from trainer_node.storage.store import Store

from . import curve, drawing, text
from .artifacts import Shelf
from .beside import beside
from .certificate_pages import BUNDLE, content
from .graph_pages import graph_content, picture_of
from .intervals import MAX_SHOWN, Interval, Intervals
from .rendering import NotThere, Place, render
from .run_metrics import RunMetrics
from .shown_commands import shell
from .whole_graph import WholeGraph

PLACE = Place(chain=False)
MAX_DIFFERENCES, MAX_CHECKPOINTS = 100, 32


class RunPages:
    """Makes the pages of one run. ``receipts``: folders of receipts, or files; ``against``: what it is compared with.

    Raises Unavailable, InvalidInput.
    """

    hosts: frozenset[str] = frozenset()

    def __init__(
        self,
        address: str,
        cache: Path,
        *,
        bundles: Sequence[Bundle] = (),
        receipts: Sequence[Path] = (),
        against: str | None = None,
        hosts: frozenset[str] = frozenset(),
    ) -> None:
        self.hosts, self._cache, self._against, self._receipts = hosts, cache, against, list(receipts)
        self._shelf = Shelf()
        at = Address(address)
        self._address = address
        self._run = PublishedRun(at, Store(cache, sync=False))
        files = files_in(receipts)
        self._unread = max(0, len(files) - MAX_EVIDENCE)
        self._coverage = merge(self._run, files[:MAX_EVIDENCE]) if receipts else None
        self._metrics = RunMetrics.read(at)
        mine = (one for one in bundles if one.program.file_hash().hex() == self._run.claim.program_file)
        bundle = next(mine, None)
        self._names = bundle.names if bundle is not None else NO_NAMES
        self._graph = WholeGraph(self._run.program, bundle.names) if bundle is not None else None
        self._beside = beside(bundle.labels) if bundle is not None else None

    def close(self) -> None:
        self._shelf.close()

    def failure(self, title: str, reason: str) -> str:
        return render("failure.html", title, PLACE, reason=reason)

    def home(self, page: int = 1) -> str:
        """The run."""
        if page != 1:
            raise NotThere("the list of runs has one page")
        claim, run = self._run.claim, self._run
        strip, series = strip_of(run, self._coverage), self._metrics.series()
        modules, fewer = self._graph.modules() if self._graph is not None else ([], 0)
        return render(
            "run.html",
            f"Run {claim.name[:60]}",
            PLACE,
            address=self._address,
            claim=claim,
            terms=run.terms,
            strip=strip,
            strip_chart=drawing.intervals(strip),
            curve=curve.draw(series, claim.steps) if series else None,
            metrics=self._metrics.summaries(),
            beside=self._beside,
            coverage=self._coverage,
            chances=_chances(self._coverage),
            differences=_differences(self._coverage),
            modules=modules,
            fewer=fewer,
            checkpoints=[
                (run.span(number)[1], leaf)
                for number, leaf in enumerate(run.tree.leaves[:MAX_CHECKPOINTS], 1)
            ],
            audit=shell("audit", self._address, "--root", claim.root),
            explore=shell("explorer", "--run", self._address, "--receipts", "RECEIPTS"),
            max_differences=MAX_DIFFERENCES,
            unread=self._unread,
            most_read=MAX_EVIDENCE,
            against=self._against,
            certified=certify_run(run, self._coverage, self._names) if self._coverage is not None else None,
        )

    def whole(self, node: int | None, q: str, group: int | None) -> str:
        """The whole graph of its program."""
        content = graph_content(self._graph_only(), node, q, group, "/graph")
        return render("graph.html", "Graph", PLACE, reason="", pending=False, **content)

    def picture(self, group: int | None) -> bytes:
        """Return the data of the whole graph, or of a group of it. Raises NotThere."""
        return picture_of(self._graph_only(), group)

    def _graph_only(self) -> WholeGraph:
        if self._graph is None:
            raise NotThere("the names of this program's operators are not known; add --bundle")
        return self._graph

    def run_metrics(self) -> RunMetrics:
        """Return what is published of its metrics."""
        return self._metrics

    def certificate(self) -> str:
        """What receipts say of the run, and what they do not."""
        flags = [word for path in self._receipts for word in ("--receipts", path)]
        command = shell("run", "certificate", self._address, *flags, *(BUNDLE if self._names.slots else ()))
        more = content(self.run_certificate(), self._run.claim.name or "a run", "/", command)
        return render("certificate.html", "Certificate", PLACE, **more)

    def run_certificate(self) -> Certificate:
        """Return the certificate of the run. Raises NotThere without receipts."""
        if self._coverage is None:
            raise NotThere("no receipts were given, so nothing can be certified; add --receipts")
        return certify_run(self._run, self._coverage, self._names)

    def compare(self) -> str:
        """The run beside another one, a claim or a bundle."""
        if self._against is None:
            raise NotThere("no second run was given; add --against")
        second, names = self._against, self._names

        def make() -> RunDiff:
            pair = (Compared.open(text, self._cache) for text in (self._address, second))
            return compare(*pair, names=names)

        got = self._shelf.get("compare", make)
        diff = got.value
        return render(
            "compare.html",
            "Comparison",
            PLACE,
            live="/compare" if got.pending else None,
            first=self._address,
            second=second,
            diff=diff,
            reason=got.reason,
            words=place_words(diff.place) if diff is not None and diff.place is not None else "",
            rows=[(kind, one) for kind, found in diff.configuration.items() for one in found] if diff else [],
            most=MAX_DIFFERENCES,
            again=shell("run", "diff", self._address, second),
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
        seen = len(kinds) - kinds.count("unseen")
        if kind == "unseen" and seen:
            kind, by = "partly", f"{seen} of {len(kinds)} intervals checked"
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
            places = ("step", receipt.step), ("operator", receipt.node), ("element", receipt.element)
            words = ", ".join(f"{what} {place}" for what, place in places if place != UNKNOWN)
            found.append((number, auditor, words or "another checkpoint follows"))
    return found
