"""Write tests/contracts/float/Normals.sol: the N(0, 1) numbers on which gas is measured.

    python -m tests.twins.float.normals

Deterministic: quantiles of a generator's numbers, rounded to nine decimals, so that C libraries give equal digits.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from statistics import NormalDist

TARGET = Path(__file__).resolve().parents[2] / "contracts/float/Normals.sol"
COUNT = 258  # gives 256 tuples of three neighbours


def source() -> str:
    generator = random.Random("N(0, 1)")
    values = [round(NormalDist().inv_cdf(generator.random()), 9) for _ in range(COUNT)]
    single = b"".join(struct.pack(">f", value) for value in values).hex()
    double = b"".join(struct.pack(">d", value) for value in values).hex()
    return "\n".join(
        [
            "// SPDX-License-Identifier: Apache-2.0",
            "pragma solidity ^0.8.34;",
            "",
            f"/// @notice {COUNT} numbers drawn from N(0, 1), in both formats, big-endian.",
            "/// @dev Written by tests/twins/float/normals.py.",
            "library Normals {",
            *_constant("SINGLE", single),
            "",
            *_constant("DOUBLE", double),
            "}",
            "",
        ]
    )


def _constant(name: str, digits: str) -> list[str]:
    first, *more = [f'hex"{digits[k : k + 80]}"' for k in range(0, len(digits), 80)]
    lines = [f"    bytes internal constant {name} = {first}", *(f"        {line}" for line in more)]
    lines[-1] += ";"
    return lines


if __name__ == "__main__":
    TARGET.write_text(source())
