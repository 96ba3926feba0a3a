"""Sampling as operators of the operator set: scores of tokens ─> one token, and the log-probabilities of all.

The draw at a place is a function of the row's scores, parameters, seed and place alone (docs/opset.md, section 12), so
that it can be judged like any other element. A row's token does not depend on the rows beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from repops.fuse import composites
from repops.opset import F32, I64

from assay_capture.capture.builder import Builder, Ref

LEVELS = 24
"""Binary digits of a level: the largest is 2^24 - 1."""
FINENESS = 2.0**17
"""Levels in a unit of the logarithm of a probability, so the largest is 128 units below the most likely token."""
SITE = 0
"""The site of the draw. NOTE: a model in evaluation mode draws nothing, so no other node has it."""


@dataclass(frozen=True)
class Draw:
    """The parameters of a draw: of each row, `[B]`.

    seed, place  i64: key and counter of Philox; the place is that of the token that is drawn
    temperature  f32: 0 takes the likeliest token
    top_k        i64: so many of the likeliest tokens stay, and all that are as likely as the last; 0 keeps all
    top_p        f32: tokens stay until those before them have this share of the probability; 1 keeps all
    """

    seed: Ref
    place: Ref
    temperature: Ref
    top_k: Ref
    top_p: Ref


def sampled(b: Builder, scores: Ref, draw: Draw) -> tuple[Ref, Ref]:
    """Return the tokens i64 `[B]` and log-probabilities f32 `[B, V]` of scores f32 `[B, V]`."""
    _, size = scores.shape
    temperature = _column(b, draw.temperature)
    warm = b.op("gt", temperature, b.full(0.0))
    below = b.op("sub", scores, b.op("amax", scores, dims=(1,), keepdim=1))
    scaled = b.op("div", below, b.op("where", warm, temperature, b.full(1.0)))
    kept = _kept(b, scaled, draw)
    noisy = b.op("where", kept, b.op("add", scaled, _gumbel(b, draw, size)), b.full(float("-inf")))
    token = b.op("argmax", b.op("where", warm, noisy, below), dim=1, keepdim=0)
    return token, composites.log_softmax(b.compose, scores)


def _kept(b: Builder, scaled: Ref, draw: Draw) -> Ref:
    """Return which tokens top_k and top_p leave, bool `[B, V]`."""
    rows, _ = scaled.shape
    finest = b.op("minimum", b.op("mul", b.op("neg", scaled), b.full(FINENESS)), b.full(2.0**LEVELS - 1))
    level = b.op("cast", b.op("cast", finest, dtype=I64), dtype=F32)
    weight = b.op("exp", scaled)
    total = _sum(b, weight)
    count = _column(b, draw.top_k)
    most = b.op("where", b.op("gt", count, b.full(0, I64)), b.op("cast", count, dtype=F32), _infinite(b))
    share = _column(b, draw.top_p)
    mass = b.op("where", b.op("lt", share, b.full(1.0)), b.op("mul", share, total), _infinite(b))
    # The last level of which both conditions hold, found digit by digit: they hold of each level before it.
    last = b.full(0.0, shape=(rows, 1))
    for digit in reversed(range(LEVELS)):
        tried = b.op("add", last, b.full(2.0**digit))
        before = b.op("lt", level, tried)
        few = b.op("lt", _sum(b, b.op("where", before, b.full(1.0), b.full(0.0))), most)
        little = b.op("lt", _sum(b, b.op("where", before, weight, b.full(0.0))), mass)
        last = b.op("where", b.op("logical_and", few, little), tried, last)
    return b.op("le", level, last)


def _gumbel(b: Builder, draw: Draw, size: int) -> Ref:
    """Return Gumbel noise f32 `[B, V]`: between -2.9 and 22.9, never infinite."""
    words = [
        b.op("philox", _of_row(b, draw.seed, k), _of_row(b, draw.place, k), shape=(1, size), dtype=I64, site=SITE)
        for k in range(draw.seed.shape[0])
    ]  # fmt: skip
    word = words[0] if len(words) == 1 else b.op("cat", *words, dim=0)
    uniform = b.op("mul", b.op("add", b.op("cast", word, dtype=F32), b.full(0.5)), b.full(2.0**-32))
    below_one = b.op("minimum", uniform, b.full(1 - 2.0**-24))
    exponential = b.op("neg", b.op("log1p", b.op("neg", below_one)))
    return b.op("neg", b.op("log", exponential))


def _of_row(b: Builder, values: Ref, row: int) -> Ref:
    return b.op("reshape", b.op("slice", values, dim=0, start=row, stop=row + 1, step=1), shape=())


def _column(b: Builder, values: Ref) -> Ref:
    return b.op("reshape", values, shape=(values.shape[0], 1))


def _infinite(b: Builder) -> Ref:
    return b.full(float("inf"))


def _sum(b: Builder, values: Ref) -> Ref:
    return b.op("sum", values, dims=(1,), keepdim=1)
