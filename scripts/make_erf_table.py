"""Write kernels/csrc/elementwise/erf_near.h: the error function and its derivative at multiples of 1/64, by MPFR.

Run this after a change; a test compares its output with the file.
"""

from pathlib import Path

import gmpy2

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "kernels/csrc/elementwise/erf_near.h"
STEPS = 64  # of 1
TOP = 3.9375  # beyond 3.92 erf rounds to 1
PRECISION = 128  # bits

HEADER = f"""// Made by scripts/make_erf_table.py. A row for each multiple of 1/{STEPS} to {TOP}: erf as a float and
// what it lacks, and its derivative likewise.

#ifndef REPOPS_ERF_NEAR_H
#define REPOPS_ERF_NEAR_H

#define ERF_STEPS {STEPS}

static const float erf_near[][4] __attribute__((aligned(64))) = {{
"""


def rows() -> list[tuple[float, float, float, float]]:
    with gmpy2.context(precision=PRECISION):
        two_over_root_pi = 2 / gmpy2.sqrt(gmpy2.const_pi())
        found = []
        for step in range(int(TOP * STEPS) + 1):
            c = gmpy2.mpfr(step) / STEPS
            found.append((*in_two(gmpy2.erf(c)), *in_two(two_over_root_pi * gmpy2.exp(-c * c))))
        return found


def in_two(x: "gmpy2.mpfr") -> tuple[float, float]:
    """Return the float (binary32) nearest to `x`, and the one nearest to the difference."""
    high = gmpy2.mpfr(x, 24)
    return float(high), float(gmpy2.mpfr(x - high, 24))


def text() -> str:
    lines = ["    {" + ", ".join(literal(x) for x in row) + "},\n" for row in rows()]
    return HEADER + "".join(lines) + "};\n\n#endif\n"


def literal(x: float) -> str:
    digits, exponent = x.hex().split("p")
    return digits.rstrip("0").rstrip(".") + f"p{exponent}f"


if __name__ == "__main__":
    TARGET.write_text(text())
