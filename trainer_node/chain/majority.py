"""The majority answer of our chain's endpoints; with one endpoint, its answer.

SAFETY: an endpoint can lie in any answer, and be slow with any. So where there are several, no answer of one alone
counts while others answer; see docs/decisions.md, 130. One that is apart (`Endpoints.apart`) is not asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ..errors import ChainError, Reverted, RpcRefused, RpcUnavailable
from .endpoints import Endpoints

T = TypeVar("T")


def answers(
    endpoints: Endpoints,
    act: Callable[[], T],
    mark: Callable[[T], Any] | None = lambda answer: answer,
    *,
    for_good: bool = False,
    alone: bool = False,
) -> list[T]:
    """Return what the endpoints give, that of the serving one first. Raises if more refuse; on a tie, the serving one
    decides. Those that do not answer, or not with sense, do not count.

    Nobody waits for the others once most give the same, by ``mark``: one that is slow holds up nothing. Without a mark
    all are heard. Until most have answered alike, of three or more, or ``for_good`` of two as well, all are waited for
    as long as their requests may take: one alone must not decide because it is quick. ``alone``: one that can answer
    decides where the others refuse, as where they do not answer.
    """
    most = len(endpoints.every) // 2 + 1

    def silent(one: object) -> bool:
        return _silent(one) or (alone and isinstance(one, RpcRefused))

    def enough(found: Iterable[T | ChainError]) -> bool:
        if mark is None:
            return False
        alike = Counter(
            type(one) if isinstance(one, ChainError) else mark(one) for one in found if not silent(one)
        )
        return any(count >= most for count in alike.values())

    def hurries(found: Iterable[T | ChainError]) -> bool:
        heard = [one for one in found if not silent(one)]
        return len(heard) >= most if mark is None else enough(heard)

    ours = endpoints.ranked()
    asked = [endpoint for endpoint in ours if endpoint.ready or for_good]
    if not asked or (len(asked) < most and len(ours) > 2):
        # SAFETY: two that are slow are heard all the same, before the third one decides alone.
        asked = list(ours)
    asked.sort(key=lambda endpoint: endpoint is not endpoints.serving)
    patient = for_good or len(asked) > 2
    found = endpoints.each(lambda _: act(), asked, enough=enough, hurries=hurries if patient else None)
    heard = [found[endpoint] for endpoint in asked if endpoint in found]
    given = [answer for answer in heard if not isinstance(answer, ChainError)]
    errors = [answer for answer in heard if isinstance(answer, ChainError)]
    refused = [error for error in errors if isinstance(error, Reverted)]
    unable = [error for error in errors if not silent(error)]
    decides = not isinstance(heard[0], ChainError)
    # NOTE: nodes word failures of a call in many ways. One endpoint's error may be its own; that of most is the call's.
    if len(unable) < most and (len(given) > len(refused) or (decides and len(given) == len(refused))):
        return given
    raise (refused or unable or errors)[0]


def agreed(endpoints: Endpoints, act: Callable[[], T], *, what: str = "", alone: bool = False) -> T:
    """Return what most of those endpoints give that answer. On a tie it is what the serving one gives; but if
    ``what`` names a value to be kept, a tie raises RpcUnavailable. ``alone``: see `answers`."""
    return most_of(answers(endpoints, act, for_good=bool(what), alone=alone), what)


def most_of(found: Sequence[T], what: str = "") -> T:
    """Return what occurs most often; on a tie the first of these; but if ``what`` names a value to be kept,
    a tie raises RpcUnavailable."""
    counts = Counter(found)
    most = max(found, key=lambda one: counts[one])
    if what and list(counts.values()).count(counts[most]) > 1:
        told = ", ".join(str(one)[:80] for one in counts)
        raise RpcUnavailable(f"endpoints disagree about {what}: {told}")
    return most


def low(values: Iterable[int]) -> int:
    """Return the median of some numbers; of two in the middle, the lower."""
    ordered = sorted(values)
    return int(ordered[(len(ordered) - 1) // 2])


def high(values: Iterable[int]) -> int:
    """Return the median of some numbers; of two in the middle, the higher."""
    ordered = sorted(values)
    return int(ordered[len(ordered) // 2])


def _silent(answer: object) -> bool:
    """Return whether an endpoint has neither done nor refused what it was asked, or has answered without sense."""
    return isinstance(answer, ChainError) and not isinstance(answer, Reverted | RpcRefused)
