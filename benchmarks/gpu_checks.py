"""Checks that this GPU gives the bits of the C kernels: digests, larger calls, trees of hashes, a captured graph.

An executor takes numpy arrays; `on_gpu` makes one of the cuda backend. So the tests can run all checks but that of the
graph with kernels emulated on the host. A check continues after a difference, and raises Differs with all it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from repops import selftest
from repops.backends import Backend, backend
from repops.block_data import DRAWERS, KINDS, drawn, factors
from repops.host import cpu
from repops.opset import OPS
from repops.random_calls import random_call
from repops.sums import SumMode
from repops.tensors import Array, canonical, spec_of

from tests.kernels.cuda.calls import every_call, hard_products, normal, of_bf16, rounded

Call = tuple[str, list[Array], dict[str, Any]]


SHOWN = 4
"""Differences of an operator that a message has."""
MOST_FAILURES = 5
"""Calls in a row that may fail before a check gives up: after a fault in a kernel a GPU refuses every call."""


class Differs(Exception):
    """Two executors that must agree differ. `found` has all differences by operator, the message a few of each."""

    def __init__(self, found: Mapping[str, Sequence[str]]):
        self.found = found
        super().__init__("\n".join(line for name in found for line in self._lines(name)))

    def _lines(self, name: str) -> Iterator[str]:
        yield from self.found[name][:SHOWN]
        if len(self.found[name]) > SHOWN:
            yield f"and {len(self.found[name]) - SHOWN} more of {name}"


class _Comparison:
    """The differences that a check has found."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}
        self._failures = 0

    def differs(self, name: str, text: str) -> None:
        self._found.setdefault(name, []).append(text)

    def result(self, name: str, what: str, call: Callable[[], Any]) -> Any:
        """Return the call's result, or None if it fails, which is a difference, too. Raise Differs if one after the
        other fails."""
        try:
            found = call()
        except RuntimeError as error:  # of torch, of the driver or of the compiler
            self.differs(name, f"{what}: {type(error).__name__}: {error}")
            self._failures += 1
            if self._failures == MOST_FAILURES:
                self.differs("calls", f"{MOST_FAILURES} calls in a row failed; the others were not tried")
                self.end()
            return None
        self._failures = 0
        return found

    def end(self) -> None:
        if self._found:
            raise Differs(self._found)


def on_gpu(sums: SumMode = SumMode.REPOPS_F32) -> Backend:
    """Return the cuda backend of a mode with numpy arrays as inputs and outputs."""
    from repops.cuda import executor

    execute: Callable[..., list[Any]] = backend("cuda", sums).execute

    def run(name: str, inputs: Sequence[Array], attrs: Any) -> list[Array]:
        return [executor.get(output) for output in execute(name, list(map(executor.put, inputs)), attrs)]

    return Backend("cuda", run, sums)


def same_digests(executor: Backend) -> int:
    """Compare the self-test digest of every operator, in the order of the table."""
    here, comparison = backend("cpu", executor.sums), _Comparison()
    for op in OPS:
        what = f"self-test of {op.name} (id {op.id})"
        got = comparison.result(op.name, what, partial(selftest.digest, executor, op.name))
        want = selftest.digest(here, op.name)
        if got not in (None, want):
            comparison.differs(op.name, f"{what}: {got[:16]} on {executor.name}, {want[:16]} on cpu")
    comparison.end()
    return len(OPS)


def large_calls() -> Iterator[Call]:
    """Yield calls that fill a GPU: every multiprocessor, and every tile."""
    for m, k, n in (
        (1024, 1024, 1024),
        (2048, 768, 3072),
        (511, 3072, 769),
        (4096, 64, 4096),
        (64, 50000, 64),
    ):
        yield "mm", [normal(m, k, seed=1), normal(k, n, seed=2)], {}
    yield "mm", rounded(normal(2048, 768, seed=1), normal(768, 3072, seed=2)), {}
    yield "mm", rounded(normal(300, 50257, seed=1), normal(50257, 130, seed=2)), {}
    yield "mm", rounded(normal(64, 70000, seed=1), normal(70000, 64, seed=2)), {}
    yield "bmm", rounded(normal(96, 128, 64, seed=1), normal(96, 64, 130, seed=2)), {}
    yield "mm", [normal(1, 4096, seed=1), normal(4096, 50257, seed=2)], {}
    yield "mm", [normal(50257, 768, seed=1), normal(768, 1, seed=2)], {}
    yield "bmm", [normal(96, 128, 64, seed=1), normal(96, 64, 128, seed=2)], {}
    window = {"stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "groups": 1}
    strided = {**window, "stride": (2, 2)}
    x, w = normal(8, 64, 56, 56, seed=1), normal(128, 64, 3, 3, seed=2)
    y = normal(8, 128, 28, 28, seed=3)
    yield "conv2d", [x, w], window
    yield "conv2d", [x, w], strided
    yield "conv2d", rounded(x, w), strided
    yield "conv2d_input_grad", [y, w], {**strided, "input_hw": (56, 56)}
    yield "conv2d_weight_grad", [y, x], {**strided, "kernel_hw": (3, 3)}
    big = normal(4096, 8191, seed=4)
    for dims in ((0,), (1,), (0, 1)):
        yield "sum", [big], {"dims": dims, "keepdim": 0}
    yield "permute", [big], {"dims": (1, 0)}
    yield "exp", [big], {}
    rows = np.random.default_rng(5).integers(0, 50257, 65536)
    yield "scatter_add", [normal(50257, 256, seed=6), rows, normal(65536, 256, seed=7)], {}


def contractions_of_bf16(seeds: int) -> Iterator[Call]:
    """Yield calls that reach every path of contractions of bf16, and of all kinds of data."""
    yield from of_bf16()
    for kind in KINDS:
        rng = np.random.default_rng(KINDS.index(kind))
        for m, k, n in ((70, 199, 300), (33, 1100, 130), (128, 520, 136)):
            yield "mm", factors(rng, kind, m, k, n), {}
    for name in selftest.CONTRACTIONS:
        for seed in range(seeds):
            inputs, attrs = random_call(name, 9000 + seed, "long")
            rng, kind = np.random.default_rng(seed), list(DRAWERS)[seed % len(DRAWERS)]
            yield name, [drawn(rng, kind, array.shape) for array in inputs], attrs


def random_calls(seeds: int) -> Iterator[Call]:
    for op in OPS:
        for seed in range(9000, 9000 + seeds):
            yield op.name, *random_call(op.name, seed, "long")


def same_results(executor: Backend, calls: Iterable[Call]) -> int:
    """Compare with the C kernels, call by call."""
    count, here, comparison = 0, backend("cpu", executor.sums), _Comparison()
    for name, inputs, attrs in calls:
        count += 1
        what = f"{name} of {[array.shape for array in inputs]} with {attrs}"
        got = comparison.result(name, what, partial(executor.execute, name, inputs, attrs))
        if got is None:
            continue
        want = here.execute(name, inputs, attrs)
        for index, (a, b) in enumerate(zip(got, want, strict=True)):
            differing = _differences(canonical(a), canonical(b))
            if differing.size:
                first = int(differing[0])
                comparison.differs(
                    name,
                    f"{what}: output {index}: {differing.size} of {a.size} differ, the first is element {first}: "
                    f"{a.flat[first]!r} on {executor.name}, {b.flat[first]!r} on cpu",
                )
    comparison.end()
    return count


def _differences(a: Array, b: Array) -> Array:
    """Return the places of the elements that differ."""
    bits = {4: np.uint32, 8: np.uint64, 2: np.uint16, 1: np.uint8}[a.itemsize]
    return np.flatnonzero(a.reshape(-1).view(bits) != b.reshape(-1).view(bits))


def all_small(executor: Backend, seeds: int) -> int:
    return same_results(executor, chain(every_call(), random_calls(seeds)))


def products_of_bf16(executor: Backend) -> int:
    """Compare products in the mode exact that are hard for sums of bytes, and long ones."""
    return same_results(executor, (*hard_products(), *_long_products()))


def _long_products() -> Iterator[Call]:
    for k in (4096, 65535):  # the second has as many terms as go by bytes
        yield "mm", rounded(normal(3, k, seed=1), normal(k, 70, seed=2)), {}
        most = np.full((2, k), 255 * 2.0**-7, np.float32)
        most[:, 0] = 255  # the largest of its line, so that the others have the largest sums of bytes
        yield "mm", rounded(most, np.ascontiguousarray(-most.T)), {}


def same_trees() -> int:
    """Compare Merkle trees made on the GPU with those of the commitments."""
    import torch
    from repops import cuda

    from referee_py.commit.hashing import Tag
    from referee_py.commit.merkle import empty
    from referee_py.commit.tensor import data_tree

    kind = cuda.TreeKind(Tag.LEAF, Tag.DATA_TREE, empty(Tag.DATA_TREE, 0))
    sizes = (0, 1, 255, 256, 257, 100_003, 5_000_000)
    comparison = _Comparison()

    def root_of(array: Array) -> bytes:
        return bytes(cuda.hash_tree(torch.from_numpy(array).cuda(), kind)[-1].cpu().numpy())

    for size in sizes:
        bits = np.random.default_rng(size).integers(0, 2**32, size, dtype=np.uint32)
        array, what = bits.view(np.float32), f"the tree over {size} floats"
        root = comparison.result("hash_tree", what, partial(root_of, array))
        if root not in (None, data_tree(canonical(array).tobytes()).root):
            comparison.differs("hash_tree", what)
    comparison.end()
    return len(sizes)


def fused_expressions_agree() -> int:
    """Compare softmax and other composites as one kernel with their operators one by one on the CPU, in both modes."""
    import torch
    from repops.cuda.fusion import KEPT_ROW, Fused
    from repops.fuse import composites
    from repops.fuse.expression import Expression, evaluate, record

    x, grad, weight, bias = (
        normal(300, 768),
        normal(300, 768, seed=1),
        normal(768, seed=2),
        normal(768, seed=3),
    )
    adam = {"betas": (0.9, 0.999), "eps": 1e-8, "decay": 0.01, "decoupled": True}
    state = [*[normal(70001, seed=seed) for seed in range(4)], *[np.array(v, np.float32) for v in (3, 1e-3)]]
    exponents = np.random.default_rng(4).integers(-120, 120, grad.shape)
    wide = grad * np.exp2(exponents).astype(np.float32)  # its sums need digits
    calls: tuple[tuple[Callable[..., Any], list[Array], dict[str, Any]], ...] = (
        (composites.gelu, [x], {}),
        (composites.softmax, [x], {}),
        (composites.softmax, [normal(5, 50257)], {}),
        (composites.layer_norm, [x, weight, bias], {"eps": 1e-5}),
        (composites.softmax_grad, [grad, x], {}),
        (composites.adam, state, adam),
        (composites.softmax_grad, [wide, x], {}),
        (composites.layer_norm, [wide, weight, bias], {"eps": 1e-5}),
    )
    comparison = _Comparison()

    def fused(expression: Expression, inputs: list[Array], exact: bool) -> list[Array]:
        kernel = Fused(expression, exact)
        return [t.cpu().numpy() for t in kernel([torch.from_numpy(a).cuda() for a in inputs])]

    modes = [(exact, *call) for exact in (False, True) for call in calls]
    modes = [mode for mode in modes if not mode[0] or max(mode[2][0].shape) <= KEPT_ROW]
    for exact, function, inputs, options in modes:
        expression = record(function, [spec_of(array) for array in inputs], **options)
        name, what = expression.name, f"fused {expression.name} of {[array.shape for array in inputs]}"
        got = comparison.result(name, what, partial(fused, expression, inputs, exact))
        if got is None:
            continue
        want = evaluate(expression, partial(cpu.execute, sums=SumMode.of(exact)), inputs)
        for index, (a, b) in enumerate(zip(got, want, strict=True)):
            if (differing := _differences(canonical(a), canonical(b))).size:
                comparison.differs(name, f"{what}: output {index}: {differing.size} of {a.size} differ")
    comparison.end()
    return len(modes)


def graph_replays_the_same() -> int:
    """Capture a chain of operators of every family once and replay it on other inputs."""
    import torch

    execute: Callable[..., list[Any]] = backend("cuda").execute
    window = {"stride": (2, 2), "padding": (1, 1), "dilation": (1, 1), "groups": 1}

    def calls(a: Any, b: Any, rows: Any, image: Any, kernel: Any) -> list[Any]:
        (product,) = execute("mm", [a, b], {})
        (split,) = execute("mm", [b, a], {})
        (top,) = execute("amax", [product], {"dims": (1,), "keepdim": 1})
        (less,) = execute("sub", [product, top], {})
        (powers,) = execute("exp", [less], {})
        (total,) = execute("sum", [powers], {"dims": (0, 1), "keepdim": 0})
        (turned,) = execute("permute", [powers], {"dims": (1, 0)})
        (picked,) = execute("take", [turned, rows], {})
        (added,) = execute("scatter_add", [turned, rows, picked], {})
        (y,) = execute("conv2d", [image, kernel], window)
        (dw,) = execute("conv2d_weight_grad", [y, image], {**window, "kernel_hw": (3, 3)})
        (best,) = execute("argmax", [added], {"dim": 1, "keepdim": 0})
        return [split, total, added, y, dw, best]

    def inputs(seed: int) -> list[Any]:
        arrays = [normal(96, 3000, seed=seed), normal(3000, 96, seed=seed + 1)]
        arrays += [np.random.default_rng(seed).integers(-1, 97, 5000)]
        arrays += [normal(4, 8, 30, 30, seed=seed + 2), normal(16, 8, 3, 3, seed=seed + 3)]
        return [torch.from_numpy(array).cuda() for array in arrays]

    static = inputs(0)
    calls(*static)  # loads the kernels
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs = calls(*static)
    comparison = _Comparison()
    for seed in (0, 10, 20):
        fresh = inputs(seed)
        for place, value in zip(static, fresh, strict=True):
            place.copy_(value)
        graph.replay()
        for index, (got, want) in enumerate(zip(outputs, calls(*fresh), strict=True)):
            a, b = canonical(got.cpu().numpy()), canonical(want.cpu().numpy())
            if a.tobytes() != b.tobytes():
                comparison.differs("graph", f"graph replay {seed}, output {index}")
    comparison.end()
    return 3
