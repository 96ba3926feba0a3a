"""Moves that no hash ties to the position that they were made for: other endpoints confirm the look first.

A match and a trial keep a hash of what is disputed, and moves show it. But where it lies (the interval of a run, the
element and the steps of its chain) the contract alone keeps. Most moves prove what they show against the hash; these
say in our own name what is at such a place, and cannot be taken back.

SAFETY: one false look of one endpoint would lose a match that is right. And others that are slow, or contradict for
ever, must not take our clock. A move that has waited for cheaper gas until half of it was left is still not sent
against a contradiction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from referee_py.game.state import Refine
from referee_py.trial import Answer, Post

from ..daemon.due import Due
from ..limits.waits import ALL_AGREE, NONE_CONTRADICTS
from ..stake.gas_patience import Slack

UNBOUND = (Refine, Post, Answer)


def confirmed_first(due: Due, moves: Iterable[object], slack: Slack) -> Due:
    """Return the transaction with these moves, which waits until others confirm the look if one of them needs it and
    there is time."""
    if slack.period is None or not any(isinstance(move, UNBOUND) for move in moves):
        return due
    left = slack.left / slack.period
    return replace(due, exposes=left > NONE_CONTRADICTS, urgent=left <= ALL_AGREE)
