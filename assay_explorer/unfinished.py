"""A run that is still computed, in the folder of `assay program run --out`: its page until there is a claim."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pydantic_core import from_json

from referee_py.errors import InvalidInput, Unavailable
from trainer_node.audit.address import Address
from trainer_node.audit.certificate import Certificate
from trainer_node.local.claim_file import CLAIM, MAX_CLAIM_BYTES
from trainer_node.observe.pace import left_words, rate_words

from . import curve, text
from .published import RunPages
from .rendering import NotThere, Place, render
from .run_metrics import RunMetrics

PLACE = Place(chain=False)
RUN, MAX_RUN_BYTES = "run.json", 1 << 20
QUIET_S = 60
"""Seconds without a new line after which the page says for how long there was none."""


class UnfinishedPages:
    """Makes the pages of a run that has begun; those of `RunPages`, which ``make`` returns, once it has a claim.

    Raises Unavailable, InvalidInput for an address that is no run.
    """

    def __init__(
        self,
        address: str,
        make: Callable[[], RunPages],
        hosts: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.hosts, self._clock = hosts, clock
        self._text, self._at, self._make = address, Address(address), make
        self._steps = _steps(self._at)
        self._done: RunPages | None = None
        self._seen, self._since = 0, clock()

    def close(self) -> None:
        if self._done is not None:
            self._done.close()

    def failure(self, title: str, reason: str) -> str:
        return render("failure.html", title, PLACE, reason=reason)

    def home(self, page: int = 1) -> str:
        """The run, as far as it is."""
        if (done := self._finished()) is not None:
            return done.home(page)
        if page != 1:
            raise NotThere("the list of runs has one page")
        found = self.run_metrics()
        if found.step != self._seen:
            self._seen, self._since = found.step, self._clock()
        quiet = (self._clock() - self._since) // QUIET_S
        pace, series = found.pace(self._steps), found.series()
        return render(
            "unfinished.html",
            "A run",
            PLACE,
            live="/",
            address=self._text,
            step=found.step,
            steps=self._steps,
            pace=f"{rate_words(pace.rate)}, {left_words(pace.left_s)}" if pace.rate is not None else "",
            quiet=text.plural(int(quiet), "minute") if quiet else "",
            latest=found.latest(),
            metrics=found.summaries(),
            curve=curve.draw(series, self._steps) if series else None,
        )

    def run_metrics(self) -> RunMetrics:
        """Return the metrics by now."""
        return RunMetrics.read(self._at) if self._done is None else self._done.run_metrics()

    def whole(self, node: int | None, q: str, group: int | None) -> str:
        """The whole graph, once the run has a claim."""
        return self._finished_only().whole(node, q, group)

    def picture(self, group: int | None) -> bytes:
        """Return the data of the whole graph, once the run has a claim. Raises NotThere."""
        return self._finished_only().picture(group)

    def certificate(self) -> str:
        """The certificate, once the run has a claim."""
        return self._finished_only().certificate()

    def run_certificate(self) -> Certificate:
        """Return the certificate, once the run has a claim. Raises NotThere."""
        return self._finished_only().run_certificate()

    def compare(self) -> str:
        """The run beside another one, once it has a claim."""
        return self._finished_only().compare()

    def _finished_only(self) -> RunPages:
        done = self._finished()
        if done is None:
            raise NotThere("the run is not done: it has no claim yet")
        return done

    def _finished(self) -> RunPages | None:
        if self._done is None and claimed(self._at):
            self._done = self._make()
        return self._done


def has_begun(address: str) -> bool:
    """Return whether there is a run at an address that has begun, and has no claim yet. Raises InvalidInput."""
    at = Address(address)
    try:
        at.read(RUN, MAX_RUN_BYTES)
    except Unavailable:
        return False
    return not claimed(at)


def claimed(at: Address) -> bool:
    """Return whether a run has a claim."""
    try:
        at.read(CLAIM, MAX_CLAIM_BYTES)
    except Unavailable:
        return False
    return True


def _steps(at: Address) -> int:
    """Return how many steps a run has that has begun. SAFETY: the file may be anybody's."""
    try:
        told: Any = from_json(at.read(RUN, MAX_RUN_BYTES))
        steps = told["steps"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(f"{RUN} at {at.text} does not say what is run: {error!r}") from error
    if not isinstance(steps, int) or isinstance(steps, bool) or not 0 < steps < 1 << 48:
        raise InvalidInput(f"{RUN} at {at.text}: {str(steps)[:40]} is no number of steps")
    return steps
