"""Inputs of elementary functions, as bits of binary32: every exponent, usual values, ends and turns of functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from repops.random_calls import SPECIAL_F32

from .elementary import U32

KERNELS = Path(__file__).parent.parent.parent / "kernels"
SIGN = np.uint32(1 << 31)
EVEN_OR_ODD = ("erf", "tanh", "sin", "cos")
# Near these a function reaches the end of binary32, of its domain or of its methods; sin and cos turn.
CORNERS = {
    "exp": [88.72284, -87.33655, -103.97208, -103.27893, 512.0, -512.0, 2.0**-117, -(2.0**-117), 0.34657359],
    "log": [1.0, 2.0**-126, 2.0**-149, 0.70710678, 1.4142136, 2.0**127],
    "log1p": [
        -1.0,
        -0.5,
        2.0**-102,
        -(2.0**-102),
        2.0**-126,
        -(2.0**-126),
        1.0,
        2.0**24,
        2.0**127,
        -0.29289322,
    ],
    "erf": [3.5, 8.875, 2.0**-60, 2.0**-126, 2.0**-149, 3.9192059, 1.0],
    "tanh": [0.125, 41.0, 2.0**-60, 2.0**-126, 2.0**-149, 9.0109, 0.17328680],
    "sin": [np.pi / 4, np.pi / 2, np.pi, 2 * np.pi, 2.0**-58, 2.0**-126, 2.0**-149, 2.0**30, 2.0**127],
}
CORNERS["rsqrt"] = CORNERS["log"] + [4.0**k for k in range(-74, 64)]
CORNERS["cos"] = CORNERS["sin"]
# Binary32 values nearest to multiples of pi / 2: of all, and of those from 2^111 on, which need most bits of 2 / pi.
TURNS = [0x6F79BE45, 0x50A3E87F, 0x6FF9BE45, 0x5123E87F, 0x7079BE45, 0x6A1976F1]
TURNS += [0x77584625, 0x7B1675C0, 0x7C6C3305, 0x7EBDCDA0, 0x7F3DCDA0]


def hard_cases(name: str) -> U32:
    """Return the cases of tests/kernels, with both signs for even or odd functions; for sin and cos also TURNS."""
    lines = [line.split() for line in (KERNELS / "hard_cases.txt").read_text().splitlines() if line[0] != "#"]
    x = np.array([int(bits, 16) for function, bits, _ in lines if function == name], np.uint32)
    if name in ("sin", "cos"):
        x = np.concatenate([x, np.array(TURNS, np.uint32)])
    return np.concatenate([x, x ^ SIGN]) if name in EVEN_OR_ODD else x


def samples(name: str, count: int, seed: int) -> U32:
    """Return about `count` inputs: a fifth each of any bits, of every exponent, N(0, 1), a wide range, and corners."""
    random = np.random.default_rng([seed, *name.encode()])
    part = count // 5
    exponents = np.arange(part, dtype=np.uint32) % 512 << 23
    every = exponents | random.integers(0, 1 << 23, part, dtype=np.uint32)
    normal = random.standard_normal(part).astype(np.float32)
    if name in ("log", "rsqrt"):
        normal = np.abs(normal)
    wide = random.uniform(-110, 95, part).astype(np.float32)
    corner = random.choice(np.array(CORNERS[name], np.float32), part).view(np.uint32).astype(np.int64)
    near = corner + np.round(random.standard_normal(part) * 2.0 ** random.integers(0, 20, part)).astype(
        np.int64
    )
    special = np.asarray(SPECIAL_F32).view(np.uint32)
    floats = [v.view(np.uint32) for v in (normal, wide)]
    return np.concatenate([any_bits(random, part), every, *floats, near.astype(np.uint32), special])


def any_bits(random: np.random.Generator, count: int) -> npt.NDArray[np.uint32]:
    """Return uniform patterns; one in 128 is a NaN or an infinity."""
    return random.integers(0, 1 << 32, count, dtype=np.uint32)
