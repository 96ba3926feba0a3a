"""What other libraries do to the floating-point environment changes nothing, and is given back."""

import ctypes
import os
import subprocess
import sys

import pytest
import repops
from repops import cpu
from repops.library import ISA_NAMES
from repops.selftest import digest

FENV_WORDS = 8  # 32 bytes: glibc's fenv_t on x86-64, whose last word is MXCSR
FLUSH_TO_ZERO, DENORMALS_ARE_ZERO, ROUND_UP = 0x8000, 0x0040, 0x4000

libm = ctypes.CDLL("libm.so.6")
x86_only = pytest.mark.skipif(os.uname().machine != "x86_64", reason="MXCSR is x86")


def get_mxcsr():
    environment = (ctypes.c_uint32 * FENV_WORDS)()
    libm.fegetenv(environment)
    return environment[7]


def set_mxcsr(value):
    environment = (ctypes.c_uint32 * FENV_WORDS)()
    libm.fegetenv(environment)
    environment[7] = value
    libm.fesetenv(environment)


@x86_only
@pytest.mark.parametrize("flags", [FLUSH_TO_ZERO | DENORMALS_ARE_ZERO, ROUND_UP])
@pytest.mark.parametrize(
    "name", ["mul", "div", "exp", "log", "sum", "mm", "conv2d", "scatter_add", "lt", "cast"]
)
def test_callers_environment_changes_nothing_and_is_restored(name, flags):
    executor = repops.backend("cpu")
    want = digest(executor, name)
    saved = get_mxcsr()
    try:
        set_mxcsr(saved | flags)
        disturbed = digest(executor, name)
        left = get_mxcsr()
    finally:
        set_mxcsr(saved)
    assert disturbed == want
    assert left & flags == flags


def digests(preamble="", **environment):
    program = (
        f"{preamble}\nfrom repops import backend, selftest as s\n"
        f"print([s.digest(backend('cpu'), n) for n in ('mul', 'exp', 'sum', 'mm', 'conv2d')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    return done.stdout


def test_environment_variables_choose_path_and_threads_not_bits():
    results = {digests(REPOPS_ISA=isa, REPOPS_NUM_THREADS="2") for isa in ISA_NAMES[: cpu.BEST_ISA + 1]}
    results.add(digests(REPOPS_NUM_THREADS="1"))
    assert len(results) == 1


def test_torch_flushing_subnormals_changes_nothing():
    pytest.importorskip("torch")
    assert digests("import torch; assert torch.set_flush_denormal(True)") == digests()


def test_unknown_instruction_set_is_refused():
    with pytest.raises(subprocess.CalledProcessError):
        digests(REPOPS_ISA="avx9000")


def test_thread_count_is_checked():
    before = repops.get_num_threads()
    repops.set_num_threads(3)
    assert repops.get_num_threads() == 3
    repops.set_num_threads(before)
    with pytest.raises(ValueError):
        repops.set_num_threads(0)
