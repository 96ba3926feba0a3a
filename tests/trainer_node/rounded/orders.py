"""Evaluators that add in a known order, so that it is certain where they differ.

A library chooses its order by the processor, and two libraries may reach the same roundings. These evaluators add term
by term, with IEEE-754 additions alone: their results are the same on every machine. Where the two differ, any third
evaluator differs from one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from repops.opset import Arithmetic

from referee_py.commit.tensor import Array
from referee_py.rounding import Bounds, Evaluation, arithmetic
from tests.referee_py.rounding.operators import Case, all_terms
from trainer_node.rounded.evaluators import NumpyEvaluator


class InOrder(NumpyEvaluator):
    """Adds every sum from its first term to its last, or backwards; all else as in the readable evaluation."""

    def __init__(self, *, backwards: bool) -> None:
        self.name = "backwards" if backwards else "forwards"
        self._step = -1 if backwards else 1

    def evaluate(
        self, name: str, inputs: Sequence[Array], attrs: Mapping[str, Any], bounds: Bounds
    ) -> Evaluation:
        found = super().evaluate(name, inputs, attrs, bounds)
        if arithmetic(name, inputs, attrs) is Arithmetic.ELEMENTARY:
            return found
        terms = all_terms(Case(name, list(inputs), dict(attrs)), found.x.size)
        total = np.zeros(len(terms))
        with np.errstate(invalid="ignore"):
            for k in range(terms.shape[1])[:: self._step]:
                total = total + terms[:, k]
        return replace(found, x=total.reshape(found.x.shape))

    def product(self, a: Array, b: Array, bounds: Bounds) -> Evaluation:
        return self.evaluate("mm", [a, b], {}, bounds)


def both() -> tuple[InOrder, InOrder]:
    """Return the evaluators that add forwards and backwards."""
    return InOrder(backwards=False), InOrder(backwards=True)
