"""An element's chain, computed natively (repops.host.chains)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repops.host.chains import Chain, Sums
from repops.tensors import Array

from ..program.mode import MODE_EXACT, MODE_REPOPS_F32, Rounding
from .case import Case

_SUMS = {MODE_REPOPS_F32: Sums.ORDERED, MODE_EXACT: Sums.EXACT}


def native_chain(case: Case, inputs: Sequence[Array]) -> Chain:
    """Return the chain of an element on these operands. Raises OpError as `Chain`, UnknownVersion for an unknown mode.

    NOTE: the chain reads every NaN as the canonical one.
    """
    plain = [np.asarray(np.require(array, requirements=["C", "A"])) for array in inputs]
    return Chain(case.name, plain, case.attrs, case.element, output=case.output, sums=_sums_of(case.mode))


def _sums_of(mode: int) -> Sums:
    if mode not in _SUMS:
        Rounding.of(mode)
    return _SUMS.get(mode, Sums.LOGGED)
