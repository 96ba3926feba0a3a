"""Factors of bf16 that reach the corners of a block of tensor cores, and what a device gave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt

from referee_py.element import Case
from referee_py.program.modes import TC16

from .operands import cases_of
from .tensor_block import INFINITY, NAN, block

U16 = npt.NDArray[np.uint16]
Rng = np.random.Generator

RECORDED = Path(__file__).parents[2] / "vectors/tensor-core-h200.txt"


def recorded() -> Iterator[tuple[list[int], list[int], int, int]]:
    """Yield the blocks of a device: both factors, c, and the result; every NaN as it is committed."""
    for line in RECORDED.read_text().splitlines():
        if line.startswith("#"):
            continue
        _, _, a, b, c, d = line.split()
        x, y = ([int(digits[at : at + 4], 16) for at in range(0, 64, 4)] for digits in (a, b))
        result = int(d, 16)
        yield x, y, int(c, 16), NAN if result & 0x7FFFFFFF > INFINITY else result


SPECIAL = np.frombuffer(
    bytes.fromhex("0000 8000 0001 8001 007f 0080 8080 3f80 bf80 3f81 7f7f ff7f 7f80 ff80 7fc0 ffc1 7f81"),
    ">u2",
).astype(np.uint16)
"""Zeros, subnormals, the ends of the normal range, one, infinities, and several NaNs."""


def _exponents(low: int, high: int) -> Callable[[Rng, int], U16]:
    """Return a maker of numbers of these biased exponents, of either sign."""

    def made(rng: Rng, count: int) -> U16:
        exponent = rng.integers(low, high + 1, count)
        return (rng.integers(0, 2, count) << 15 | exponent << 7 | rng.integers(0, 128, count)).astype(
            np.uint16
        )

    return made


def _cancelling(rng: Rng, count: int) -> U16:
    """Return numbers each of which stands beside its opposite."""
    half = _exponents(120, 134)(rng, (count + 1) // 2)
    return np.stack([half, half ^ 0x8000], axis=1).reshape(-1)[:count]


def _far(rng: Rng, count: int) -> U16:
    """Return small numbers with some large ones among them: most of each block is cut."""
    return np.where(
        rng.random(count) < 0.1, _exponents(130, 136)(rng, count), _exponents(112, 124)(rng, count)
    )


def _sparse(of: Callable[[Rng, int], U16]) -> Callable[[Rng, int], U16]:
    return lambda rng, count: np.where(rng.random(count) < 0.4, 0, of(rng, count)).astype(np.uint16)


KINDS: dict[str, Callable[[Rng, int], U16]] = {
    "ordinary": _exponents(118, 130),
    "near two": lambda rng, count: (0x3FF8 | rng.integers(0, 8, count)).astype(np.uint16),
    "wide": _exponents(80, 174),
    "cancelling": _cancelling,
    "far": _far,
    "zeros beside large": _sparse(_exponents(180, 200)),
    "subnormal factors": _exponents(0, 2),
    "subnormal results": _exponents(50, 66),
    "tiny products": _exponents(40, 56),
    "overflow": _exponents(185, 195),
    "few infinities": lambda rng, count: np.where(
        rng.random(count) < 0.01, 0x7F80 | rng.integers(0, 2, count) << 15, _exponents(118, 130)(rng, count)
    ).astype(np.uint16),
    "special": lambda rng, count: rng.choice(SPECIAL, count),
    "any bits": lambda rng, count: rng.integers(0, 1 << 16, count).astype(np.uint16),
}


SPECIAL_ROWS = RECORDED.with_name("tensor-block-special.txt")


def special_rows() -> str:
    """Return the text of `SPECIAL_ROWS`: blocks of 1 to 16 pairs, by the rule in integers."""
    rng = np.random.default_rng(16)
    lines = [
        "# Blocks of tensor cores by the rule in integers (docs/tensor-cores.md): a b c d, as in tensor-core-h200.txt,",
        "# of 1 to 16 pairs. Every pair of special values; special values among others; any accumulator.",
    ]
    accumulators = [*map(int, SPECIAL.astype(np.uint32) << 16)]
    pairs = [([int(a)], [int(b)]) for a in SPECIAL for b in SPECIAL]
    while len(pairs) < 1_200:
        kinds = [KINDS[str(kind)] for kind in rng.choice([*KINDS], 2)]
        count = int(rng.integers(1, 17))
        pairs.append((kinds[0](rng, count).tolist(), kinds[1](rng, count).tolist()))
    for number, (a, b) in enumerate(pairs):
        c = accumulators[number % len(accumulators)] if number % 3 else int(rng.integers(0, 1 << 32))
        digits = ("".join(f"{bits:04x}" for bits in side) for side in (a, b))
        lines.append(" ".join((*digits, f"{c:08x}", f"{block(a, b, c):08x}")))
    return "\n".join(lines) + "\n"


def products(kind: str, k: int) -> tuple[Case, list[np.ndarray]]:
    """Return the middle element of a product of such matrices, in tc16, and the matrices."""
    rng = np.random.default_rng([k, *kind.encode()])
    inputs = [KINDS[kind](rng, 2 * k).view(ml_dtypes.bfloat16) for _ in "ab"]
    inputs = [inputs[0].reshape(2, k), inputs[1].reshape(k, 2)]
    (case,) = cases_of("mm", inputs, {}, (0.6,))
    return replace(case, mode=TC16.byte), inputs
