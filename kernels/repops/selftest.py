"""Check that this machine's kernels give the bits of the specification: `python -m repops.selftest`.

Prints a digest of pseudo-random calls for each operator, and others where the modes exact and tc16 differ. Compares
them with selftest.txt, which the reference executor wrote. If an operator differs, names the first one and exits with
status 1. Equal lines on two machines mean equal bits.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from .backends import Backend, backend
from .opset import OPS, Arithmetic, Op
from .random_calls import MAKERS, random_call
from .sums import SumMode
from .tensors import canonical

__all__ = ["GOLDEN", "MAKERS", "digest", "golden", "main", "random_call"]

GOLDEN = Path(__file__).with_name("selftest.txt")
HEADER = "# Digests of the reference executor: python -m repops.selftest --backend reference --write\n"

# Calls of each operator in a digest: the small ones meet edge cases, the long ones chunks, blocks and threads.
SEEDS, LONG_SEEDS = 40, 10

Executors = Callable[[SumMode], Backend]
"""Returns the executor for a mode."""


class Line(NamedTuple):
    """A line of the output: an operator in a mode."""

    id: int
    operator: str
    sums: SumMode

    @property
    def name(self) -> str:
        return self.operator if self.sums is SumMode.REPOPS_F32 else f"{self.sums}_{self.operator}"


CONTRACTIONS = ("mm", "bmm", "conv2d", "conv2d_input_grad", "conv2d_weight_grad")


def lines(modes: Sequence[SumMode] = tuple(SumMode)) -> list[Line]:
    """Return all lines of these modes: those of repops-f32 first, and in other modes the operators that differ."""
    return [Line(op.id, op.name, sums) for sums in modes for op in OPS if _differs(op, sums)]


def _differs(op: Op, sums: SumMode) -> bool:
    if sums is SumMode.EXACT:
        return op.arithmetic is Arithmetic.SUM
    return sums is SumMode.REPOPS_F32 or op.name in CONTRACTIONS


def digest(executor: Backend, name: str) -> str:
    """Return SHA-256 over dtype, shape and canonical bytes of all outputs."""
    total = hashlib.sha256()
    for seed in range(SEEDS + LONG_SEEDS):
        inputs, attrs = random_call(name, seed, "usual" if seed < SEEDS else "long")
        for array in executor.execute(name, inputs, attrs):
            total.update(f"{array.dtype.name}{array.shape}".encode())
            total.update(canonical(array).astype(array.dtype.newbyteorder("<")).tobytes())
    return total.hexdigest()


def golden() -> dict[str, str]:
    """Return the digest that every machine must give, by operator."""
    rows = [line.split() for line in GOLDEN.read_text().splitlines() if not line.startswith("#")]
    return {name: value for _, name, value in rows}


def _compare(executors: Executors, modes: Sequence[SumMode]) -> int:
    """Print the lines; return the exit status."""
    want = golden()
    differing = []
    for line in lines(modes):
        value = digest(executors(line.sums), line.operator)
        agrees = value == want.get(line.name)
        if not agrees:
            differing.append(line.name)
        print(f"{line.id:3} {line.name:25} {value} {'ok' if agrees else 'DIFFERS'}", flush=True)
    if differing:
        print(f"first operator that differs: {differing[0]}", file=sys.stderr)
    return 1 if differing else 0


def _write(executors: Executors) -> int:
    rows = [f"{line.id:3} {line.name:25} {digest(executors(line.sums), line.operator)}\n" for line in lines()]
    GOLDEN.write_text(HEADER + "".join(rows))
    return 0


def _executors(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Executors:
    if options.write and options.backend != "reference":
        parser.error("--write takes the digests of the reference: add --backend reference")
    if options.backend != "cpu":
        if options.isa or options.threads:
            parser.error("--isa and --threads are of the cpu backend")
        try:
            backend(options.backend)
        except ValueError as error:
            parser.error(str(error))
        return functools.partial(backend, options.backend)
    from .host import cpu, library

    try:
        isa = library.isa_code(options.isa) if options.isa else None
    except library.LibraryError as error:
        parser.error(str(error))
    execute = functools.partial(cpu.execute, threads=options.threads, isa=isa)
    return lambda sums: Backend("cpu", functools.partial(execute, sums=sums), sums)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("repops.selftest", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", default="cpu", choices=("cpu", "reference", "cuda"))
    parser.add_argument("--isa", help="portable, avx2 or avx512 instead of the best there is")
    parser.add_argument("--threads", type=_count, metavar="N")
    parser.add_argument(
        "--write", action="store_true", help="write selftest.txt instead of comparing with it"
    )
    options = parser.parse_args(arguments)
    executors = _executors(parser, options)
    return (
        _write(executors)
        if options.write
        else _compare(executors, tuple(SumMode)[: 1 if options.backend == "cuda" else None])
    )


if __name__ == "__main__":
    sys.exit(main())
