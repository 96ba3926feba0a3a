"""The spaces that are searched: which honest party, how strangers begin, what they can do. `python -m tests.games.rows`
searches all and prints a line for each.

Three strangers with two accounts each are six accounts; since any account may claim once and refute at will, who of
them acts changes nothing, and a space is bounded by the number of their stakes (claims and refutations) and requests.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from .board import COARSE, FINE, Left, Times
from .roles import Challenger, Role, Sampler, Trainer
from .search import Search


@dataclass(frozen=True)
class Row:
    """``slots``, ``stakes``, ``requests``: those of strangers. ``takes_s``: seconds of a processor, about."""

    name: str
    role: Role
    times: Times
    stakes: int
    requests: int
    slow: bool = False

    def __str__(self) -> str:
        fineness = "a quarter of a period" if self.times == FINE else "half a period"
        return f"{self.name}; {self.stakes} stakes, {self.requests} requests, by {fineness}"


ROWS = [
    Row("sampler, both lies drawn", Sampler(1), FINE, 2, 0),
    Row("sampler, both lies drawn", Sampler(1), COARSE, 3, 0),
    Row("challenger", Challenger(1), FINE, 3, 0),
    Row("challenger", Challenger(2), COARSE, 3, 1),
    Row("trainer", Trainer(1), FINE, 3, 0),
    Row("trainer", Trainer(2), COARSE, 3, 1),
]


def searched(row: Row) -> Search:
    began = time.process_time()
    stated = isinstance(row.role, Sampler)
    search = Search(row.role, row.times, Left(row.stakes, row.requests), stated=stated, most=3).run()
    took = time.process_time() - began
    print(
        f"{row}: {search.games} games, {len(search.seen)} states, {took:.0f} s, "
        f"at most {search.longest} s of the job, violations: {len(search.violations)}"
    )
    return search


def main() -> None:
    failed = [row for row in ROWS if searched(row).violations]
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
