"""Mutants of capture: the guard refuses each wrong lowering, with NaN, random numbers and kinks in the same step."""

from __future__ import annotations

from typing import Any

import pytest

from assay_capture.capture import CaptureError, build

from .beside import BESIDE
from .mutants import MUTANTS, Mutant

QUICK_OF = 4
"""One of so many is a quick test, each with another thing beside it."""
CASES = [
    pytest.param(
        mutant, what, id=f"{mutant.name}, beside {what}", marks=() if n % QUICK_OF == k else pytest.mark.slow
    )
    for n, mutant in enumerate(MUTANTS)
    for k, what in enumerate(BESIDE)
]


def test_there_are_as_many_as_the_documentation_says() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.parametrize(("mutant", "what"), CASES)
def test_a_wrong_lowering_is_refused(mutant: Mutant, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    wrong = mutant.change(mutant.rules[mutant.key])

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return wrong(*args, **kwargs)

    monkeypatch.setitem(mutant.rules, mutant.key, counted)
    with pytest.raises(CaptureError, match="is not PyTorch's"):
        build(mutant.recipe(what))
    assert calls


@pytest.mark.parametrize(
    ("mutant", "what"),
    [pytest.param(*case.values, id=case.id, marks=pytest.mark.slow) for case in CASES],
)
def test_the_right_lowering_is_built(mutant: Mutant, what: str) -> None:
    assert str(build(mutant.recipe(what)).labels["checked"]).startswith(
        "loss and gradients of the first step are"
    )
