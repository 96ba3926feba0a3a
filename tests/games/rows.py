"""The spaces that are searched: which honest party, how strangers begin, what they can do.

Three strangers with two accounts each are six accounts; since any account may claim once and refute at will, who of
them acts changes nothing, and a space is bounded by the number of their stakes (claims and refutations) and requests.
Each further stake makes ten times as many states of a sampler, which knows more about each run than others do: its
spaces end at four stakes where data may be withheld, at five where all are served.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from .board import COARSE, FINE, Left, Times
from .roles import Challenger, Role, Sampler, Trainer
from .search import Search


@dataclass(frozen=True)
class Row:
    """``stakes``, ``requests``: those of strangers, at most. NOTE: slots are stakes, too."""

    name: str
    role: Role
    times: Times
    stakes: int
    requests: int
    slow: bool = False

    @property
    def bound(self) -> int:
        """The most seconds from the first position to the end: the phases, and for each stake or request a match, the
        period after it, and the one in which data can be requested (docs/economics.md, section 3)."""
        times = self.times
        each = times.match + 2 * times.period
        reopened = times.period + times.match
        return (
            3 + times.period + reopened + (self.stakes + 1) * each + self.requests * (2 * times.period + 20)
        )

    def __str__(self) -> str:
        fineness = f"{self.times.period} s a period"
        return f"{self.name}; {self.stakes} stakes, {self.requests} requests, {fineness}"


REFUTER = Sampler(2, withholds=False, replays=False)
"""A sampler for which a whole run is too much, where all data are served."""

ROWS = [
    Row("sampler, one slot", Sampler(1), FINE, 2, 0),
    Row("sampler, two slots", Sampler(2), COARSE, 3, 0, slow=True),
    Row("sampler, two slots", Sampler(2), COARSE, 2, 1),
    Row("sampler, two slots, refutations alone", REFUTER, COARSE, 3, 0),
    Row("challenger, one slot", Challenger(1), FINE, 3, 0),
    Row("challenger, two slots", Challenger(2), COARSE, 3, 0),
    Row("challenger, two slots", Challenger(2), COARSE, 2, 1),
    Row("trainer, one slot", Trainer(1), FINE, 2, 0),
    Row("trainer, two slots", Trainer(2), COARSE, 2, 1),
    Row("sampler, one slot", Sampler(1), FINE, 4, 0, slow=True),
    Row("sampler, three slots", Sampler(3), COARSE, 4, 0, slow=True),
    Row("sampler, two slots", Sampler(2), COARSE, 3, 1, slow=True),
    Row("challenger, two slots", Challenger(2), FINE, 4, 0, slow=True),
    Row("sampler, two slots", Sampler(2), COARSE, 4, 0, slow=True),
    Row("sampler, two slots, refutations alone", REFUTER, COARSE, 5, 0, slow=True),
    Row("challenger, three slots", Challenger(3), COARSE, 6, 0, slow=True),
    Row("challenger, two slots", Challenger(2), COARSE, 3, 1, slow=True),
    Row("trainer, two slots", Trainer(2), FINE, 4, 0, slow=True),
    Row("trainer, three slots", Trainer(3), COARSE, 6, 0, slow=True),
    Row("trainer, two slots", Trainer(2), COARSE, 3, 1, slow=True),
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
