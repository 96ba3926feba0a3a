"""Calls with the reference's outputs in a file, and the program that replays them (replay.c has the format)."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from repops import cpu, reference
from repops.calls import Call, Scale, random_call
from repops.opset import OPS
from repops.tensors import canonical, check

HERE = Path(__file__).parent
SOURCES = HERE.parents[2] / "kernels" / "csrc"
NAME_BYTES = 32

# Those of kernels/CMakeLists.txt that fix the arithmetic; optimisation is the caller's.
ARITHMETIC = ("-std=c11", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
WARNINGS = ("-Wall", "-Wextra", "-Werror")
KERNEL_NAMES = tuple(op.name for op in OPS if op.name not in cpu.VIEWS)


def record(name: str, call: Call) -> bytes:
    inputs, attrs = call
    signature = cpu.signature_words(check(name, inputs, attrs))
    outputs = [canonical(output) for output in reference.execute(name, inputs, attrs)]
    parts = [name.encode().ljust(NAME_BYTES, b"\0"), np.int64(signature.size).tobytes(), signature.tobytes()]
    return b"".join([*parts, *(array.tobytes() for array in (*inputs, *outputs))])


def write_calls(path: Path, seeds: dict[Scale, range]) -> int:
    """Record calls of every operator; how many there are."""
    count = 0
    with path.open("wb") as file:
        for name, (scale, chosen) in itertools.product(KERNEL_NAMES, seeds.items()):
            for seed in chosen:
                file.write(record(name, random_call(name, seed, scale)))
                count += 1
    return count


def build(
    folder: Path,
    compiler: Sequence[str],
    options: Sequence[str],
    link: Sequence[str] = (),
    kernels: Sequence[Path] = (),
) -> Path:
    """The replay program, made of all kernels by this compiler; a warning is an error.

    `link` is a command for the last step, if not the compiler's own. `kernels` are other sources than those of
    kernels/csrc, with some of the operators.
    """
    text = "".join(source.read_text() for source in kernels)
    names = [name for name in KERNEL_NAMES if not kernels or f"OPERATOR({name})" in text]
    (folder / "operators.h").write_text("".join(f"ROW({name})\n" for name in names))
    sources = [*(kernels or sorted(SOURCES.glob("*.c"))), HERE / "replay.c"]
    command = [*compiler, *ARITHMETIC, *WARNINGS, *options, f"-I{SOURCES}", f"-I{folder}"]
    if link:
        subprocess.run([*command, "-c", *sources], check=True, cwd=folder)
        command, sources = [*link], sorted(folder.glob("*.o"))
    subprocess.run([*command, *sources, "-o", folder / "replay", "-lm"], check=True, cwd=folder)
    return folder / "replay"
