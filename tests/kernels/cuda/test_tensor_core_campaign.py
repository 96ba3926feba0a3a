"""The mode tc16, of all kinds of data, by the emulated kernels of a device, compared with the kernels of the processor
(which tests/kernels/test_tensor_core_campaign.py compares with the reference)."""

from __future__ import annotations

import numpy as np
import pytest
from repops.block_data import KINDS
from repops.cuda import patches
from repops.cuda import tensor_core as tensor_core_plans
from repops.cuda.plan import Target
from repops.host import tensor_core
from repops.tensors import canonical

from tests.kernels.test_tensor_core_campaign import EACH, calls

from .emulation import needs_gcc
from .tensor_core_calls import in_binary32

pytestmark = [needs_gcc, pytest.mark.slow, pytest.mark.timeout(3600)]

ORDERS = 4


@pytest.mark.parametrize("warpgroups", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(kind, warpgroups, capsys, monkeypatch):
    assert EACH * len(KINDS) > 10_000_000
    if warpgroups:  # also for what is small
        monkeypatch.setattr(tensor_core_plans, "LEAST_PADDED", 1)
        monkeypatch.setattr(patches, "LEAST_ROWS", 1)
        monkeypatch.setattr(patches, "LEAST_COLUMNS", 1)
    rng = np.random.default_rng([77, KINDS.index(kind)])
    elements, wrong = 0, 0
    for number, (name, inputs, attrs) in enumerate(calls(rng, kind)):
        want = tensor_core.in_binary32(name, inputs, attrs)
        target = Target(int(rng.choice([1, 4, 16, 132])), warpgroups=warpgroups)
        got = in_binary32(
            name,
            inputs,
            attrs,
            order=number % ORDERS,
            target=target,
            shift=0 if warpgroups else number % 3 % 2,
        )
        elements += want.size
        wrong += int((canonical(got).view(np.uint32) != canonical(want).view(np.uint32)).sum())
    with capsys.disabled():
        print(f"\n{kind}, {'warpgroups' if warpgroups else 'warps'}: {elements} elements, {wrong} wrong")
    assert not wrong
