"""Lies that a role refutes: what a sampler tells the participant that plays for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..chain import JobView
from ..run.refutation import Refuted


@dataclass(frozen=True, slots=True)
class Refutes:
    """Lies that a node refutes which checks parts; by default none. ``now`` maps a job and an instant of the chain to
    what was found wrong and can be played, and what of it is to be refuted; ``soon`` to the instant by which the job
    should be looked at again, if one of these lies may be refuted by us then, or later; else to None."""

    now: Callable[[JobView, int], tuple[list[Refuted], list[Refuted]]] = lambda *_: ([], [])
    soon: Callable[[JobView, list[Refuted], int], float | None] = lambda *_: None


NONE = Refutes()
