"""Cost of a trial for the honest side: states of the longest chain of every operator, and hashes of its tensors.

An adversary lies at the end of the chain, so every round is about its last steps: the most that a side can be made to
walk. Operands of up to 12 GiB are 256 MiB mapped repeatedly, which is more than a processor's caches hold.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import repops
from repops.opset import MAX_STEPS, lookup

from referee_py.commit import DataTree
from referee_py.commit.tensor import Array
from referee_py.element import Case, rule_of, states
from referee_py.program import TensorType
from referee_py.program.modes import REPOPS_F32, Rounding
from referee_py.trial import Stage, TrialState, places
from referee_py.trial.chain_states import ChainStates

from .report import Table

MODES = {"f32": REPOPS_F32.byte, "rounded-f64": Rounding(32).mode}
PERIOD = 256 << 20
READABLE = 20_000
"""Steps of the readable rules that are timed."""
CLIP = 50_257 * 768
"""Elements of GPT-2's largest gradient, whose squares `clip_norm` sums."""

_ONE = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1)}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_FIXED = 0x10  # MAP_FIXED


@dataclass
class Job:
    """An operator whose middle element has a long chain. ``both``: it has another chain in rounded-f64."""

    what: str
    name: str
    inputs: list[Array]
    attrs: dict[str, Any]
    both: bool = False


def measure(steps: int = MAX_STEPS) -> Table:
    columns = ["chain", "mode", "steps", "rounds", "passes", "states: CPU s", "hashes: CPU s"]
    table = Table("chains", [*columns, "readable rules, a pass a round: s"])
    threads = repops.host.cpu.get_num_threads()
    repops.set_num_threads(1)
    try:
        for job in jobs(steps):
            for mode in MODES if job.both else ["f32"]:
                table.add(*_row(job, mode))
    finally:
        repops.set_num_threads(threads)
    return table


def jobs(steps: int) -> Iterator[Job]:
    """Yield the longest chains that the operator table allows, and one of a real program."""
    rng = np.random.default_rng(1)
    period = rng.standard_normal(PERIOD // 4, dtype=np.float32)

    def f32(*shape: int) -> Array:
        return repeated(period, shape)

    side, part = math.isqrt(steps), steps // 9
    grouped = {**_ONE, "groups": 1}
    padded = {**grouped, "padding": (1, 1)}
    yield Job("mm", "mm", [f32(1, steps), f32(steps, 1)], {}, True)
    yield Job("conv2d", "conv2d", [f32(1, part, 3, 3), f32(1, part, 3, 3)], grouped, True)
    inputs, attrs = [f32(1, part, 3, 3), f32(part, 1, 3, 3)], {**padded, "input_hw": (3, 3)}
    yield Job("conv2d_input_grad", "conv2d_input_grad", inputs, attrs, True)
    plane = f32(1, 1, side, side)
    yield Job(
        "conv2d_weight_grad", "conv2d_weight_grad", [plane, plane], {**padded, "kernel_hw": (3, 3)}, True
    )
    whole = {"dims": (0,), "keepdim": 0}
    yield Job("sum", "sum", [f32(steps)], whole, True)
    yield Job("sum, one of two", "sum", [f32(steps, 2)], whole, True)
    yield Job("sum of GPT-2's clip_norm", "sum", [f32(CLIP)], whole, True)
    yield Job("amax", "amax", [f32(steps)], whole)
    yield Job("argmax", "argmax", [f32(steps)], {"dim": 0, "keepdim": 0})
    yield Job("max_pool2d", "max_pool2d", [plane], {"kernel": (side, side), **_ONE})
    one, rows = period[:1], repeated(np.zeros(PERIOD // 8, np.int64), (steps - 1,))
    yield Job("scatter_add", "scatter_add", [one, rows, f32(steps - 1)], {}, True)
    whole_numbers = repeated(rng.integers(-(2**62), 2**62, PERIOD // 8), (steps,))
    yield Job("sum of i64", "sum", [whole_numbers], whole)
    yield Job("amax of i64", "amax", [whole_numbers], whole)


def repeated(period: Array, shape: Sequence[int]) -> Array:
    """Return an array of that shape that repeats the bytes of ``period``, in no more memory than ``period``."""
    size = math.prod(shape) * period.itemsize
    if size <= period.nbytes:
        return period[: math.prod(shape)].reshape(shape)
    file = os.memfd_create("period")
    os.ftruncate(file, period.nbytes)
    with mmap.mmap(file, period.nbytes) as memory:
        memory[:] = period.tobytes()
    times = -(-size // period.nbytes)
    first = _map(0, times * period.nbytes, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1)
    for number in range(times):
        _map(first + number * period.nbytes, period.nbytes, mmap.PROT_READ, mmap.MAP_SHARED | _FIXED, file)
    os.close(file)
    raw: Any = (ctypes.c_char * size).from_address(first)
    return np.frombuffer(raw, period.dtype).reshape(shape)


def _map(where: int, size: int, protection: int, flags: int, file: int) -> int:
    found = _libc.mmap(where, size, protection, flags, file, 0)
    if found in (None, ctypes.c_void_p(-1).value):
        raise MemoryError(f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
    return int(found)


def _row(job: Job, mode: str) -> list[str]:
    case = _case(job, MODES[mode])
    rule = rule_of(case)
    steps, first = rule.length(case), rule.begin(case)
    walk, rounds, began = ChainStates(), 0, time.process_time()
    for at in worst_rounds(steps, len(first)):
        walk.states(case, job.inputs, [], at)
        rounds += 1
    walked = time.process_time() - began
    began = time.process_time()
    for array in {id(array): array for array in job.inputs}.values():
        tree = DataTree(array)
        tree.path(0)
    hashed = time.process_time() - began
    readable = rounds * steps / _readable_rate(case, job)
    passes = f"{walk.steps / steps:.3f}"
    return [
        job.what,
        mode,
        f"{steps:,}",
        str(rounds),
        passes,
        f"{walked:.1f}",
        f"{hashed:.1f}",
        f"{readable:,.0f}",
    ]


def worst_rounds(steps: int, state_bytes: int) -> Iterator[list[int]]:
    """Yield, for each round, the steps whose states a side posts, if the other side lies in the last of them."""
    lo = 0
    while steps - lo > 1:
        known: dict[str, Any] = {"lo": lo, "hi": steps, "steps": steps, "state_bytes": state_bytes}
        state = replace(TrialState(("", ""), Stage.POST, 0, (0, 0), 0), **known)
        asked = places(state)[:-1]
        yield asked
        lo = asked[-1]


def _case(job: Job, mode: int) -> Case:
    types = tuple(TensorType.of(array) for array in job.inputs)
    row = lookup(job.name)
    outputs = tuple(TensorType(*spec) for spec in row.infer([(t.dtype, t.shape) for t in types], job.attrs))
    attrs = dict(row.normalize(job.attrs))
    shape = outputs[0].shape
    middle = sum(size // 2 * math.prod(shape[d + 1 :]) for d, size in enumerate(shape))
    return Case(job.name, types, outputs, attrs, 0, middle, mode)


def _readable_rate(case: Case, job: Job) -> float:
    """Return the steps per second of the rules of `referee_py.element`."""
    flat = [array.reshape(-1) for array in job.inputs]

    def read(number: int, element: int) -> int:
        return int.from_bytes(flat[number][element].tobytes(), "little")

    began = time.process_time()
    for number, _ in enumerate(states(case, read, 0, rule_of(case).begin(case)), 1):
        if number == READABLE:
            break
    return number / (time.process_time() - began)
