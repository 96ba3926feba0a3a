"""Write contracts/float/FixedConstants.sol: the irrational numbers of the elementary functions, by MPFR.

Each constant is the floor of a number times a power of two, which its name states. Run this after a change; a test
compares its output with the file.
"""

from pathlib import Path

import gmpy2

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "contracts/float/FixedConstants.sol"
PRECISION = 1024  # bits: twice the need of the longest constant

HEADER = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.34;

// Made by scripts/make_float_constants.py. The number after the name is the place of the binary point: each constant is
// the floor of its number times that power of two.

"""


def constants() -> list[tuple[str, str, int]]:
    """Return (name, number in words, value) of each constant."""
    with gmpy2.context(precision=PRECISION):
        ln2, pi = gmpy2.const_log2(), gmpy2.const_pi()
        two_over_pi = floor(2 / pi, 512)
        return [
            ("LN2_160", "ln 2", floor(ln2, 160)),
            ("SQRT_HALF_256", "1 / sqrt(2)", floor(1 / gmpy2.sqrt(2), 256)),
            ("HALF_PI_127", "pi / 2", floor(pi / 2, 127)),
            ("TWO_OVER_PI_256", "2 / pi: its first 256 bits", two_over_pi >> 256),
            ("TWO_OVER_PI_512", "2 / pi: its next 256 bits", two_over_pi & (2**256 - 1)),
            ("TWO_OVER_SQRT_PI_126", "2 / sqrt(pi)", floor(2 / gmpy2.sqrt(pi), 126)),
        ]


def floor(number: object, place: int) -> int:
    return int(gmpy2.floor(number * gmpy2.exp2(place)))


def text() -> str:
    # NOTE: always 64 digits. The compiler takes a literal of 40 digits for an address.
    lines = [
        f"/// @dev {what}\nuint256 constant {name} = {value:#066x};" for name, what, value in constants()
    ]
    return HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text())
