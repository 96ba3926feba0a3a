"""Coverage of a run by the receipts of many auditors: the intervals that were checked, and by how many keys.

SAFETY: a key costs nothing, so a number of keys is not a number of people, and the liar may own all of them. Whoever
counts names the auditors that he believes.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from referee_py.errors import InvalidInput

from .interval import Verdict
from .published import PublishedRun
from .receipt import Receipt, difference
from .receipt_file import Signed
from .selection import missed

MAX_FILES = 1 << 20
LIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Numbers of wrong intervals for which the probability is reported."""


@dataclass
class Interval:
    """Receipts about one interval: addresses of auditors whose receipts match, and receipts that differ."""

    match: set[str] = field(default_factory=set)
    differ: dict[str, Receipt] = field(default_factory=dict)

    @property
    def auditors(self) -> int:
        """The number of auditors that say MATCH and never DIFFERS."""
        return len(self.match - self.differ.keys())

    @property
    def agreed(self) -> bool:
        """True if some auditor says MATCH, and none says DIFFERS."""
        return bool(self.match) and not self.differ


@dataclass
class Coverage:
    """The receipts about one run, merged.

    count      of the run's intervals; ``intervals`` has those that receipts are about, ascending
    refused    files and why
    files      interval, auditor and SHA-256 of each receipt that counts; ``newest``: the latest of their times
    left_out   auditor and SHA-256 of receipts about this run whose auditors are not counted
    """

    count: int
    intervals: dict[int, Interval]
    refused: list[tuple[str, str]]
    files: set[tuple[int, str, str]] = field(default_factory=set)
    newest: int = 0
    left_out: set[tuple[str, str]] = field(default_factory=set)

    @property
    def strangers(self) -> set[str]:
        """Auditors that are not counted."""
        return {auditor for auditor, _ in self.left_out}

    @property
    def contradictions(self) -> list[int]:
        """Intervals about which receipts say both, ascending."""
        return sorted(k for k, said in self.intervals.items() if said.match and said.differ)

    @property
    def different(self) -> list[int]:
        """Intervals that no auditor finds right and some find wrong, ascending."""
        return sorted(k for k, said in self.intervals.items() if said.differ and not said.match)

    @property
    def agreed(self) -> int:
        """The number of intervals that some auditor finds right and none finds wrong."""
        return sum(said.agreed for said in self.intervals.values())

    def chances(self) -> list[tuple[int, float]]:
        """Return the probability, by the number of wrong intervals, that none of them is among those agreed on.

        This is the hypergeometric distribution, exactly: of all equally likely places of the wrong intervals, the share
        that lies outside. It supposes that the auditors drew without regard to the places, and that they tell the
        truth. Once some interval is found wrong, it says nothing about the others.
        """
        found = []
        for lies in LIES:
            if lies > self.count:
                break
            found.append((lies, missed(self.count, lies, self.agreed)))
            if found[-1][1] == 0:
                break
        return found

    def spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield (first, last, auditors) of intervals in a row with the same number of auditors, ascending; a contested
        interval counts none."""
        numbers = range(1, self.count + 1)
        for auditors, group in groupby(numbers, lambda k: self._auditors(k)):
            found = list(group)
            yield found[0], found[-1], auditors

    def _auditors(self, interval: int) -> int:
        said = self.intervals.get(interval)
        return said.auditors if said is not None and said.agreed else 0


def merge(run: PublishedRun, paths: Sequence[Path], auditors: frozenset[str] | None = None) -> Coverage:
    """Merge the receipts in files. A file that is not a receipt about this run is reported, and does not count.

    ``auditors``: the checksummed addresses that count; all if None. Raises InvalidInput for too many files.

    INVARIANT: the same set of receipts gives the same coverage, whatever their files are called, and however often one
    is there: of several by an auditor that find an interval wrong, the one with the lowest SHA-256 is told.
    """
    found: dict[int, Interval] = defaultdict(Interval)
    refused: list[tuple[str, str]] = []
    lowest: dict[tuple[int, str], str] = {}
    coverage = Coverage(run.count, {}, refused)
    for path in _limited(paths):
        try:
            signed = Signed.read(path)
            receipt = signed.receipt
        except (InvalidInput, OSError) as error:
            refused.append((str(path), str(error)))
            continue
        digest, of = hashlib.sha256(signed.to_bytes()).hexdigest(), (receipt.interval, receipt.auditor)
        other = difference(receipt, run)
        if other is not None:
            refused.append((str(path), other))
        elif auditors is not None and receipt.auditor not in auditors:
            coverage.left_out.add((receipt.auditor, digest))
        else:
            if receipt.verdict == Verdict.MATCH:
                found[receipt.interval].match.add(receipt.auditor)
            elif digest <= lowest.setdefault(of, digest):
                found[receipt.interval].differ[receipt.auditor] = receipt
                lowest[of] = digest
            coverage.files.add((*of, digest))
            coverage.newest = max(coverage.newest, receipt.time)
    coverage.intervals.update(sorted(found.items()))
    return coverage


def files_in(places: Iterable[Path]) -> list[Path]:
    """Return files, and those with the ending .json directly in folders, sorted. Raises InvalidInput."""
    found: list[Path] = []
    for place in places:
        if not place.exists():
            raise InvalidInput(
                f"{place} does not exist; name receipts, or a folder of them, as an audit with --keystore KEY writes it"
            )
        found += sorted(place.glob("*.json")) if place.is_dir() else [place]
    return found


def _limited(paths: Sequence[Path]) -> Sequence[Path]:
    if len(paths) > MAX_FILES:
        raise InvalidInput(f"{len(paths)} files; the limit is {MAX_FILES}: name fewer folders")
    return paths
