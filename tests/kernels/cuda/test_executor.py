"""The executor and the launching of plans, against a driver that runs kernels on the host."""

from types import SimpleNamespace

import numpy as np
import pytest
from repops.block_data import drawn, factors
from repops.cuda import executor
from repops.cuda.errors import CudaUnavailable, LaunchError
from repops.host import cpu
from repops.host.hashing import TreeKind
from repops.opset import OPS, ArityError, DtypeError
from repops.random_calls import random_call
from repops.reference.tensor_core import block
from repops.sums import SumMode
from repops.tensors import AliasError, ArrayError, canonical

from referee_py.commit.tensor import data_tree

from .calls import contractions, of_bf16
from .emulation import needs_gcc

torch = pytest.importorskip("torch")

from .host_driver import get, put  # noqa: E402 - needs torch

pytestmark = needs_gcc


def test_every_operator_runs_through_the_driver(driver):
    for op in OPS:
        for seed in range(5):
            inputs, attrs = random_call(op.name, seed)
            want = cpu.execute(op.name, inputs, attrs)
            got = executor.execute(op.name, [put(array) for array in inputs], attrs)
            for a, b in zip(got, want, strict=True):
                assert canonical(get(a)).tobytes() == canonical(b).tobytes(), (op.name, seed)
    assert len(driver.modules) == len(set(driver.modules))  # each loaded once, for the GPU's architecture
    assert all(code.endswith(" for sm_90") for code in driver.modules)
    assert {stream for _, stream in driver.launched} == {77}
    assert driver.contexts == []


def test_workspaces_are_allocated(driver):
    for name, inputs, attrs in contractions():
        (got,) = executor.execute(name, [put(array) for array in inputs], attrs)
        assert canonical(get(got)).tobytes() == canonical(cpu.execute(name, inputs, attrs)[0]).tobytes()
    assert "add_chunks" in {name for name, _ in driver.launched}


def test_the_mode_tc16(driver):
    rng = np.random.default_rng(0)
    calls = [("mm", factors(rng, "special values", 40, 700, 24), {})]
    calls += [call for call in of_bf16() if call[0].startswith("conv2d")][::9]
    for name, inputs, attrs in calls:
        (got,) = executor.execute(name, [put(array) for array in inputs], attrs, sums=SumMode.TC16)
        (want,) = cpu.execute(name, inputs, attrs, sums=SumMode.TC16)
        assert canonical(get(got)).tobytes() == canonical(want).tobytes()
    launched = {name for name, _ in driver.launched}
    assert {"tc16_matmul_small", "tc16_conv2d_small", "tc16_conv2d_again"} <= launched


def test_blocks_of_the_mode_tc16(driver):
    rng = np.random.default_rng(0)
    a, b = (drawn(rng, "wide", (9, 16)) for _ in "ab")
    c = rng.standard_normal(9).astype(np.float32)
    want = block(a.view(np.uint16), b.view(np.uint16), c.view(np.uint32))
    assert get(executor.blocks(put(a), put(b), put(c))).view(np.uint32).tolist() == want.tolist()
    with pytest.raises(ArrayError, match="blocks: factors or accumulators have the wrong dtypes or shapes"):
        executor.blocks(put(a), put(b), put(c[1:]))
    assert get(executor.blocks(put(a[:0]), put(b[:0]), put(c[:0]))).size == 0


def test_results_go_where_they_are_wanted(driver):
    x, out = put(np.arange(6, dtype=np.float32)), put(np.zeros((2, 3), np.float32))
    assert executor.execute("reshape", [x], {"shape": (2, 3)}, [out])[0] is out
    assert get(out).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert executor.execute("reshape", [x], {"shape": (3, 2)})[0].data_ptr() == x.data_ptr()
    executor.execute("neg", [out], {}, [twice := put(np.zeros((2, 3), np.float32))])
    assert get(twice).tolist() == [[0, -1, -2], [-3, -4, -5]]


def test_refusals_name_the_argument(driver):
    x = put(np.zeros((4, 6), np.float32))
    host, turned = torch.zeros(4, 6), x.t()
    with pytest.raises(ArrayError, match="add: b is not a torch tensor"):
        executor.execute("add", [x, [1.0]], {})
    with pytest.raises(ArrayError, match="add: b is not on a GPU"):
        executor.execute("add", [x, host], {})
    with pytest.raises(ArrayError, match=r"neg: .* is not contiguous"):
        executor.execute("neg", [turned], {})
    with pytest.raises(DtypeError, match=r"add: a: dtype.*float64"):
        executor.execute("add", [x.double(), x], {})
    with pytest.raises(ArityError):
        executor.execute("add", [x], {})
    elsewhere = put(np.zeros((4, 6), np.float32))
    elsewhere.device = SimpleNamespace(index=1, type="cuda")
    with pytest.raises(ArrayError, match="different GPUs"):
        executor.execute("add", [x, elsewhere], {})


def test_outputs_must_be_apart_and_of_the_right_kind(driver):
    x, y = put(np.zeros((4, 6), np.float32)), put(np.zeros((4, 6), np.float32))
    with pytest.raises(AliasError, match="add: out 0 shares memory with add: b"):
        executor.execute("add", [x, y], {}, [y])
    with pytest.raises(AliasError):
        executor.execute("neg", [x[:2]], {}, [x[1:3]])
    with pytest.raises(ArrayError, match="out has the wrong dtypes or shapes"):
        executor.execute("add", [x, y], {}, [x[:2]])


def test_trees_of_hashes(driver):
    kind = TreeKind(1, 16, bytes(32))
    array = np.arange(5000, dtype=np.float32)
    levels = executor.hash_tree(put(array), kind)
    leaves = data_tree(array.tobytes()).leaves
    assert b"".join(leaves) == get(levels[0]).tobytes()
    assert [len(level) for level in levels] == [20, 10, 5, 3, 2, 1]


def test_what_the_driver_refuses_is_an_error(driver):
    driver.cuLaunchKernel = lambda *_: (1,)
    with pytest.raises(LaunchError, match="no such thing"):
        executor.execute("neg", [put(np.zeros(4, np.float32))], {})
    assert driver.contexts == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_backend_says_so():
    from repops import backend

    with pytest.raises(CudaUnavailable, match="no CUDA device"):
        backend("cuda")
