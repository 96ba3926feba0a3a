"""Fused expressions: the generated kernels compile and give the bits of their operators one by one."""

import contextlib
import subprocess
from functools import partial

import numpy as np
import pytest
from repops.cuda import compiler, device
from repops.cuda.fusion import KEPT_ROW, Fused, FusedKernel
from repops.fuse import composites as c
from repops.fuse.expression import evaluate, record
from repops.fuse.phases import NotFusibleError
from repops.host import cpu
from repops.opset import BF16, BOOL, F32, I64, ShapeError
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE, canonical, spec_of

from . import emulation
from .calls import normal, rounded, special, whole
from .emulation import TARGET, Guarded, needs_gcc, run

ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.01, "decoupled": True}


def mixed(o, x, row, column, flags, numbers):
    chosen = o.where(o.logical_and(flags, o.ge(x, row)), o.sub(column, x), o.cast(numbers, dtype=F32))
    return chosen, o.mul(numbers, numbers), o.cast(chosen, dtype=3), o.lt(o.neg(x), column)


def both(o, x, k):
    """Several levels of blocks, in f32 and i64; results of a row's length, and of one item per row."""
    total, top = o.sum(x, dims=(1,), keepdim=1), o.amax(k, dims=(1,), keepdim=1)
    return o.mul(x, total), o.add(k, top), o.neg(total)


def four(o, x):
    return tuple(o.sum(o.mul(x, o.scalar(i)), dims=(1,), keepdim=1) for i in (1.0, 2.0, 3.0, 4.0))


def counted(o, k, flags):
    """Constants that are not floats."""
    minus_one = o.full(shape=(), dtype=I64, bits=(1 << 64) - 1)
    true = o.full(shape=(), dtype=BOOL, bits=1)
    return o.where(o.logical_and(flags, true), o.add(k, minus_one), k)


def narrow(o, x, k, half, flags):
    """Casts from and to bf16, a constant of bf16, and a choice between values of bf16."""
    wide = o.mul(o.cast(half, dtype=F32), x)
    chosen = o.where(flags, o.cast(wide, dtype=BF16), o.full(shape=(), dtype=BF16, bits=0x3FC0))
    return chosen, o.sum(o.cast(chosen, dtype=F32), dims=(1,), keepdim=1), o.cast_stochastic(x, k)


def expressions():
    x, grad = special(5, 6, 130), special(5, 6, 130, seed=1)
    weight, bias, mean, scale = normal(130), normal(130, seed=1), normal(5, 6, 1), normal(5, 6, 1, seed=1)
    yield c.gelu, [x], {}
    yield c.gelu_tanh_grad, [grad, x], {}
    yield c.silu_grad, [grad, x], {}
    yield (
        c.adam,
        [*[special(5000, seed=s) for s in range(4)], np.array(3, np.float32), np.array(1e-3, np.float32)],
        ADAM,
    )
    yield c.softmax, [x], {}
    yield c.softmax, [normal(3, 5000)], {}
    yield c.softmax_grad, [grad, x], {}
    yield c.log_softmax, [normal(7, 1025)], {}
    yield c.layer_norm, [x, weight, bias], {"eps": 1e-5}
    yield c.layer_norm_grad, [grad, x, weight, mean, scale], {}
    yield c.rms_norm, [normal(40, 33), normal(33)], {"eps": 1e-6}
    target, classes = np.arange(5)[:, None] * 3 % 8 - 1, np.arange(7)
    yield c.cross_entropy, [normal(5, 7), target, classes], {}
    yield c.cross_entropy_grad, [normal(5, 1), normal(5, 7), target, classes], {}
    numbers = whole(6, 5, 33, low=-9, high=9)
    yield mixed, [special(6, 5, 33), normal(33), normal(5, 1), normal(6, 1, 33) > 0, numbers], {}
    yield both, [normal(2, 4096 * 5 + 17), whole(2, 4096 * 5 + 17)], {}
    yield both, [normal(3, 4096), whole(3, 4096)], {}
    yield both, [normal(2, 4096 * 17 + 5), whole(2, 4096 * 17 + 5)], {}  # more blocks than warps
    yield narrow, [special(5, 70), whole(5, 70), *rounded(special(70, seed=1)), special(5, 1) > 0], {}
    yield counted, [whole(3, 70), whole(3, 1) > 4], {}


def made():
    for function, inputs, options in expressions():
        yield FusedKernel(record(function, [spec_of(array) for array in inputs], **options)), inputs


def centred(o, x):
    """Sums of what a later phase recomputes, and of what was there already, with results of both."""
    total = o.sum(x, dims=(1,), keepdim=1)
    rest = o.sub(x, total)
    return total, o.sum(o.mul(rest, rest), dims=(1,), keepdim=1), o.mul(rest, o.amax(x, dims=(1,), keepdim=1))


def exactly_made():
    """Kernels of the mode exact. Data of a wide range need digits; so do infinities and NaN."""
    wide = normal(9, 700) * np.exp2(whole(9, 700, low=-120, high=120)).astype(np.float32)
    wide[5] = np.abs(wide[5])
    beyond = normal(4, 70)
    beyond[0, 3], beyond[1, 5], beyond[2, 69], beyond[2, 0] = np.inf, np.nan, -np.inf, np.inf
    zeros = -np.zeros((2, 5), np.float32)
    more = [(centred, [data], {}) for data in (wide, beyond, special(6, 1024), normal(7, 33), zeros)]
    for function, inputs, options in [*expressions(), *more]:
        expression = record(function, [spec_of(array) for array in inputs], **options)
        if any(node.op == "sum" and node.spec[0] == F32 for node in expression.nodes):
            with contextlib.suppress(NotFusibleError):
                yield FusedKernel(expression, exact=True), inputs


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused")
    texts = {kernel.name: kernel.source for kernel, _ in (*made(), *exactly_made())}
    objects, sources = [], [*emulation.MACHINE]
    for name, text in texts.items():
        sources.append(folder / f"{name}.cpp")
        sources[-1].write_text(text)
    for source in sources:
        objects.append(folder / f"{source.stem}.o")
        command = [
            "g++",
            *emulation.OPTIONS,
            "-O1",
            *emulation.SHIM,
            "-c",
            str(source),
            "-o",
            str(objects[-1]),
        ]
        subprocess.run(command, check=True)
    subprocess.run(["g++", "-shared", *map(str, objects), "-o", str(folder / "fused.so")], check=True)
    return emulation.load(folder / "fused.so")


@needs_gcc
@pytest.mark.parametrize("order", [0, 3])
@pytest.mark.parametrize("exact", [False, True])
def test_gives_the_bits_of_the_operators(library, order, exact):
    for kernel, inputs in exactly_made() if exact else made():
        expression = kernel.expression
        want = evaluate(expression, partial(cpu.execute, sums=SumMode.of(exact)), inputs)
        specs = [expression.spec(number) for number in kernel.outputs]
        buffers = [Guarded(array.nbytes, array.tobytes()) for array in inputs]
        outputs = [Guarded(int(np.prod(shape)) * NUMPY_DTYPE[dtype].itemsize) for dtype, shape in specs]
        run(kernel.plan(TARGET), [*buffers, *outputs], order, library)
        for number, array in zip(expression.outputs, want, strict=True):
            got = np.frombuffer(outputs[kernel.outputs.index(number)].view.tobytes(), array.dtype)
            assert canonical(got).tobytes() == canonical(array).tobytes(), (expression.name, array.shape)


@needs_gcc
def test_runs_through_the_driver(library, driver, monkeypatch):
    from .host_driver import get, put

    monkeypatch.setattr(device, "cached", lambda _text, name, architecture: f"{name} for {architecture}")
    driver.library = library
    for kernel, inputs in made():
        fused = Fused(kernel.expression)
        tensors = [put(array) for array in inputs]
        for _ in range(2):
            got = fused(tensors)
        for a, b in zip(got, evaluate(kernel.expression, cpu.execute, inputs), strict=True):
            assert canonical(get(a)).tobytes() == canonical(b).tobytes(), kernel.expression.name
    assert len(driver.modules) == len(set(driver.modules))
    with pytest.raises(ShapeError, match="not what it was made for"):
        fused([put(np.zeros((2, 2), np.float32)), *tensors[1:]])


def test_only_rows_that_are_reduced_are_limited():
    row = (F32, (1, (1 << 24) + 1))
    assert not FusedKernel(record(c.gelu, [row]))._reduces
    with pytest.raises(NotFusibleError, match="rows of more than two levels"):
        FusedKernel(record(c.softmax, [row]))
    row = (F32, (1, 1 << 24))
    assert FusedKernel(record(c.softmax, [row]))._threads == 512
    with pytest.raises(NotFusibleError, match="long rows with many reductions"):
        FusedKernel(record(four, [row]))


def test_in_the_mode_exact_long_sums_are_not_fused():
    assert len(list(exactly_made())) > 12
    for n, sums in (KEPT_ROW, 1), (KEPT_ROW + 1, 0):
        expression = record(c.softmax, [(F32, (2, n))])
        assert not FusedKernel(expression)._exact
        if sums:
            assert "Total" in FusedKernel(expression, exact=True).source
        else:
            with pytest.raises(NotFusibleError, match="long sums of the mode exact"):
                FusedKernel(expression, exact=True)
    assert not FusedKernel(record(c.gelu, [(F32, (2, n))]), exact=True)._exact


def test_compiles_without_contractions():
    for kernel, _ in list(made())[:5:2]:
        assert compiler.compile_text(kernel.source, kernel.name, "sm_90")[:4] == b"\x7fELF"
        assembly = compiler.compile_text(kernel.source, kernel.name, "sm_90", "PTX").decode()
        assert "fma.rn.f32" not in assembly
        assert ".ftz" not in assembly
