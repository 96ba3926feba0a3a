"""A block of tensor cores, drawn: its terms, aligned to the largest exponent, what is cut off, and the sum.

The arithmetic is that of the court's rule (`referee_py/element/tensor.py`); here its numbers become rows of digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from repops.opset import Dtype

from referee_py.element import Case, tensor
from referee_py.element.chains import CHUNK, factors
from referee_py.element.tensor import BLOCK, SUM_BITS, State, TensorContraction, turn_of
from referee_py.program.describe import value_of

KEPT_BITS = 27
"""Digits of a term from the largest exponent's place on: a product of two significands has two before the point, and
25 behind it are kept."""

OF_PRODUCTS = 254
"""The biases of two factors."""

Read = Callable[[int, int], int]


@dataclass(frozen=True)
class Term:
    """A row of the drawing. ``factors``: decimal values, or that of the accumulator alone; ``exponent``: the place of
    the term's point, unbiased, None for what is no number with digits; ``kept`` and ``cut``: binary digits, the latter
    below the unit of the block; ``words``: why there are no digits."""

    name: str
    factors: tuple[str, ...]
    negative: bool = False
    exponent: int | None = None
    kept: str = ""
    cut: str = ""
    words: str = ""


@dataclass(frozen=True)
class Block:
    """A block. ``number`` counts from 1 in its element, and ``chunk``; ``exponent``: the largest of its terms;
    ``total``: their sum in units of 2^(exponent - 25); ``result``: binary32."""

    number: int
    chunk: int
    terms: tuple[Term, ...]
    exponent: int
    total: int
    result: Number


@dataclass(frozen=True)
class Number:
    """A number of binary32."""

    bits: int

    @property
    def decimal(self) -> str:
        return value_of(self.bits, Dtype.F32)

    @property
    def hex(self) -> str:
        return f"0x{self.bits:08x}"


def block_of(case: Case, step: int, state: bytes, read: Read) -> Block:
    """Return the block that begins with a step of an element's chain.

    ``step`` counts from 0 (`first_step`), ``state`` is the one before it; ``read`` gives an
    element's bits by input and place.
    """
    opening = turn_of(case, step)
    c = 0 if opening.opens_chunk else State.decode(state).c
    e, flags = tensor.opened(c)
    places = [turn_of(case, step + k).term for k in range(opening.size)]
    pairs = [_narrow(case, place, read) for place in places]
    for pair in pairs:
        if pair is not None:
            e, flags = tensor.widen(e, flags, *pair)
    total, rows = tensor.begun(e, 0, c), [_accumulator(c, e)]
    for place, pair in zip(places, pairs, strict=True):
        if pair is not None:
            total = tensor.accumulate(e, total, *pair)
        rows.append(_product(place, pair, e))
    bits = tensor.rounded(e, flags, total)
    signed = total - (1 << SUM_BITS) if total >> SUM_BITS - 1 else total
    return Block(
        opening.block + 1,
        opening.block * BLOCK // CHUNK + 1,
        tuple(rows),
        e - OF_PRODUCTS,
        signed,
        Number(bits),
    )


def _narrow(case: Case, place: int, read: Read) -> tuple[int, int] | None:
    """Return both factors of a term as bf16, or None if it does not exist."""
    found = factors(case, place, read)
    return None if found is None else (found[0] >> 16, found[1] >> 16)


def _accumulator(c: int, e: int) -> Term:
    part = tensor.parts_of(c, 23)
    told = (value_of(c, Dtype.F32),)
    if not part.finite or not part.significand:
        return Term("accumulator", told, words="not finite" if not part.finite else "zero: no term")
    return _drawn("accumulator", told, part.negative, part.exponent + tensor.OF_C, part.significand << 2, e)


def _product(place: int, pair: tuple[int, int] | None, e: int) -> Term:
    name = f"term {place}"
    if pair is None:
        return Term(name, (), words="does not exist: it meets padding")
    told = tuple(value_of(bits, Dtype.BF16) for bits in pair)
    a, b = (tensor.parts_of(bits, 7) for bits in pair)
    if not (a.finite and b.finite):
        return Term(name, told, words="not finite")
    if not (a.significand and b.significand):
        return Term(name, told, words="zero: no term")
    size = a.significand * b.significand << 11
    return _drawn(name, told, a.negative is not b.negative, a.exponent + b.exponent, size, e)


def _drawn(name: str, told: tuple[str, ...], negative: bool, exponent: int, size: int, e: int) -> Term:
    """Return the row of a term with digits: ``size`` in units of 2^-25 of its own exponent."""
    down = e - exponent
    cut = f"{size & (1 << down) - 1:0{min(down, KEPT_BITS)}b}"[:KEPT_BITS] if down else ""
    return Term(name, told, negative, exponent - OF_PRODUCTS, f"{size >> down:0{KEPT_BITS}b}", cut)


def first_step(case: Case, step: int) -> int:
    """Return the first step, counted from 0, of the block to which a step belongs."""
    while not turn_of(case, step).opens:
        step -= 1
    return step


def has_blocks(rule: object) -> bool:
    """Return whether a chain's rule adds in blocks."""
    return isinstance(rule, TensorContraction)
