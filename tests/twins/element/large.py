"""Steps of tensors of up to 2^40 elements, which nobody stores."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from repops.opset import BOOL, F32
from repops.random_calls import random_call

from referee_py.element import Case, Read, rule_of, scalar
from tests.referee_py.element.operands import cases_of

from .chain import REPOPS_F32, Given
from .mutations import MANY, Mutations, sound


def large_cases(
    name: str, mutations: Mutations, count: int, mode: int = REPOPS_F32
) -> Iterator[tuple[Case, int]]:
    """Yield `count` cases, with a step of each."""
    random = mutations.random
    found = number = 0
    while found < count:
        number += 1
        given = (
            mutations.convolution(name) if name.startswith("conv2d") else _resized(mutations, name, number)
        )
        if given is None:
            continue
        elements = math.prod(given.outputs[given.output][1])
        element = int(random.integers(0, min(max(elements, 1), MANY)))
        case = sound(replace(given, element=element, mode=mode))
        if case is None or (length := rule_of(case).length(case)) == 0:
            continue
        found += 1
        yield case, int(random.integers(0, length))


def _resized(mutations: Mutations, name: str, number: int) -> Given | None:
    inputs, attrs = random_call(name, f"large/{number}", "tiny")
    for case in cases_of(name, inputs, attrs, (0.5,)):
        return mutations.resized(mutations.resized(Given.of(case)))
    return None


def anywhere(case: Case) -> Read:
    """Return a reader of operands of any size: a value depends on its place, and most row numbers exist."""

    def read(place: int, element: int) -> int:
        dtype, shape = case.inputs[place].dtype, case.inputs[place].shape
        assert 0 <= element < math.prod(shape)
        value = (element * 0x9E3779B97F4A7C15 + place) % (1 << 64) >> 7
        if dtype.is_float:
            bits = 0x3F000000 + value % (1 << 24) + (value & 1 << 31)
            return scalar.canonical(bits if dtype == F32 else bits >> 16, dtype)
        if dtype == BOOL:
            return value & 1
        return value % (case.inputs[0].shape[0] + 1) if case.name in ("take", "scatter_add") else value

    return read
