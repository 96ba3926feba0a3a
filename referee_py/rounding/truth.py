"""The truth of a whole node in mode rounded-f64: what a verifier computes (docs/rounding-logs.md, section 3).

A log is an input of the computation. With it every element of a node has one right value, whoever computes it, in
whatever order: there is nothing to choose. `exact.truth_of_element` is the same rule for one element, to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repops import cpu
from repops.tensors import Array

from .entries import Log
from .environment import sound
from .evaluate import Kind, evaluate, has_log, kind, single
from .follow import follow
from .mode import Rounding
from .taps import Attrs


def truth(
    name: str, inputs: Sequence[Array], attrs: Attrs, log: Log | None, rounding: Rounding
) -> list[Array]:
    """The outputs of an operator. `log` is what the trainer committed to for this node, of as many elements, or None.

    Inputs are float32, int64 and bool arrays, checked by the caller against what the operator takes (`repops.opset`);
    float32 outputs are on the grid where they were computed. Raises InvalidInput beyond 2^31 terms, OpError from
    operators that do not fit their inputs, and Disturbed.
    """
    with sound(f"numpy's {name}"):
        return _truth(name, inputs, attrs, log, rounding)


def _truth(
    name: str, inputs: Sequence[Array], attrs: Attrs, log: Log | None, rounding: Rounding
) -> list[Array]:
    if has_log(name, inputs, attrs, rounding.bits):
        evaluation = evaluate(name, inputs, attrs, rounding.bounds)
        entries = Log.empty(evaluation.elements) if log is None else log
        return [follow(name, inputs, attrs, evaluation, entries, rounding).values]
    if kind(name, inputs, attrs) == Kind.SINGLE:
        with np.errstate(over="ignore"):
            return [single(name, inputs, rounding.bits).astype(np.float32)]
    return list(cpu.execute(name, list(inputs), attrs))
