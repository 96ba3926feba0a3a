"""The checks of scripts/gpu_check: they run on a GPU if there is one; otherwise, they must notice a difference."""

import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from repops.backends import Backend
from repops.cuda import LaunchError
from repops.host import cpu
from repops.opset import OPS
from repops.sums import SumMode

from benchmarks import gpu_checks, gpu_exact, gpu_tensor_core, gpu_timings

from .calls import normal, rounded
from .emulation import BACKEND, TC16, needs_gcc

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(lambda: gpu_checks.same_digests(gpu_checks.on_gpu()), id="digests", marks=on_a_gpu),
        pytest.param(lambda: gpu_checks.all_small(gpu_checks.on_gpu(), 5), id="small", marks=on_a_gpu),
        pytest.param(
            lambda: gpu_checks.same_results(gpu_checks.on_gpu(), gpu_checks.large_calls()),
            id="large",
            marks=[*on_a_gpu, pytest.mark.slow],
        ),
        pytest.param(
            lambda: gpu_checks.products_of_bf16(gpu_exact.on_gpu_by(gpu_exact.BY_BYTES)),
            id="bytes",
            marks=on_a_gpu,
        ),
        pytest.param(gpu_tensor_core.blocks_keep_the_rule, id="blocks", marks=on_a_gpu),
        pytest.param(
            lambda: gpu_checks.same_results(
                gpu_checks.on_gpu(SumMode.TC16), gpu_checks.contractions_of_bf16(5)
            ),
            id="tc16",
            marks=on_a_gpu,
        ),
        pytest.param(
            lambda: gpu_checks.same_results(
                gpu_checks.on_gpu(SumMode.TC16), gpu_tensor_core.calls_of_warpgroups()
            ),
            id="warpgroups",
            marks=on_a_gpu,
        ),
        pytest.param(gpu_checks.fused_expressions_agree, id="fused", marks=on_a_gpu),
        pytest.param(gpu_checks.same_trees, id="trees", marks=on_a_gpu),
        pytest.param(gpu_checks.graph_replays_the_same, id="graph", marks=on_a_gpu),
    ],
)
def test_on_this_gpu(check):
    assert check() > 0


@needs_gcc
def test_the_part_tc16_of_the_script_runs_and_notices_what_differs(driver, monkeypatch, capsys):
    from repops.cuda import executor, rule

    from .host_driver import get, put

    loader = SourceFileLoader("gpu_check", str(ROOT / "scripts/gpu_check"))
    script = module_from_spec(spec_from_loader("gpu_check", loader))
    loader.exec_module(script)
    monkeypatch.setattr(executor, "put", put)
    monkeypatch.setattr(executor, "get", get)
    monkeypatch.setattr(gpu_tensor_core, "EACH", 64)
    whole = rule.check
    monkeypatch.setattr(rule, "check", lambda each: whole(each, large=()))
    monkeypatch.setattr(gpu_checks, "OPS", [op for op in OPS if op.name in ("mm", "conv2d")])
    few = [("mm", rounded(normal(9, 40), normal(40, 5, seed=1)), {})]
    monkeypatch.setattr(gpu_checks, "contractions_of_bf16", lambda seeds: few * seeds)
    monkeypatch.setattr(gpu_checks, "large_calls", lambda: few)
    monkeypatch.setattr(gpu_tensor_core, "calls_of_warpgroups", lambda: few)
    monkeypatch.setattr(gpu_checks, "on_gpu", lambda sums: {TC16.sums: TC16}[sums])
    assert script.tensor_cores(3)
    assert capsys.readouterr().out.count(" agree ") == 5
    monkeypatch.setattr(gpu_checks, "on_gpu", lambda _: Backend("wrong", BACKEND.execute, SumMode.TC16))
    assert not script.tensor_cores(3)
    out = capsys.readouterr().out
    assert out.startswith(f"blocks of tensor cores: {rule.check(64)} agree ")
    assert "self-test digests in the mode tc16: DIFFERS" in out


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_script_says_so():
    done = subprocess.run([sys.executable, ROOT / "scripts/gpu_check"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr


@needs_gcc
def test_the_checks_pass_with_emulated_kernels():
    assert gpu_checks.same_results(BACKEND, gpu_checks.random_calls(1)) == len(OPS)


@needs_gcc
def test_products_of_bf16_go_the_way_that_is_asked_for(driver):
    from .host_driver import get, put

    a, b = rounded(normal(9, 40), normal(40, 5, seed=1))
    (want,) = cpu.execute("mm", [a, b], {}, sums=SumMode.EXACT)
    for least, kernel in (
        (gpu_exact.BY_BYTES, "exact_int8_multiply"),
        (gpu_exact.BY_F64, "exact_matmul_bf16_small"),
    ):
        driver.launched.clear()
        (got,), compute = gpu_exact.prepared("mm", [put(a), put(b)], {}, least)
        compute()
        assert get(got).tobytes() == want.tobytes()
        assert kernel in {name for name, _ in driver.launched}


@pytest.mark.slow
def test_a_digest_that_differs_is_named():
    def execute(name, inputs, attrs):
        outputs = cpu.execute(name, inputs, attrs)
        if name in ("mm", "bmm"):
            outputs[0][..., -1:, -1:] += 1
        return outputs

    with pytest.raises(gpu_checks.Differs, match=r"self-test of mm .*\n.*self-test of bmm"):
        gpu_checks.same_digests(Backend("wrong", execute))


def products(*sizes):
    for m, k, n in sizes:
        yield "mm", [normal(m, k), normal(k, n, seed=1)], {}


def test_all_differences_are_found_and_some_of_each_operator_named():
    def execute(name, inputs, attrs):
        outputs = cpu.execute(name, inputs, attrs)
        if name == "mm":
            outputs[0][-1:, -1:] += 1
        return outputs

    wrong = Backend("wrong", execute)
    calls = [*products(*[(m, 5, 3) for m in range(1, 8)]), ("neg", [normal(4)], {})]
    with pytest.raises(gpu_checks.Differs) as raised:
        gpu_checks.same_results(wrong, calls)
    assert {name: len(found) for name, found in raised.value.found.items()} == {"mm": 7}
    first, *_, last = str(raised.value).splitlines()
    assert re.match(
        r"mm of \[\(1, 5\), \(5, 3\)\] .* output 0: 1 of 3 differ, .* element 2: .* on wrong", first
    )
    assert last == "and 3 more of mm"


def test_a_call_that_fails_is_a_difference_and_many_in_a_row_are_the_end():
    tried = []

    def execute(name, inputs, attrs):
        tried.append(len(inputs[0]))
        if len(inputs[0]) in bad:
            raise LaunchError("refused")
        return cpu.execute(name, inputs, attrs)

    bad = {1, 3, 4}
    with pytest.raises(gpu_checks.Differs, match="LaunchError: refused") as raised:
        gpu_checks.same_results(Backend("broken", execute), products(*[(m, 2, 2) for m in range(1, 12)]))
    assert len(raised.value.found["mm"]) == len(bad)
    assert tried == list(range(1, 12))
    bad = range(3, 100)
    tried.clear()
    with pytest.raises(gpu_checks.Differs, match="5 calls in a row failed"):
        gpu_checks.same_results(Backend("broken", execute), products(*[(m, 2, 2) for m in range(1, 12)]))
    assert tried == list(range(1, 8))


def test_tables():
    rows = [
        gpu_timings.Row("mm", 10.0, 9.0, 2.5, "TFLOP/s"),
        gpu_timings.Row("hash", 5.0, None, 300.0, "GB/s"),
    ]
    assert "| mm | 10.0 | 9.0 | 0.90 | 2.5 TFLOP/s |" in gpu_timings.markdown("a GPU", rows)
    assert gpu_timings.plain(rows).splitlines()[2].split() == ["hash", "5.0", "300.0", "GB/s"]
