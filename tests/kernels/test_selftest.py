"""The committed digests are complete and the reference's, and the kernels give them."""

import numpy as np
import pytest
from repops import backend, selftest
from repops.backends import Backend
from repops.host import cpu
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import OPS
from repops.sums import SumMode

LINES = {line.name: line for line in selftest.lines()}
NAMES = list(LINES)


def test_every_operator_has_a_digest_in_the_order_of_the_table():
    """After adding an operator: python -m repops.selftest --backend reference --write"""
    assert list(selftest.golden()) == NAMES


SLOW = {"cos", "erf", "log", "log1p", "pow", "sin", "tanh"}
"""The reference takes ten seconds or more for them; of its kind `exp` is quick."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] if line.sums is not SumMode.REPOPS_F32 or name in SLOW else []
        )
        for name, line in LINES.items()
    ],
)
def test_the_reference_gives_the_digest(name):
    line = LINES[name]
    assert selftest.digest(backend("reference", line.sums), line.operator) == selftest.golden()[name]


@pytest.mark.parametrize(
    "isa",
    [*(pytest.param(isa, marks=pytest.mark.slow) for isa in ISA_NAMES[:BEST_ISA]), ISA_NAMES[BEST_ISA]],
)
@pytest.mark.parametrize(
    "threads", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(5, marks=pytest.mark.slow)]
)
def test_the_kernels_give_the_digests(isa, threads, capsys):
    assert selftest.main(["--isa", isa, "--threads", str(threads)]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines()] == NAMES
    assert all(line.endswith(" ok") for line in out.splitlines())
    assert err == ""


def test_names_the_first_operator_that_differs(monkeypatch, capsys):
    """One bit, in one element of two operators."""

    def wrong(name, inputs, attrs):
        outputs = [output.copy() for output in cpu.execute(name, inputs, attrs)]
        if name in ("conv2d", "mul") and outputs[0].size:
            outputs[0].reshape(-1).view(np.uint8)[0] ^= 1
        return outputs

    monkeypatch.setattr(selftest, "OPS", [op for op in OPS if op.name in ("add", "mul", "mm", "conv2d")])
    of_mode = {sums: backend("cpu", sums) for sums in SumMode} | {SumMode.REPOPS_F32: Backend("cpu", wrong)}
    monkeypatch.setattr(selftest, "_executors", lambda *_: of_mode.get)
    assert selftest.main([]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines() if line.endswith("DIFFERS")] == ["mul", "conv2d"]
    assert err == "first operator that differs: mul\n"


def test_an_operator_without_a_digest_differs(monkeypatch, capsys):
    digests = selftest.golden()
    del digests["arange"]
    monkeypatch.setattr(selftest, "golden", lambda: digests)
    monkeypatch.setattr(selftest, "OPS", [op for op in OPS if op.name in ("add", "arange")])
    assert selftest.main([]) == 1
    assert capsys.readouterr().err == "first operator that differs: arange\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--backend", "abacus"],
        ["--isa", "avx9000"],
        ["--threads", "0"],
        ["--threads", "some"],
        ["--backend", "reference", "--threads", "2"],
        ["--backend", "reference", "--isa", "portable"],
        ["--write"],
    ],
)
def test_refuses_options_that_do_not_fit(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        selftest.main(arguments)
    assert caught.value.code == 2
    assert "error: " in capsys.readouterr().err


def test_writes_what_it_compares_with(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(selftest, "GOLDEN", tmp_path / "selftest.txt")
    monkeypatch.setattr(selftest, "OPS", OPS[:2])
    assert selftest.main(["--backend", "reference", "--write"]) == 0
    assert selftest.main([]) == 0
    assert list(selftest.golden()) == ["add", "sub"]
