"""Refusals of moves about a bounty: one class for each custom error of the contract, with the same name.

Those that it shares with jobs are in tests/model/refusals.py and referee_py/walk/refusals.py.
"""

from __future__ import annotations

from referee_py.walk.refusals import Refusal


class NothingFunded(Refusal):
    """A bounty of nothing, or one that nobody has funded."""


class AlreadyFunded(Refusal):
    """The sender has funded a bounty of this job (job, funder)."""


class BadShares(Refusal):
    """A bounty is for one watcher or more (shares)."""


class UnwatchableMode(Refusal):
    """Nobody but the trainer can know the root before the logs are revealed (mode)."""


class AlreadyWatching(Refusal):
    """The sender has committed to a root (job, watcher)."""


class NothingToShow(Refusal):
    """The sender has committed to nothing, or has shown it."""


class NothingToCollect(Refusal):
    """The account has committed to nothing, or has collected."""


class AlreadyDistributed(Refusal):
    """Who gets what of the bounty is known already (job, funder)."""
