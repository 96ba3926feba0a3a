"""The truth of a whole node in mode rounded-f64: what a verifier computes (docs/rounding-logs.md, section 3).

A log is an input of the computation. With it every element of a node has one right value, whoever computes it, in
whatever order: there is nothing to choose. `exact.truth_of_element` is the same rule for one element, to be read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repops import cpu
from repops.tensors import Array

from .band import follow
from .entries import Entries
from .evaluate import Kind, evaluate, kind, single
from .forms import read
from .mode import Rounding
from .primitives import F64
from .settle import settle
from .taps import I64, Attrs


def truth(
    name: str, inputs: Sequence[Array], attrs: Attrs, log: bytes | None, rounding: Rounding
) -> list[Array]:
    """The outputs of an operator. `log` is what the trainer committed to for this node, any bytes, or None.

    Inputs are float32, int64 and bool arrays, checked by the caller against what the operator takes (`repops.opset`);
    float32 outputs are on the grid where they were computed, with the canonical NaN. Raises InvalidInput beyond 2^31
    terms, and OpError from operators that do not fit their inputs.
    """
    what = kind(name, inputs, attrs)
    if what == Kind.MOVED:
        return list(cpu.execute(name, list(inputs), attrs))
    if what == Kind.SINGLE:
        with np.errstate(over="ignore"):
            return [single(name, inputs, rounding.bits).astype(np.float32)]
    evaluation = evaluate(name, inputs, attrs, rounding.bounds)

    def settled(positions: I64, entries: Entries) -> F64:
        return settle(name, inputs, attrs, positions, entries, rounding)

    x = evaluation.x
    entries = read(log, x.size, rounding.form)
    return [follow(x, evaluation.radius.array(x.shape), rounding.bits, entries, settled).values]
