"""Selection of the intervals to check, and the probability that a lie would be among them.

Of `n` intervals, `lies` are wrong and `m` are drawn without replacement. None of the wrong ones is drawn with the
chance

    miss = C(n - lies, m) / C(n, m)         (hypergeometric distribution, no success in m draws)
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from referee_py.errors import InvalidInput

_PART = re.compile(r"([1-9][0-9]{0,17})(?:-([1-9][0-9]{0,17}))?")


@dataclass(frozen=True)
class Selection:
    """Intervals by number, ascending and from 1, and in words why these."""

    intervals: tuple[int, ...]
    why: str


def missed(count: int, lies: int, drawn: int) -> float:
    """Return the chance that none of `lies` wrong intervals is among `drawn` of `count`.

    >>> missed(10, 1, 5)
    0.5
    """
    chance = 1.0
    for k in range(min(lies, count)):
        chance *= max(0, count - drawn - k) / (count - k)
    return chance


def needed(count: int, lies: int, detect: float) -> int:
    """Return how many of `count` intervals find one of `lies` wrong ones with at least the chance `detect`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if 1 - missed(count, lies, middle) >= detect:
            high = middle
        else:
            low = middle + 1
    return low


def select(text: str, count: int, detect: float, lies: int, seed: int | None) -> Selection:
    """Return the intervals that `text` names: numbers and ranges ("3,7-9"), "all" or "sample".

    A sample is drawn from `seed`, or from the system's random numbers: nobody who does not know the seed can foresee
    it. Raises InvalidInput.
    """
    if text == "all":
        return Selection(tuple(range(1, count + 1)), f"all {count} intervals")
    if text == "sample":
        return _sample(count, detect, lies, seed)
    chosen: set[int] = set()
    for part in text.split(","):
        found = _PART.fullmatch(part.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last <= count:
            raise InvalidInput(
                f"intervals {text[:80]!r}: name some of 1 to {count}, as 3,7-9, or all, or sample"
            )
        chosen.update(range(first, last + 1))
    return Selection(tuple(sorted(chosen)), f"{len(chosen)} of {count} intervals, as named")


def _sample(count: int, detect: float, lies: int, seed: int | None) -> Selection:
    if not 0 < detect < 1:
        raise InvalidInput(
            f"--detect {detect}: a chance above 0 and below 1; --intervals all finds every lie"
        )
    if not 1 <= lies <= count:
        raise InvalidInput(f"--lies {lies}: from 1 to the number of intervals, {count}")
    drawn = needed(count, lies, detect)
    source = random.SystemRandom() if seed is None else random.Random(seed)
    chosen = tuple(sorted(source.sample(range(1, count + 1), drawn)))
    miss = missed(count, lies, drawn)
    # NOTE: a chance is not rounded up to 1.
    found = f"{1 - miss:.4g}" if miss > 1e-4 or not miss else f"1 - {miss:.2g}"
    number = "one wrong interval" if lies == 1 else f"at least one of {lies} wrong intervals"
    return Selection(chosen, f"{drawn} of {count} intervals find {number} with the chance {found}")
