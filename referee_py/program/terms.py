"""A job's on-chain description of its program (docs/protocol.md, section 4): roots, counts, steps and strides."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ..commit import Tag, digest
from ..errors import InvalidProgram
from .modes import USUAL, ArithmeticMode, mode_of, mode_or_unknown
from .program import Program
from .skeleton import check_opset

MAX_STRIDES = 8
MAX_STEPS = 1 << 48  # exclusive
MAX_STRIDE = 1 << 64  # exclusive; a stride above the number of steps leaves all of them in one leaf


@dataclass(frozen=True, slots=True)
class Terms:
    """The on-chain program, with fields in the order of the contract's Program struct; roots are 32 bytes."""

    opset: int
    mode: int
    node_count: int
    slot_count: int
    constant_count: int
    steps: int
    structure_root: bytes
    slot_root: bytes
    constant_root: bytes
    initial_root: bytes
    strides: tuple[int, ...]

    @classmethod
    def of(cls, program: Program, steps: int, strides: Sequence[int], mode: int = USUAL.byte) -> Terms:
        """Return the terms of training this program.

        Raises InvalidProgram for impossible steps or strides, UnknownVersion for an unknown arithmetic mode.
        """
        check_steps(steps)
        check_strides(strides)
        mode_of(mode)
        return cls(
            program.opset,
            mode,
            len(program.nodes),
            len(program.slots),
            len(program.constants),
            steps,
            program.structure_root,
            program.slot_root,
            program.constant_root,
            program.initial_root,
            tuple(strides),
        )

    @property
    def arithmetic(self) -> ArithmeticMode:
        """What follows from the mode byte; an UnknownMode for one that this build does not know."""
        return mode_or_unknown(self.mode)

    def hash(self) -> bytes:
        """Return the program hash."""
        numbers = (self.opset, self.mode, self.node_count, self.slot_count, self.constant_count, self.steps)
        return digest(
            Tag.PROGRAM,
            struct.pack(">IBIIIQ", *numbers),
            self.structure_root,
            self.slot_root,
            self.constant_root,
            self.initial_root,
            struct.pack(f">B{len(self.strides)}Q", len(self.strides), *self.strides),
        )

    def check(self, program: Program) -> None:
        """Raise InvalidProgram unless these are the terms of this program: a party refuses a job whose roots differ."""
        check_opset(self.opset)
        own = Terms.of(program, self.steps, self.strides, self.mode)
        for name in self.__slots__:
            if getattr(self, name) != getattr(own, name):
                raise InvalidProgram(
                    f"the job says {name} = {_show(getattr(self, name))}, "
                    f"its program file gives {_show(getattr(own, name))}; refuse the job"
                )


def check_steps(steps: int) -> None:
    if not 1 <= steps < MAX_STEPS:
        raise InvalidProgram(f"{steps} steps; a job has at least 1 and fewer than 2^48")


def check_strides(strides: Sequence[int]) -> None:
    """Raise InvalidProgram unless there are 1 to 8, strictly decreasing, each dividing the one before, the last 1."""
    if not 1 <= len(strides) <= MAX_STRIDES or strides[-1] != 1 or strides[0] >= MAX_STRIDE:
        raise InvalidProgram(f"strides {list(strides)}: 1 to {MAX_STRIDES} of them below 2^64, the last is 1")
    for coarse, fine in itertools.pairwise(strides):
        if not 0 < fine < coarse or coarse % fine:
            raise InvalidProgram(f"strides {list(strides)}: {fine} is not a proper divisor of {coarse}")


def suggest_strides(steps: int, apart: int = 1, leaves: int = 64, factor: int = 8) -> tuple[int, ...]:
    """Return powers of `factor`. The coarsest lets the first run tree have at most `leaves` checkpoints, at least
    `apart` steps from each other; but at least two, so that a short run has a checkpoint besides its last state."""
    strides = [1]
    while len(strides) < MAX_STRIDES and (steps > leaves * strides[0] or strides[0] < apart):
        if strides[0] * factor >= steps:
            break
        strides.insert(0, strides[0] * factor)
    return tuple(strides)


def _show(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def leaf_count(start: int, end: int, stride: int) -> int:
    """``ceil((end - start) / stride)``: leaves of the run tree of ``(start, end]`` (section 5)."""
    return -(-(end - start) // stride)


def leaf_end(start: int, end: int, stride: int, leaf: int) -> int:
    """The step whose checkpoint is that leaf (section 5)."""
    return min(start + (leaf + 1) * stride, end)
