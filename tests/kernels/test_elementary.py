"""exp and log against MPFR; all 2^32 inputs in the slow test."""

import shutil
import subprocess
from pathlib import Path

import gmpy2
import numpy as np
import pytest
from repops import cpu, reference
from repops.calls import SPECIAL_F32, Source
from repops.library import BEST_ISA

HERE = Path(__file__).parent
KERNELS = HERE.parent.parent / "kernels"
BINARY32 = gmpy2.context(precision=24, emin=-148, emax=128, subnormalize=True, round=gmpy2.RoundToNearest)
FUNCTIONS = {"exp": gmpy2.exp, "log": gmpy2.log}


def by_mpfr(name, x):
    with BINARY32.copy():
        return np.array([float(FUNCTIONS[name](gmpy2.mpfr(v))) for v in x.tolist()], np.float32)


def samples():
    """Every exponent and sign, special values, and the five inputs of log that need the table."""
    s = Source("elementary")
    anything = np.frombuffer(s.bytes(4 * 20000), "<u4").astype(np.uint32)
    table = np.array([0x3C413D3A, 0x41178FEB, 0x4C5D65A5, 0x65D890D3, 0x6F31A8EC], np.uint32)
    ordinary = np.linspace(-104.5, 89.5, 20000, dtype=np.float32).view(np.uint32)
    near_one = np.arange(0x3F7FF000, 0x3F801000, 7, dtype=np.uint32)
    x = np.concatenate([anything, SPECIAL_F32, table, ordinary, near_one]).view(np.float32)
    return x[~np.isnan(x)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_correctly_rounded(name):
    x = samples()
    want = by_mpfr(name, x)
    nan = np.isnan(want)
    for isa in range(BEST_ISA + 1):
        (got,) = cpu.execute(name, [x], {}, isa=isa)
        assert (np.isnan(got) == nan).all()
        assert (got.view(np.uint32) == want.view(np.uint32))[~nan].all()
    few = x[::10].copy()
    (got,) = reference.execute(name, [few], {})
    assert (got.view(np.uint32) == want[::10].view(np.uint32))[~nan[::10]].all()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_correctly_rounded_for_all_inputs(name, tmp_path):
    program, library = tmp_path / "exhaustive", KERNELS / "repops"
    options = [
        "-O2",
        "-std=c11",
        "-fopenmp",
        f"-I{KERNELS / 'csrc'}",
        f"-L{library}",
        f"-Wl,-rpath,{library}",
    ]
    source = HERE / "exhaustive_elementary.c"
    subprocess.run(["gcc", *options, source, "-o", program, "-lrepops", "-lm"], check=True)
    done = subprocess.run([program, name], check=True, capture_output=True, text=True)
    undecided = np.array(
        [[int(word, 16) for word in line.split()] for line in done.stdout.splitlines()], np.uint32
    )
    inputs, results = undecided.T.copy()
    assert len(inputs) > 0
    assert (by_mpfr(name, inputs.view(np.float32)).view(np.uint32) == results).all()
