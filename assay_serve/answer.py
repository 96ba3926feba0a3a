"""One answer while it is made: its parameters, its tokens and what they say, and where it ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array

UNFINISHED = "\N{REPLACEMENT CHARACTER}"
"""Letter that a decoder writes for bytes of a letter that is not complete."""
CONTEXT = 8
"""Tokens before the newest that are decoded with it, because some tokenizers join words by what is before them."""


class End(StrEnum):
    """Reasons for which an answer ends."""

    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True)
class Parameters:
    """Numbers that a draw depends on besides the scores. Temperature and top_p are values of f32."""

    temperature: float
    top_k: int
    top_p: float
    seed: int
    """Number below 2^64."""

    def slots(self) -> dict[str, int | float]:
        """Return the slots of a row by name. NOTE: i64 holds the seed as a number modulo 2^64."""
        seed = self.seed - (1 << 64) if self.seed >> 63 else self.seed
        return {"temperature": self.temperature, "top_k": self.top_k, "top_p": self.top_p, "seed": seed}


@dataclass(frozen=True)
class Written:
    """A token of an answer: what it is, and what the model gave each token in its place."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...]
    """The likeliest tokens of the place, with their log-probabilities."""
    step: bytes
    """TENSOR hash of the log-probabilities of all tokens."""


@dataclass(frozen=True)
class Piece:
    """Addition to an answer: text that no stop can take back, the tokens since the piece before it, and its end."""

    text: str
    written: tuple[Written, ...]
    end: End | None
    failure: str = ""
    """Why there is no more, if not because it has ended."""


class Words(Protocol):
    """The text of tokens: a `Model`."""

    def text_of(self, tokens: Sequence[int]) -> str: ...


@dataclass
class Answer:
    """The tokens of one answer. ``tell`` gets each piece, in the thread of the engine; it must not wait."""

    words: Words
    prompt: tuple[int, ...]
    parameters: Parameters
    most: int
    """The most tokens that it may have."""
    stops: tuple[str, ...]
    ends: frozenset[int]
    tell: Callable[[Piece], None]
    alternatives: int = 0
    written: list[Written] = field(default_factory=list)
    text: str = ""
    end: End | None = None
    cancelled: bool = False
    _told: int = 0
    _untold: list[Written] = field(default_factory=list)
    _fixed: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> list[int]:
        return [one.token for one in self.written]

    def take(self, token: int, logprobs: Array) -> bool:
        """Take the next token; return whether it is the last."""
        one = written_of(token, logprobs, self.alternatives)
        if math.isnan(one.logprob):
            self.fail("the model's scores are not numbers")
            return True
        self.written.append(one)
        self._untold.append(one)
        self.text = self._text()
        cut = min((at for stop in self.stops if (at := self.text.find(stop)) >= 0), default=-1)
        if cut >= 0:
            self.text, self.end = self.text[:cut], End.STOP
        elif token in self.ends:
            self.end = End.STOP
        elif len(self.written) >= self.most:
            self.end = End.LENGTH
        self._say()
        return self.end is not None

    def finish(self) -> None:
        """End it here, because its time is over."""
        self.end = End.LENGTH
        self._say()

    def fail(self, why: str) -> None:
        """End it without a result."""
        self.cancelled = True
        self.tell(Piece("", (), None, why))

    def _say(self) -> None:
        safe = len(self.text) if self.end else self._safe()
        if safe > self._told or self.end:
            more, self._told = self.text[self._told : safe], max(safe, self._told)
            piece = Piece(more, tuple(self._untold), self.end)
            self._untold = []
            self.tell(piece)

    def _safe(self) -> int:
        """Return how much of the text stays, whatever comes: not what may be the beginning of a stop or of a letter."""
        whole = self.text.rstrip(UNFINISHED)
        held = 0
        for stop in self.stops:
            size = next(
                (n for n in range(min(len(stop) - 1, len(whole)), 0, -1) if whole.endswith(stop[:n])), 0
            )
            held = max(held, size)
        return len(whole) - held

    def _text(self) -> str:
        """Return the whole text. What is far behind is not decoded again, so a token takes the same time anywhere."""
        start, length = self._fixed
        tokens = self.tokens
        recent = self.words.text_of(tokens[start:])
        text = self.text[:length] + recent
        if len(tokens) - start > 4 * CONTEXT and not text.endswith(UNFINISHED):
            # NOTE: decoding continues from a cut only where that gives the same text: not inside a letter.
            for cut in range(len(tokens) - CONTEXT, len(tokens)):
                tail = self.words.text_of(tokens[cut:])
                if text.endswith(tail) and UNFINISHED not in tail:
                    self._fixed = cut, len(text) - len(tail)
                    break
        return text


def written_of(token: int, logprobs: Array, alternatives: int) -> Written:
    """Return a token with its log-probabilities, f32 `[V]`."""
    return Written(token, float(logprobs[token]), likeliest(logprobs, alternatives), tensor_hash(logprobs))


def likeliest(logprobs: Array, count: int) -> tuple[tuple[int, float], ...]:
    """Return the likeliest tokens; among equal ones, the lower number first."""
    if not count:
        return ()
    count = min(count, len(logprobs))
    least = np.partition(logprobs, -count)[-count]
    found = np.flatnonzero(logprobs >= least)
    ordered = found[np.argsort(-logprobs[found], kind="stable")][:count]
    return tuple((int(token), float(logprobs[token])) for token in ordered)
