"""The mode tc16, of all kinds of data, by the emulated kernels of a device, compared with the kernels of the processor
(which tests/kernels/test_tensor_core_campaign.py compares with the reference)."""

from __future__ import annotations

import numpy as np
import pytest
from repops.cuda.plan import Target
from repops.host import tensor_core
from repops.tensors import canonical

from tests.kernels.tensor_core_cases import KINDS
from tests.kernels.test_tensor_core_campaign import EACH, calls

from .emulation import needs_gcc
from .tensor_core_calls import in_binary32

pytestmark = [needs_gcc, pytest.mark.slow, pytest.mark.timeout(3600)]

ORDERS = 4


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind, capsys):
    assert EACH * len(KINDS) > 10_000_000
    rng = np.random.default_rng([77, KINDS.index(kind)])
    elements, wrong = 0, 0
    for number, (name, inputs, attrs) in enumerate(calls(rng, kind)):
        want = tensor_core.in_binary32(name, inputs, attrs)
        target = Target(int(rng.choice([1, 4, 16, 132])))
        got = in_binary32(name, inputs, attrs, order=number % ORDERS, target=target, shift=number % 3 % 2)
        elements += want.size
        wrong += int((canonical(got).view(np.uint32) != canonical(want).view(np.uint32)).sum())
    with capsys.disabled():
        print(f"\n{kind}: {elements} elements, {wrong} wrong")
    assert not wrong
