"""The plan of a program's step: operators and attributes ready to call, and the last use of each value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..program import Kind, Operand, Program, Skeleton, TensorType


@dataclass(frozen=True, slots=True)
class Instruction:
    """One node, ready to execute. `release` lists the nodes whose values no later node needs."""

    node: int
    op: str
    attrs: dict[str, Any]
    inputs: tuple[Operand, ...]
    outputs: tuple[TensorType, ...]
    structure_hash: bytes
    release: tuple[int, ...]


class StepPlan:
    """The instructions of a validated program, or of a skeleton, which names all that they need."""

    def __init__(self, program: Program | Skeleton) -> None:
        last_use = list(range(len(program.nodes)))  # a value without a reader is released at once
        for node, structure in enumerate(program.nodes):
            for operand in structure.inputs:
                if operand.kind == Kind.NODE:
                    last_use[operand.index] = node
        kept = {slot.node for slot in program.slots}
        release: list[list[int]] = [[] for _ in program.nodes]
        for node, last in enumerate(last_use):
            if node not in kept:
                release[last].append(node)
        self.instructions = tuple(
            Instruction(
                node,
                structure.name,
                structure.attrs,
                structure.inputs,
                structure.outputs,
                structure_hash,
                tuple(release[node]),
            )
            for node, (structure, structure_hash) in enumerate(
                zip(program.nodes, program.structures.leaves, strict=True)
            )
        )

    @cached_property
    def peak_bytes(self) -> int:
        """Maximum bytes that values of one step hold at the same time, without constants and the state before it.
        NOTE: computed from declared shapes, so a party can refuse a program that exceeds its memory before anything
        runs.
        """
        size = [sum(type_.nbytes for type_ in instruction.outputs) for instruction in self.instructions]
        held = peak = 0
        for instruction in self.instructions:
            held += size[instruction.node]
            peak = max(peak, held)
            held -= sum(size[node] for node in instruction.release)
        return peak
