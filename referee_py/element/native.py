"""An element's chain, computed natively (repops.host.chains)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from repops.host.chains import Chain
from repops.tensors import Array

from .case import Case
from .modes import OF_MODES


def native_chain(case: Case, inputs: Sequence[Array]) -> Chain:
    """Return the chain of an element on these operands. Raises OpError as `Chain`, UnknownVersion for an unknown mode.

    NOTE: the chain reads every NaN as the canonical one.
    """
    plain = [np.asarray(np.require(array, requirements=["C", "A"])) for array in inputs]
    sums = OF_MODES.of(case.mode).sums
    return Chain(case.name, plain, case.attrs, case.element, output=case.output, sums=sums)
