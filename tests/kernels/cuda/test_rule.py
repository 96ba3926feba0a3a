"""A device's tensor cores are compared with the rule of tc16 before a node relies on them."""

from __future__ import annotations

import numpy as np
import pytest
import repops
from repops.block_data import DRAWERS
from repops.cuda import executor, rule, tensor_core
from repops.cuda.errors import RuleBroken
from repops.cuda.plan import Target
from repops.opset import BF16
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE, check

from benchmarks import gpu_checks, gpu_tensor_core
from referee_py.errors import Unavailable
from trainer_node.errors import ConfigError
from trainer_node.run import devices

from .emulation import needs_gcc

pytest.importorskip("torch")
KINDS = ("ordinary", "any bits", "subnormal results")


@pytest.fixture
def device(driver, monkeypatch):
    """A GPU whose kernels are emulated."""
    from .host_driver import get, put

    monkeypatch.setattr(executor, "put", put)
    monkeypatch.setattr(executor, "get", get)
    monkeypatch.setattr(rule, "EACH", 200)
    monkeypatch.setattr(repops, "backend", lambda *_: "the kernels of a GPU")
    devices._keeps_the_rule.cache_clear()
    yield put, get
    devices._keeps_the_rule.cache_clear()


def flipped(monkeypatch, device, bit, chosen):
    """Let blocks be wrong in a bit where ``chosen(c)`` says so."""
    (put, get), right = device, executor.blocks

    def wrong(a, b, c):
        found, before = get(right(a, b, c)).view(np.uint32), get(c)
        return put(np.where(chosen(before), found ^ np.uint32(bit), found).view(np.float32))

    monkeypatch.setattr(executor, "blocks", wrong)


@needs_gcc
def test_a_device_that_keeps_the_rule_is_taken(device, monkeypatch):
    assert rule.check(200, KINDS, ()) == len(KINDS) * (200 + 64 * 64 * 33)
    assert len(DRAWERS) * rule.EACH < 10**5 < len(DRAWERS) * (1 << 13)
    seen = []
    monkeypatch.setattr(rule, "check", lambda: seen.append(None) or 7)
    for _ in range(3):
        assert devices.kernels_of("cuda", SumMode.TC16) == "the kernels of a GPU"
    assert len(seen) == 1, "once for each process"
    devices.kernels_of("cuda", SumMode.EXACT)
    devices.kernels_of("cpu", SumMode.TC16)
    assert len(seen) == 1, "the other modes rest on no tensor core's sums, and no processor has any"


@needs_gcc
@pytest.mark.parametrize("bit", [1, 1 << 31])
def test_a_device_that_breaks_the_rule_is_refused(device, monkeypatch, bit):
    flipped(monkeypatch, device, bit, lambda c: c == 0)  # only where a chunk begins
    with pytest.raises(RuleBroken, match=r"blocks break the rule, the first: a [0-9a-f]{64} b"):
        rule.check(200, KINDS, ())
    real = rule.check
    monkeypatch.setattr(rule, "check", lambda: real(200, KINDS[:1], ()))
    with pytest.raises(Unavailable, match=r"does not compute the mode tc16: ordinary: .*or leave the job"):
        devices.kernels_of("cuda", SumMode.TC16)
    monkeypatch.setattr(gpu_tensor_core, "EACH", 50)
    monkeypatch.setattr(rule, "check", lambda each: real(each, KINDS[:1], ()))
    with pytest.raises(gpu_checks.Differs, match="blocks break the rule"):
        gpu_tensor_core.blocks_keep_the_rule()


@needs_gcc
def test_products_are_compared_too(device, monkeypatch):
    """Blocks one by one are right, and the other instruction is not."""
    (put, get), right = device, executor.execute

    def wrong(name, inputs, attrs, **given):
        (found,) = right(name, inputs, attrs, **given)
        bits = get(found).copy()
        bits.view(np.uint16)[5, 7] ^= 1
        return [put(bits)]

    monkeypatch.setattr(executor, "execute", wrong)
    with pytest.raises(
        RuleBroken, match=r"^ordinary: 1 of 4096 elements of mm of \(64, 528\) and \(528, 64\) are not"
    ):
        rule.check(50, KINDS[:1], ())


def test_a_machine_without_a_gpu_says_so():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(ConfigError, match='set device = "cpu"'):
        devices.kernels_of("cuda", SumMode.TC16)


@pytest.mark.parametrize("multiprocessors", [78, 108, 114, 132, 144, 148])
def test_every_instruction_that_products_use_is_compared(multiprocessors):
    target = Target(multiprocessors, warpgroups=True)

    def kernels(rows, terms, columns):
        pair = [np.zeros(shape, NUMPY_DTYPE[BF16]) for shape in ((rows, terms), (terms, columns))]
        return {launch.kernel for launch in tensor_core.product(check("mm", pair, {}), target).launches}

    shapes = [(m, n) for m in (64, 256, 768, 4096, 8192) for n in (64, 192, 384, 2304, 4096)]
    used = set.union(*(kernels(m, 1024, n) for m, n in shapes))
    assert len(used) == 3, "two tiles, and the sum of chunks"
    assert {name for name in used if "tc16" in name} == kernels(*rule.PRODUCT) | kernels(*rule.LARGE_PRODUCT)
    pair = [np.zeros(shape, NUMPY_DTYPE[BF16]) for shape in rule.CONVOLUTION]
    plan = tensor_core.convolution(check("conv2d", pair, rule._WINDOW), target)
    assert any("patches" in launch.kernel for launch in plan.launches)
