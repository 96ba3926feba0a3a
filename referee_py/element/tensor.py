"""Contractions of bf16 in the mode tc16, as chains (docs/adjudication.md, section 2): the differences from repops-f32.

The twin of contracts/float/TensorBlock.sol and contracts/element/tensor/TensorContractions.sol. A block's terms are
taken twice: `widen` finds their largest exponent, `accumulate` adds them, cut to a multiple of 2^(e - 25), and
`rounded` makes the sum a binary32. Every function has a result for all bits, since a party may post any state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from repops.opset import BF16, Arithmetic

from . import scalar
from .case import NO_ENTRY, Case, Entry, Read
from .chains import CHUNK, Chain, Contraction, factors, terms
from .sums import arithmetic_of

BLOCK = 16
STATE_BYTES = 16
NOT_A_NUMBER, PLUS_INFINITY, MINUS_INFINITY = 1, 2, 4
"""Bits of a set: the terms of a block that are not finite."""
LEAST = 121
"""The least exponent of a block, 2^-133, on the scale of products: with the biases of two factors."""
OF_C = 127
"""Difference of that scale from the biased exponent of c."""
SUM_BITS = 40
"""Bits of a block's sum in a state, in two's complement; 17 terms take 33."""
_SUM = (1 << SUM_BITS) - 1


@dataclass(frozen=True, slots=True)
class State:
    """A place in a chain: the sum of the earlier chunks, what the blocks of this one gave, and the block that is under
    way. NOTE: no block gives -0, so +0 is the identity of the sums."""

    total: int = 0
    c: int = 0
    e: int = 0
    flags: int = 0
    sum: int = 0
    """Two's complement, in `SUM_BITS` bits."""

    def encode(self) -> bytes:
        word = self.total << 96 | self.c << 64 | self.e << 48 | self.flags << SUM_BITS | self.sum
        return word.to_bytes(STATE_BYTES, "big")

    @classmethod
    def decode(cls, data: bytes) -> State:
        word = int.from_bytes(data, "big")
        return cls(
            word >> 96, word >> 64 & 0xFFFFFFFF, word >> 48 & 0xFFFF, word >> SUM_BITS & 0xFF, word & _SUM
        )


# ------------------------------------------------------------------------------------------------- a block


class Parts(NamedTuple):
    negative: bool
    exponent: int
    """The biased exponent; of a subnormal, that of the smallest normal number."""
    significand: int
    finite: bool


def parts_of(bits: int, fraction_bits: int) -> Parts:
    """Take a number of 8 bits of exponent apart."""
    exponent, fraction = bits >> fraction_bits & 0xFF, bits & (1 << fraction_bits) - 1
    negative = bool(bits >> fraction_bits + 8)
    if exponent == 0xFF:
        return Parts(negative, 0, fraction, finite=False)
    return Parts(negative, max(exponent, 1), fraction | (1 << fraction_bits if exponent else 0), finite=True)


def opened(c: int) -> tuple[int, int]:
    """Return the largest exponent of a block without products, and what of c is not finite."""
    _, exponent, significand, finite = parts_of(c, 23)
    if not finite:
        return LEAST, NOT_A_NUMBER if significand else _infinity(bool(c >> 31))
    return max(exponent + OF_C if significand else 0, LEAST), 0


def widen(e: int, flags: int, a: int, b: int) -> tuple[int, int]:
    """Return the largest exponent and what is not finite, with one more pair of bf16."""
    x, y = parts_of(a, 7), parts_of(b, 7)
    if not (x.finite and y.finite):
        nan = any(bool(z.significand) is not z.finite for z in (x, y))  # not a number, or a zero
        return e, flags | (NOT_A_NUMBER if nan else _infinity(x.negative ^ y.negative))
    if not (x.significand and y.significand):
        return e, flags
    return max(e, x.exponent + y.exponent), flags


def accumulate(e: int, total: int, a: int, b: int) -> int:
    """Return the sum with one more pair of bf16, cut to a multiple of 2^(e - 25)."""
    x, y = parts_of(a, 7), parts_of(b, 7)
    if not (x.finite and y.finite):
        return total
    return _plus(
        total, x.negative ^ y.negative, x.significand * y.significand << 11, e - x.exponent - y.exponent
    )


def begun(e: int, total: int, c: int) -> int:
    """Return the sum with c, cut to a multiple of 2^(e - 25)."""
    negative, exponent, significand, finite = parts_of(c, 23)
    return _plus(total, negative, significand << 2, e - exponent - OF_C) if finite else total


def _plus(total: int, negative: bool, size: int, distance: int) -> int:
    """NOTE: where e is below the term's exponent, as in no chain, nothing is left of the term."""
    left = size >> distance if distance >= 0 else 0
    return (total - left if negative else total + left) & _SUM


def rounded(e: int, flags: int, total: int) -> int:
    """Return a block's result as binary32: the sum toward zero, or what is not finite."""
    flags &= NOT_A_NUMBER | PLUS_INFINITY | MINUS_INFINITY
    if flags:
        return {PLUS_INFINITY: _INFINITY, MINUS_INFINITY: scalar.MINUS_INF}.get(flags, scalar.NAN)
    negative = bool(total >> SUM_BITS - 1)
    size = (1 << SUM_BITS) - total if negative else total
    exponent = e + size.bit_length() - 153  # biased as binary32's
    if size and exponent >= 1:
        kept = size << 24 >> size.bit_length()
        bits = min((exponent - 1 << 23) + kept, _INFINITY)
    else:
        bits = size >> 130 - e if e < 130 else size << e - 130  # in units of 2^-149
    return bits | scalar.MINUS_ZERO if negative and bits else bits


_INFINITY = 0x7F800000


def _infinity(negative: bool) -> int:
    return MINUS_INFINITY if negative else PLUS_INFINITY


# ------------------------------------------------------------------------------------------------- a chain


class Turn(NamedTuple):
    """A step's place in its block, and its term."""

    block: int
    """The block's number in the element, from 0."""
    size: int
    """Terms of the block."""
    term: int
    """The term's number in the order of docs/opset.md, section 6."""
    opens_chunk: bool
    opens: bool
    """A block begins."""
    accumulates: bool
    begins_sum: bool
    ends: bool
    """A block ends."""


class TensorContraction(Contraction):
    """Two steps for each term, block by block: all terms of the block widen, then all accumulate.

    Places are (r, s, c) in convolutions with a kernel, and the channels of each tap are padded to a multiple of 16; the
    padding takes no steps.
    """

    def length(self, case: Case) -> int:
        return 2 * terms(case)

    def begin(self, case: Case) -> bytes:  # noqa: ARG002
        return State().encode()

    def step(self, case: Case, t: int, state: bytes, read: Read) -> bytes:
        turn = turn_of(case, t)
        total, c, e, flags, value = _fields(State.decode(state))
        if turn.opens:
            if turn.opens_chunk:
                total, c = scalar.add(total, c), 0
            (e, flags), value = opened(c), 0
        if turn.begins_sum:
            value = begun(e, value, c)
        if (found := factors(case, turn.term, read)) is not None:
            a, b = (bits >> 16 for bits in found)
            if turn.accumulates:
                value = accumulate(e, value, a, b)
            else:
                e, flags = widen(e, flags, a, b)
        if turn.ends:
            c, e, flags, value = rounded(e, flags, value), 0, 0, 0
        return State(total, c, e, flags, value).encode()

    def finish(self, case: Case, state: bytes, entry: Entry = NO_ENTRY) -> int:  # noqa: ARG002
        last = State.decode(state)
        return scalar.narrowed(scalar.add(last.total, last.c), case.dtype)


def _fields(state: State) -> tuple[int, int, int, int, int]:
    return state.total, state.c, state.e, state.flags, state.sum


def taps(case: Case) -> int:
    """Return the number of taps (r, s) over which the terms run; 1 if they run over no kernel."""
    return math.prod(case.inputs[1].shape[2:]) if case.name in ("conv2d", "conv2d_input_grad") else 1


def turn_of(case: Case, t: int) -> Turn:
    """Return what happens in step t, which the chain has."""
    kernel = taps(case)
    channels = terms(case) // kernel
    tap, within = divmod(t, 2 * channels)
    block, r = divmod(within, 2 * BLOCK)
    count = min(channels - BLOCK * block, BLOCK)
    number = tap * -(-channels // BLOCK) + block
    return Turn(
        block=number,
        size=count,
        term=(BLOCK * block + r % count) * kernel + tap,
        opens_chunk=r == 0 and number % (CHUNK // BLOCK) == 0,
        opens=r == 0,
        accumulates=r >= count,
        begins_sum=r == count,
        ends=r == 2 * count - 1,
    )


_CONTRACTION = TensorContraction()


def tensor_rule(case: Case) -> Chain | None:
    """Return the chain, or None if the element is that of repops-f32."""
    narrow = case.inputs and case.inputs[0].dtype == BF16
    # NOTE: of the operators that add, only contractions take bf16.
    return _CONTRACTION if narrow and arithmetic_of(case) is Arithmetic.SUM else None
