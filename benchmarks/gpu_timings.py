"""Speed of this GPU with our kernels and with the vendor's, by CUDA events around replays of captured graphs.

A graph holds several calls, so that no launch waits for Python. Ours and theirs take turns; the median counts. The
vendor's FP32 without TF32 is the fair rival: it has the same inputs and precision, but its own order of additions.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from repops.sums import SumMode

TARGET_MS = 2.0  # of one measurement
TURNS = 15


class Case(NamedTuple):
    """`amount` is the work of a call, in units of `unit` times 10^9 (or 10^12 for T)."""

    name: str
    ours: Callable[[], object]
    theirs: Callable[[], object] | None
    amount: float
    unit: str


class Row(NamedTuple):
    name: str
    ours_us: float
    theirs_us: float | None
    rate: float
    unit: str

    def cells(self) -> list[str]:
        theirs = "" if self.theirs_us is None else f"{self.theirs_us:.1f}"
        ratio = "" if self.theirs_us is None else f"{self.theirs_us / self.ours_us:.2f}"
        return [self.name, f"{self.ours_us:.1f}", theirs, ratio, f"{self.rate:.1f} {self.unit}"]


HEADER = ["call", "ours, µs", "vendor, µs", "vendor / ours", "ours"]


def markdown(device: str, rows: list[Row]) -> str:
    lines = [HEADER, ["---", *["---:"] * 4], *[row.cells() for row in rows]]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    return f"{device}; FP32 without TF32; medians of {TURNS} turns.\n\n{table}\n"


def plain(rows: list[Row]) -> str:
    cells = [HEADER, *[row.cells() for row in rows]]
    name, *widths = [max(map(len, column)) for column in zip(*cells, strict=True)]

    def line(first: str, *rest: str) -> str:
        return "  ".join([first.ljust(name), *[c.rjust(w) for c, w in zip(rest, widths, strict=True)]])

    return "\n".join(line(*row) for row in cells)


def _captured(torch: Any, work: Callable[[], object]) -> tuple[Any, int]:
    """Return a graph of as many calls as take about TARGET_MS, and their number."""
    for _ in range(3):
        work()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    end.synchronize()
    calls = max(1, min(200, int(TARGET_MS / max(start.elapsed_time(end), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            work()
    graph.replay()
    return graph, calls


def measure(case: Case) -> Row:
    import torch

    works = [work for work in (case.ours, case.theirs) if work is not None]
    graphs = [_captured(torch, work) for work in works]
    times: list[list[float]] = [[] for _ in works]
    for _ in range(TURNS):
        for (graph, calls), found in zip(graphs, times, strict=True):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            found.append(1000 * start.elapsed_time(end) / calls)
    ours, *theirs = [statistics.median(found) for found in times]
    scale = 1e12 if case.unit.startswith("T") else 1e9
    return Row(case.name, ours, theirs[0] if theirs else None, case.amount / (ours * 1e-6) / scale, case.unit)


def cases() -> Iterator[Case]:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    yield from _products(torch)
    yield from _exact_products(torch)
    yield from _convolutions(torch)
    yield from _memorybound(torch)
    yield from _hashing(torch)


def _random(torch: Any, *shape: int) -> Any:
    return torch.randn(*shape, device="cuda")


def _call(name: str, inputs: list[Any], **attrs: Any) -> Callable[[], object]:
    return bound(name, inputs, attrs, SumMode.REPOPS_F32)


def _exactly(name: str, inputs: list[Any], **attrs: Any) -> Callable[[], object]:
    return bound(name, inputs, attrs, SumMode.EXACT)


def bound(name: str, inputs: list[Any], attrs: dict[str, Any], sums: SumMode) -> Callable[[], object]:
    """Return a function that applies the operator in a mode and writes to existing outputs."""
    from repops import cuda

    out = cuda.execute(name, inputs, attrs, sums=sums)
    return lambda: cuda.execute(name, inputs, attrs, out, sums)


GPT2 = (
    ("qkv", 4096, 768, 2304),
    ("projection", 4096, 768, 768),
    ("up", 4096, 768, 3072),
    ("down", 4096, 3072, 768),
)
GPT2_GRADIENTS = (
    ("head", 4096, 768, 50257),
    ("weights of up", 768, 4096, 3072),
    ("weights of qkv", 768, 4096, 2304),
)


def _products(torch: Any) -> Iterator[Case]:
    squares = [(f"{n}", n, n, n) for n in (256, 512, 1024, 2048, 4096)]
    skinny = [("1 row", 1, 4096, 4096), ("1 column", 4096, 4096, 1), ("8 rows", 8, 4096, 4096)]
    for name, m, k, n in (*squares, *GPT2, *GPT2_GRADIENTS, *skinny):
        a, b = _random(torch, m, k), _random(torch, k, n)
        c = torch.empty(m, n, device="cuda")
        theirs = lambda a=a, b=b, c=c: torch.mm(a, b, out=c)  # noqa: E731
        yield Case(f"mm {name}: {m} x {k} x {n}", _call("mm", [a, b]), theirs, 2.0 * m * k * n, "TFLOP/s")
    for (
        name,
        m,
        k,
        n,
    ) in GPT2:  # NOTE: the vendor's sums are of f32, too, but on tensor cores and in its own order
        a, b = _random(torch, m, k).bfloat16(), _random(torch, k, n).bfloat16()
        what = f"mm of bf16 {name}: {m} x {k} x {n}"
        yield Case(what, _call("mm", [a, b]), partial(torch.mm, a, b), 2.0 * m * k * n, "TFLOP/s")
    a, b = _random(torch, 96, 1024, 64), _random(torch, 96, 64, 1024)
    yield Case(
        "bmm 96 x 1024 x 64 x 1024",
        _call("bmm", [a, b]),
        lambda: torch.bmm(a, b),
        2.0 * 96 * 1024 * 64 * 1024,
        "TFLOP/s",
    )


def _exact_products(torch: Any) -> Iterator[Case]:
    """Yield products in the mode exact, those of bf16 by both ways; the vendor's are of FP32, and of bf16."""
    for name, m, k, n in (*GPT2, *GPT2_GRADIENTS):
        a, b = _random(torch, m, k), _random(torch, k, n)
        what, work = f"{name}: {m} x {k} x {n}", 2.0 * m * k * n
        theirs = partial(torch.mm, a, b)
        yield Case(f"exact mm of float32 {what}", _exactly("mm", [a, b]), theirs, work, "TFLOP/s")
        a, b = a.bfloat16(), b.bfloat16()
        yield from _both_ways(f"of bfloat16 {what}", "mm", a, b, partial(torch.mm, a, b), work)
    # Of several sizes, to find from which on bytes pay (`Target.least_by_bytes`).
    for m, k, n in ((32, 1024, 32), (64, 1024, 64), (128, 1024, 128), (256, 256, 256), (1024, 1024, 1024)):
        a, b = _random(torch, m, k).bfloat16(), _random(torch, k, n).bfloat16()
        yield from _both_ways(
            f"of bfloat16 {m} x {k} x {n}", "mm", a, b, partial(torch.mm, a, b), 2.0 * m * k * n
        )
    a, b = _random(torch, 96, 1024, 64).bfloat16(), _random(torch, 96, 64, 1024).bfloat16()
    work = 2.0 * 96 * 1024 * 64 * 1024
    yield from _both_ways("of bfloat16 96 x 1024 x 64 x 1024", "bmm", a, b, partial(torch.bmm, a, b), work)


def _both_ways(
    what: str, name: str, a: Any, b: Any, theirs: Callable[[], object], work: float
) -> Iterator[Case]:
    from .gpu_exact import BY_BYTES, BY_F64, prepared

    for way, least in (("bytes", BY_BYTES), ("sums of f64", BY_F64)):
        _, ours = prepared(name, [a, b], {}, least)
        yield Case(f"exact {name} {what}, by {way}", ours, theirs, work, "TFLOP/s")


CONVOLUTIONS = (
    # images, channels, size, filters, kernel, stride, padding
    (32, 64, 56, 64, 3, 1, 1),
    (32, 128, 28, 128, 3, 1, 1),
    (32, 256, 14, 256, 3, 1, 1),
    (32, 512, 7, 512, 3, 1, 1),
    (32, 256, 56, 64, 1, 1, 0),
    (32, 128, 56, 128, 3, 2, 1),
    (32, 3, 224, 64, 7, 2, 3),
)


def _convolutions(torch: Any) -> Iterator[Case]:
    for images, channels, size, filters, kernel, stride, padding in CONVOLUTIONS:
        x, w = _random(torch, images, channels, size, size), _random(torch, filters, channels, kernel, kernel)
        attrs = {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1), "groups": 1}
        y = torch.conv2d(x, w, stride=stride, padding=padding)
        flops = 2.0 * y.numel() * channels * kernel * kernel
        shape = f"{images} x {channels} x {size}², {filters} of {kernel}², stride {stride}"
        forward = lambda x=x, w=w, s=stride, p=padding: torch.conv2d(x, w, stride=s, padding=p)  # noqa: E731
        yield Case(f"conv {shape}", _call("conv2d", [x, w], **attrs), forward, flops, "TFLOP/s")
        yield Case(f"exact conv {shape}", _exactly("conv2d", [x, w], **attrs), forward, flops, "TFLOP/s")
        dx = lambda x=x, w=w, y=y, s=stride, p=padding: torch.nn.grad.conv2d_input(x.shape, w, y, s, p)  # noqa: E731
        ours = _call("conv2d_input_grad", [y, w], **attrs, input_hw=(size, size))
        yield Case(f"input gradient {shape}", ours, dx, flops, "TFLOP/s")
        dw = lambda x=x, w=w, y=y, s=stride, p=padding: torch.nn.grad.conv2d_weight(x, w.shape, y, s, p)  # noqa: E731
        ours = _call("conv2d_weight_grad", [y, x], **attrs, kernel_hw=(kernel, kernel))
        yield Case(f"weight gradient {shape}", ours, dw, flops, "TFLOP/s")


def _memorybound(torch: Any) -> Iterator[Case]:
    """Yield cases of sizes well beyond the cache; a rate counts each byte read or written once."""
    x, y = _random(torch, 8192, 8192), _random(torch, 8192, 8192)
    row, size = _random(torch, 8192), 8192 * 8192 * 4.0
    where = x > 0

    def case(name: str, inputs: list[Any], theirs: Callable[[], object], passes: float, **attrs: Any) -> Case:
        return Case(
            f"{name.replace('_', ' ')}",
            _call(name.split()[0], inputs, **attrs),
            theirs,
            passes * size,
            "GB/s",
        )

    yield case("add", [x, y], lambda: torch.add(x, y), 3)
    yield case("add row", [x, row], lambda: torch.add(x, row), 2)
    yield case("div", [x, y], lambda: torch.div(x, y), 3)
    yield case("where", [where, x, y], lambda: torch.where(where, x, y), 3.25)
    for function in (torch.exp, torch.log, torch.tanh, torch.erf, torch.sin):
        yield case(function.__name__, [x], partial(lambda f: f(x), function), 2)
    yield case("sum rows", [x], lambda: x.sum(1), 1, dims=(1,), keepdim=0)
    yield case("sum columns", [x], lambda: x.sum(0), 1, dims=(0,), keepdim=0)
    for name, dims in (("rows", (1,)), ("columns", (0,)), ("all", (0, 1))):
        ours = _exactly("sum", [x], dims=dims, keepdim=0)
        yield Case(f"exact sum {name}", ours, partial(x.sum, dims), size, "GB/s")
    yield case("sum all", [x], lambda: x.sum(), 1, dims=(0, 1), keepdim=0)
    yield case("amax rows", [x], lambda: x.amax(1), 1, dims=(1,), keepdim=0)
    yield case("argmax rows", [x], lambda: x.argmax(1), 1, dim=1, keepdim=0)
    yield case("permute", [x], lambda: x.t().contiguous(), 2, dims=(1, 0))
    table, source = _random(torch, 50257, 768), _random(torch, 65536, 768)
    rows = torch.randint(0, 50257, (65536,), device="cuda")
    bytes_moved = 2.0 * source.numel() * 4
    yield Case("take 65536 rows", _call("take", [table, rows]), lambda: table[rows], bytes_moved, "GB/s")
    yield Case(
        "scatter add 65536 rows",
        _call("scatter_add", [table, rows, source]),
        lambda: table.index_add(0, rows, source),
        bytes_moved + 2.0 * table.numel() * 4,
        "GB/s",
    )
    yield from _composites(torch)


def _composites(torch: Any) -> Iterator[Case]:
    """Yield fused composites, one pass over memory, and softmax as separate operators, each through memory."""
    from repops import cuda
    from repops.cuda.fusion import Fused
    from repops.fuse import composites
    from repops.fuse.expression import Eager, record

    x, weight, bias = _random(torch, 16384, 1024), _random(torch, 1024), _random(torch, 1024)
    size = x.numel() * 4.0
    functional = torch.nn.functional

    def fused(function: Any, inputs: list[Any], **options: Any) -> Callable[[], object]:
        specs = [cuda.executor.spec_of(tensor, "input") for tensor in inputs]
        kernel = Fused(record(function, specs, **options))
        return lambda: kernel(inputs)

    softmax, norm = fused(composites.softmax, [x]), fused(composites.layer_norm, [x, weight, bias], eps=1e-5)
    yield Case("softmax of 16384 x 1024", softmax, lambda: torch.softmax(x, 1), 2 * size, "GB/s")
    apart = lambda: composites.softmax(Eager(cuda.execute), x)  # noqa: E731
    yield Case("the same by operators", apart, lambda: torch.softmax(x, 1), 2 * size, "GB/s")
    theirs = lambda: functional.layer_norm(x, (1024,), weight, bias)  # noqa: E731
    yield Case("layer norm of 16384 x 1024", norm, theirs, 2 * size, "GB/s")
    yield Case(
        "gelu of 16384 x 1024", fused(composites.gelu, [x]), lambda: functional.gelu(x), 2 * size, "GB/s"
    )


def _hashing(torch: Any) -> Iterator[Case]:
    from repops import cuda

    kind = cuda.TreeKind(1, 16, bytes(32))
    for megabytes in (1, 16, 256):
        x = _random(torch, megabytes << 18)
        yield Case(
            f"hash {megabytes} MiB",
            partial(lambda x: cuda.hash_tree(x, kind), x),
            None,
            x.numel() * 4.0,
            "GB/s",
        )
