"""Elements as chains of steps have the bits of the readable reference, for every operator."""

from __future__ import annotations

import numpy as np
import pytest
from repops import reference
from repops.opset import OPS
from repops.random_calls import random_call

from referee_py.element import evaluate, rule_of, states

from .operands import bits_of, cases_of, reader

CALLS = 60


@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_every_element_has_the_reference_s_bits(name: str) -> None:
    rng = np.random.default_rng(len(name))
    looked = 0
    for number in range(CALLS):
        inputs, attrs = random_call(name, f"element/{number}", "tiny" if number % 10 else "usual")
        outputs = reference.execute(name, inputs, attrs)
        for case in cases_of(name, inputs, attrs, (0.0, 1.0, *rng.random(2))):
            got = evaluate(case, reader(inputs))
            assert got == bits_of(outputs[case.output], case.element), (number, case)
            looked += 1
    assert looked > 50


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("mm", [(2, 1300), (1300, 3)], {}),
        ("mm", [(1, 1024), (1024, 1)], {}),
        ("sum", [(5000, 2)], {"dims": (0,), "keepdim": 0}),
        ("sum", [(3, 40, 70)], {"dims": (0, 1, 2), "keepdim": 1}),
    ],
)
def test_long_chains(name: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]) -> None:
    """More than one chunk; more than one block, and one that lanes do not divide."""
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    (output,) = reference.execute(name, inputs, attrs)
    for case in cases_of(name, inputs, attrs, (0.0, 1.0)):
        assert evaluate(case, reader(inputs)) == bits_of(output, case.element)


def test_a_chain_can_be_entered_anywhere() -> None:
    rng = np.random.default_rng(8)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 600), (600, 2))]
    (case,) = cases_of("mm", inputs, {}, (0.5,))
    read, rule = reader(inputs), rule_of(cases_of("mm", inputs, {}, (0.5,))[0])
    whole = list(states(case, read, 0, rule.begin(case)))
    assert len(whole) == rule.length(case) == 600
    for start in (1, 511, 512, 513, 599):
        assert list(states(case, read, start, whole[start - 1])) == whole[start:]
