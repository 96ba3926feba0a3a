"""The shared library with AddressSanitizer and UBSan, loaded by Python: any report ends the process, and so the test.

tests/kernels/test_builds.py does the same with recorded calls; here the arrays are numpy's, with all shapes of the
tests of the executors.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.replay import recording

ROOT = Path(__file__).parents[2]
OPTIONS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
GCC = ("gcc", "-fopenmp")
TESTS = (
    "f64/test_f64.py",
    "f64/test_f64_conv.py",
    "f64/test_grid.py",
    "fuse/test_fusion.py",
    "host/test_chains.py",
    "host/test_hashing.py",
    "test_exact.py",
    "test_executors.py",
    "test_philox.py",
    "test_selftest.py::test_the_kernels_give_the_digests",
    "test_tensor_core.py",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def run_python(library, *arguments):
    """Run with the sanitizer's allocator for everything, because it must watch numpy's arrays."""
    asan = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    ).stdout.strip()
    environment = {
        **os.environ,
        "LD_PRELOAD": asan,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own
        "PYTHONMALLOC": "malloc",
        "REPOPS_LIBRARY": str(library),
    }
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, cwd=ROOT
    )


def test_executors_make_no_report(tmp_path):
    library = recording.build_library(tmp_path, GCC, OPTIONS)
    done = run_python(
        library,
        *("-m", "pytest", "-q", "-n", "0", "-o", f"cache_dir={tmp_path}", "--timeout", "1200"),
        *(f"tests/kernels/{test}" for test in TESTS),
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize(
    ("call", "report"),
    [
        ("execute('arange', [], {'n': 1000})", "heap-buffer-overflow"),
        ("execute('arange', [], {'n': 3})", "heap-buffer-overflow"),
        ("execute('neg', [np.array([-(2**63)])], {})", "cannot be represented"),
    ],
)
def test_a_kernel_that_leaves_its_arrays_is_reported(call, report, tmp_path):
    """The control: kernels that are wrong on purpose."""
    library = recording.build_library(tmp_path, GCC, OPTIONS, kernels=recording.OUTSIDE)
    done = run_python(library, "-c", f"import numpy as np; from repops.host.cpu import execute; {call}")
    assert done.returncode != 0
    assert report in done.stderr
