"""Changes of the floating-point environment by other libraries change no result, and the environment is restored."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import repops
from repops.f64.conv import conv
from repops.f64.sums import Workspace, f64_scatter, f64_squares
from repops.host import cpu
from repops.host.chains import Chain, Sums
from repops.host.library import ISA_NAMES
from repops.opset import OPS
from repops.selftest import digest, golden

HERE = Path(__file__).parent.parent
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
@pytest.mark.parametrize("name", [op.name for op in OPS])
def test_callers_environment_changes_nothing_and_is_restored(name, flags):
    saved = get_mxcsr()
    try:
        set_mxcsr(saved | flags)
        disturbed = digest(repops.backend("cpu"), name)
        left = get_mxcsr()
    finally:
        set_mxcsr(saved)
    assert disturbed == golden()[name]
    assert left & flags == flags


@x86_only
def test_subnormal_operands_are_made_wide_where_others_flush_them():
    least, attrs = 2.0**-149, {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    x, w = (np.full(shape, least, np.float32) for shape in ((1, 2, 9, 9), (3, 2, 3, 3)))
    index, space = np.arange(9) % 4, Workspace()
    saved = get_mxcsr()
    try:
        set_mxcsr(saved | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO)
        product = conv("conv2d", x, w, attrs, space)
        squares = f64_squares(x[0], space)
        added = f64_scatter(x[0, 0], index, x[0, 1], space)
        left = get_mxcsr()
    finally:
        set_mxcsr(saved)
    assert left & (FLUSH_TO_ZERO | DENORMALS_ARE_ZERO)
    assert product.x[0, 0, 4, 4] == 18 * least**2
    assert product.left[0, 0, 0] == product.right[0, 0, 4, 4] == np.sqrt(18) * least
    assert np.array_equal(squares, np.full((2, 9), 9 * least**2))
    assert np.array_equal(added.sums[:, 0] / least, [4, 3, 3, 3])


@x86_only
@pytest.mark.parametrize("flags", [FLUSH_TO_ZERO | DENORMALS_ARE_ZERO, ROUND_UP])
def test_states_of_chains_where_others_flush_subnormals(flags):
    least, third = np.full(9, 2.0**-149, np.float32), np.full(9, 1 / 3, np.float32)
    chains = [Chain("sum", [least], {"dims": (0,), "keepdim": 0}, 0, sums=sums) for sums in Sums] + [
        Chain("mm", [third.reshape(1, 9), third.reshape(9, 1)], {}, 0)
    ]
    want = [chain.advance(bytes(chain.state_bytes), 0, 9) for chain in chains]
    saved = get_mxcsr()
    try:
        set_mxcsr(saved | flags)
        found = [chain.advance(bytes(chain.state_bytes), 0, 9) for chain in chains]
        left = get_mxcsr()
    finally:
        set_mxcsr(saved)
    assert found == want
    assert want[0][:4] == (9).to_bytes(4, "big")
    assert left & flags == flags


@pytest.fixture
def fast_math_library(tmp_path):
    """NOTE: crtfastmath.o is linked by name, because gcc links it into shared libraries only up to version 12."""
    library = tmp_path / "libfast.so"
    printed = subprocess.run(
        ["gcc", "-print-file-name=crtfastmath.o"], check=True, capture_output=True, text=True
    )
    options = ["-O2", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    source = HERE / "environment" / "fast_math.c"
    subprocess.run(["gcc", *options, source, printed.stdout.strip(), "-o", library], check=True)
    return library


@pytest.mark.slow
@x86_only
def test_a_library_built_with_fast_math_changes_nothing(fast_math_library):
    """Tests the loading thread, threads from before and after, and OpenMP's, which inherited its settings."""
    command = [sys.executable, HERE / "environment" / "process.py", fast_math_library]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("same bits, environment given back") == 4


@pytest.mark.parametrize("option", ["-ffast-math", "-Ofast", "-funsafe-math-optimizations"])
def test_kernels_refuse_to_be_compiled_with_fast_math(option, tmp_path):
    sources = HERE.parents[1] / "kernels" / "csrc"
    source = sources / "elementwise" / "pointwise.c"
    command = ["gcc", "-std=c11", option, f"-I{sources}", "-c", source, "-o", tmp_path / "object"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert "repops is defined bit for bit" in done.stderr


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
