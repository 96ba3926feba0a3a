"""Every kernel, run on the host from the same sources, gives the bits of the reference."""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repops import reference
from repops.cuda.plan import Target
from repops.cuda.plans import plan_of
from repops.host import cpu
from repops.opset import OPS
from repops.random_calls import random_call
from repops.selftest import digest
from repops.sums import SumMode
from repops.tensors import canonical, check

from .calls import contractions, convolutions, every_call, of_bf16
from .emulation import BACKEND, TARGET, build, execute, library, needs_gcc

pytestmark = needs_gcc

NAMES = [op.name for op in OPS]
FORWARDS, BACKWARDS = 0, 3  # blocks, warps and lanes in ascending order, and in descending order


def assert_same_bits(got, want, context):
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), context
        assert canonical(a).tobytes() == canonical(b).tobytes(), context


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("amax", "log", "pow") else name
        for name in NAMES
    ],
)
def test_agrees_with_the_reference(name):
    for seed in range(2000, 2040):
        inputs, attrs = random_call(name, seed)
        want = reference.execute(name, inputs, attrs)
        assert_same_bits(execute(name, inputs, attrs, order=FORWARDS), want, (name, seed))
        assert_same_bits(
            execute(name, inputs, attrs, order=BACKWARDS, shift=1), want, (name, seed, "shifted")
        )


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_c_on_long_tensors(name):
    for seed in range(3000, 3006):
        inputs, attrs = random_call(name, seed, "long")
        want = cpu.execute(name, inputs, attrs)
        assert_same_bits(execute(name, inputs, attrs, order=BACKWARDS), want, (name, seed))


def test_agrees_with_c_on_calls_that_reach_every_path():
    for name, inputs, attrs in every_call():
        want = cpu.execute(name, inputs, attrs)
        context = (name, [x.shape for x in inputs], attrs)
        assert_same_bits(execute(name, inputs, attrs, order=FORWARDS), want, context)
        assert_same_bits(execute(name, inputs, attrs, order=BACKWARDS, shift=1), want, context)


@pytest.mark.parametrize("multiprocessors", [1, 16, 132])
def test_the_cut_of_the_work_changes_no_bit(multiprocessors):
    for name, inputs, attrs in (*contractions(), *convolutions(), *of_bf16()):
        want = cpu.execute(name, inputs, attrs)
        got = execute(name, inputs, attrs, target=Target(multiprocessors))
        assert_same_bits(got, want, (name, [x.shape for x in inputs], attrs))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "amax" else name for name in NAMES]
)
def test_the_self_test_prints_the_same_digests(name):
    assert digest(BACKEND, name) == digest(cpu_backend(), name)


def cpu_backend():
    from repops import backend

    return backend("cpu")


OF_WARPGROUPS = ("tc16_warpgroup", "tc16_patches", "tc16_rearranged")
"""Kernels that test_warpgroups.py reaches."""


def test_these_calls_reach_every_kernel():
    names = subprocess.run(["nm", "-D", build()], check=True, capture_output=True, text=True).stdout
    there = {
        name
        for name in re.findall(r"\b(\w+)_threads$", names, re.MULTILINE)
        if not name.startswith("hash_") and name != "tc16_blocks"  # of no operator
        if not name.startswith(OF_WARPGROUPS)
    }
    reached = set()
    random = [(name, *random_call(name, seed)) for name in NAMES for seed in range(2000, 2040)]
    for multiprocessors in (TARGET.multiprocessors, 1, 16, 132):
        for name, inputs, attrs in (*every_call(), *random):
            for sums in SumMode if name != "reshape" else ():
                plan = plan_of(check(name, inputs, attrs), Target(multiprocessors), sums)
                reached |= {launch.kernel.partition(".")[2] for launch in plan.launches}
    assert reached == there


def test_struct_sizes_are_checked():
    """A control: the library has the struct sizes on which the other tests rely."""
    name, inputs, attrs = next(contractions())
    plan = plan_of(check(name, inputs, attrs), TARGET)
    kernel = plan.launches[0].kernel.partition(".")[2]
    assert ctypes.c_int.in_dll(library(), f"{kernel}_bytes").value == len(plan.launches[0].words)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_access_out_of_bounds_and_no_undefined_arithmetic():
    """Most of the tests above, under AddressSanitizer and UBSan in a separate process."""
    made = build("-fsanitize=address,undefined", "-fno-sanitize=shift", optimise="-O1")
    runtime = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = {
        **os.environ,
        "REPOPS_EMULATION": str(made),
        "LD_PRELOAD": " ".join(runtime),
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0",
        "UBSAN_OPTIONS": "halt_on_error=1",
    }
    selected = "reference or every_path or long_tensors or random_calls"
    files = [
        __file__,
        *[str(Path(__file__).parent / f"test_{name}.py") for name in ("exact", "exact_int8", "tensor_core")],
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *files, "-k", selected]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
