"""The truth of a whole node in mode rounded-f64, as a verifier computes it (docs/rounding-logs.md, section 3).

A log is an input of the computation. With it every element of a node has one right value, in every order of additions
and on every machine. The readable rule for one element, in fractions, is among the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repops.host import cpu
from repops.opset import Arithmetic
from repops.tensors import Array

from ..program.modes import Rounding
from .entries import Log
from .environment import sound
from .evaluate import arithmetic, evaluate, has_log, single
from .follow import follow
from .narrow import as_bf16, as_f32, is_bf16
from .taps import Attrs


def truth(
    name: str, inputs: Sequence[Array], attrs: Attrs, log: Log | None, rounding: Rounding
) -> list[Array]:
    """Return the outputs of an operator. `log` is the trainer's committed log of this node, or None.

    Inputs are arrays that the caller has checked against the operator (`repops.opset`); computed floats are on the
    grid. Raises InvalidInput beyond 2^31 terms, OpError from operators that do not fit their inputs, and Disturbed.
    """
    with sound(f"numpy's {name}"):
        return _truth(name, inputs, attrs, log, rounding)


def _truth(
    name: str, inputs: Sequence[Array], attrs: Attrs, log: Log | None, rounding: Rounding
) -> list[Array]:
    if has_log(name, inputs, attrs, rounding.bits):
        narrow, given = any(map(is_bf16, inputs)), list(map(as_f32, inputs))
        evaluation = evaluate(name, given, attrs, rounding.bounds)
        entries = Log.empty(evaluation.elements) if log is None else log
        chosen = rounding.of_bf16 if narrow else rounding
        values = follow(name, given, attrs, evaluation, entries, chosen).values
        return [as_bf16(values) if narrow else values]
    if arithmetic(name, inputs, attrs) == Arithmetic.SINGLE:
        with np.errstate(over="ignore"):
            return [single(name, inputs, rounding.bits).astype(np.float32)]
    return list(cpu.execute(name, list(inputs), attrs))
