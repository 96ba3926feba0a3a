"""Records the self-test's calls and outputs in a file, and builds the program that replays them (format: replay.c)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from repops.backends import Backend
from repops.host import cpu
from repops.opset import Attrs
from repops.selftest import Line, digest, golden, lines
from repops.sums import SumMode
from repops.tensors import Array, canonical, check

from referee_py.rounding.evaluate import CONTRACTIONS

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "kernels" / "csrc"
OUTSIDE = (HERE / "outside.c", SOURCES / "runtime/runtime.c", SOURCES / "runtime/call.c")
"""Kernels that are wrong on purpose, and what calls them."""
NAME_BYTES = 32

# Options of kernels/CMakeLists.txt that fix the arithmetic; the caller chooses optimisation.
ARITHMETIC = ("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
# clang warns about intended conditions without branches, and about loops not vectorised, which results do not show.
MEANT = ("-Wno-bitwise-instead-of-logical", "-Wno-bitwise-conditional-parentheses", "-Wno-pass-failed")
WARNINGS = ("-Wall", "-Wextra", "-Werror", *MEANT)
LINES = [line for line in lines() if line.operator not in cpu.VIEWS]
_NARROW = [f"bf16_{name}" for name in CONTRACTIONS]
KERNEL_NAMES = (*(line.name for line in LINES), *_NARROW, *(f"exact_{name}" for name in _NARROW))


def record(
    name: str,
    inputs: Sequence[Array],
    attrs: Attrs,
    outputs: Sequence[Array],
    sums: SumMode = SumMode.REPOPS_F32,
) -> bytes:
    """Return a call of an operator's kernel."""
    call = check(name, inputs, attrs)
    signature = cpu.signature_words(call)
    arrays = [*inputs, *map(canonical, outputs)]
    parts = [
        cpu.kernel_name(call, sums).encode().ljust(NAME_BYTES, b"\0"),
        np.int64(signature.size).tobytes(),
        signature.tobytes(),
    ]
    return b"".join([*parts, *(array.tobytes() for array in arrays)])


def write_selftest(path: Path) -> int:
    """Record the calls of the self-test; return their number.

    INVARIANT: the outputs have the reference's bits. The fast kernels compute them, and their digests are compared with
    those of the reference.
    """
    count = 0
    with path.open("wb") as file:

        def execute(line: Line, name: str, inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
            nonlocal count
            outputs = cpu.execute(name, inputs, attrs, sums=line.sums)
            file.write(record(line.operator, inputs, attrs, outputs, line.sums))
            count += 1
            return outputs

        for line in LINES:
            recording = Backend("recording", partial(execute, line), line.sums)
            assert digest(recording, line.operator) == golden()[line.name], line.name
    return count


def build(
    folder: Path,
    compiler: Sequence[str],
    options: Sequence[str],
    link: Sequence[str] = (),
    kernels: Sequence[Path] = (),
) -> Path:
    """Build the replay program from all kernels with this compiler; a warning is an error.

    `link` is a command for the last step, if it is not the compiler's own. `kernels` are other sources than those of
    kernels/csrc, with some of the operators.
    """
    text = "".join(source.read_text() for source in kernels)
    names = [name for name in KERNEL_NAMES if not kernels or f"OPERATOR({name})" in text]
    (folder / "operators.h").write_text("".join(f"ROW({name})\n" for name in names))
    sources = [*(kernels or sorted(SOURCES.glob("*/*.c"))), HERE / "replay.c"]
    return _compile(folder / "replay", sources, compiler, options, link)


def build_library(
    folder: Path,
    compiler: Sequence[str],
    options: Sequence[str],
    link: Sequence[str] = (),
    kernels: Sequence[Path] = (),
) -> Path:
    """Build a shared library for REPOPS_LIBRARY in the same way."""
    sources = kernels or sorted(SOURCES.glob("*/*.c"))
    link = (*link, "-shared") if link else ()
    shared = () if link else ("-shared",)
    return _compile(folder / "librepops.so", sources, compiler, (*options, "-fPIC", *shared), link)


def _compile(
    output: Path,
    sources: Sequence[Path],
    compiler: Sequence[str],
    options: Sequence[str],
    link: Sequence[str],
) -> Path:
    folder = output.parent
    command = [*compiler, *ARITHMETIC, *WARNINGS, *options, f"-I{SOURCES}", f"-I{folder}"]
    if link:
        subprocess.run([*command, "-c", *sources], check=True, cwd=folder)
        command, sources = [*link], sorted(folder.glob("*.o"))
    subprocess.run([*command, *sources, "-o", output, "-lm"], check=True, cwd=folder)
    return output
