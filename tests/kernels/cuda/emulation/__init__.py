"""Runs plans of repops.cuda on the host: the same .cu sources, compiled by g++ with device.h of this folder.

Every buffer is between guard zones and starts as poison unless it is an input. After each launch the guards and the
inputs must be unchanged.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import struct
import subprocess
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
from repops.backends import Backend
from repops.cuda.device import TENSOR_MAP_BYTES
from repops.cuda.plan import BOX_WIDTH, Launch, LaunchPlan, Target
from repops.cuda.plans import plan_of
from repops.cuda.sources import SOURCES, directories
from repops.sums import SumMode
from repops.tensors import NUMPY_DTYPE, check

HERE = Path(__file__).parent
MACHINE = sorted(HERE.glob("*.cpp"))
"""Sources of the emulated machine itself."""
BUILD = Path(__file__).parents[4] / ".build" / "emulation"
OPTIONS = ["-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-w"]
SHIM = [*[f"-I{d}" for d in (HERE, *directories())], "-include", str(HERE / "device.h"), "-x", "c++"]
"""Options for sources that are written for a GPU, also with their includes in place."""
GUARD = 256  # bytes on either side of a buffer
POISON, GUARD_BYTE = 0xFF, 0xA5
TARGET = Target(multiprocessors=4)  # few, so that grids wrap and work is split at small sizes

needs_gcc = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("g++") is None,
    reason="the emulation needs x86-64 and g++; on Debian: apt install g++",
)


def build(*extra: str, optimise: str = "-O2") -> Path:
    """Compile the sources and the fibers into one library, unless it exists already."""
    files = [*HERE.glob("*.h"), *HERE.glob("*.cpp"), *[f for d in directories() for f in d.glob("*.[cC]u*")]]
    files += [f for d in directories() for f in d.glob("*.h")]
    options = [*OPTIONS, *extra, optimise, "-march=native"]
    key = hashlib.sha256(repr(options).encode())
    for file in sorted(files):
        key.update(file.read_bytes())
    folder = BUILD / key.hexdigest()[:16]
    library = folder / "libemulation.so"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            _compile(folder, library, options)
    return library


def _compile(folder: Path, library: Path, options: list[str]) -> None:
    units = {name: directories()[0] / f"{name}.cu" for name in SOURCES} | {p.stem: p for p in MACHINE}
    command = ["g++", *options, *SHIM, "-c"]
    running = [
        subprocess.Popen([*command, str(path), "-o", str(folder / f"{name}.o")])
        for name, path in units.items()
    ]
    assert all(process.wait() == 0 for process in running), "the emulation does not compile"
    objects = [str(folder / f"{name}.o") for name in units]
    new = folder / "new.so"
    subprocess.run(["g++", *options, "-shared", *objects, "-o", str(new)], check=True)
    new.rename(library)


@cache
def library() -> ctypes.CDLL:
    return load(os.environ.get("REPOPS_EMULATION") or build())


def load(path: str | Path) -> ctypes.CDLL:
    loaded = ctypes.CDLL(str(path))
    loaded.emulate_launch.restype = ctypes.c_char_p
    loaded.emulate_launch.argtypes = [
        ctypes.c_void_p,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_longlong,
        ctypes.c_int,
        ctypes.c_longlong,
    ]
    return loaded


class Guarded:
    """A buffer of the emulated GPU. `shift` moves it off its 256-byte alignment."""

    def __init__(self, size: int, data: bytes | None = None, shift: int = 0):
        self.size, self.data = size, data
        self._memory = np.full(size + 3 * GUARD, GUARD_BYTE, np.uint8)
        start = GUARD + -(self._memory.ctypes.data + GUARD) % GUARD + shift
        self.view = self._memory[start : start + size]
        self.view[:] = POISON if data is None else np.frombuffer(data, np.uint8)
        self.address = self._memory.ctypes.data + start
        self._start = start

    def forbid_guards(self, forbidden: bool) -> None:
        for start in (self.address - GUARD, self.address + self.size):
            library().emulate_forbid(ctypes.c_void_p(start), ctypes.c_size_t(GUARD), int(forbidden))

    def check(self, context: object) -> None:
        before, after = self._memory[: self._start], self._memory[self._start + self.size :]
        assert (before == GUARD_BYTE).all(), f"{context}: wrote before a buffer"
        assert (after == GUARD_BYTE).all(), f"{context}: wrote beyond a buffer"
        assert self.data is None or self.view.tobytes() == self.data, f"{context}: wrote to an input"


def start(emulate: ctypes.CDLL, launch: Launch, addresses: Sequence[int], order: int = 0) -> bytes | None:
    """Run a launch. Return what went wrong."""
    words = bytearray(launch.words)
    for at, ref in launch.refs:
        struct.pack_into("<Q", words, at, addresses[ref.buffer] + ref.offset)
    for at, boxes in launch.boxes:
        place = addresses[boxes.start.buffer] + boxes.start.offset
        words[at : at + TENSOR_MAP_BYTES] = tensor_map(
            place, (*boxes.sizes, *boxes.steps, BOX_WIDTH, boxes.rows)
        )
    kernel = getattr(emulate, launch.kernel.partition(".")[2])
    found: bytes | None = emulate.emulate_launch(
        kernel, bytes(words), launch.threads, launch.blocks, order, launch.shared
    )
    return found


def tensor_map(start: int, numbers: Sequence[int]) -> bytes:
    """Return a `TensorMap` of hopper.h."""
    return struct.pack("<Q7q", start, *numbers).ljust(TENSOR_MAP_BYTES, b"\0")


def run(plan: LaunchPlan, buffers: list[Guarded], order: int = 0, emulate: ctypes.CDLL | None = None) -> None:
    buffers = [*buffers, *[Guarded(size) for size in plan.workspaces]]
    emulate = emulate or library()
    for launch in plan.launches:
        name = launch.kernel.partition(".")[2]
        size = ctypes.c_int.in_dll(emulate, f"{name}_bytes").value
        assert size == len(launch.words), (
            f"{launch.kernel}: struct of {size} bytes, packed {len(launch.words)}"
        )
        assert launch.threads <= ctypes.c_int.in_dll(emulate, f"{name}_threads").value
        for buffer in buffers:
            buffer.forbid_guards(True)
        error = start(emulate, launch, [buffer.address for buffer in buffers], order)
        for buffer in buffers:
            buffer.forbid_guards(False)
        assert error is None, f"{launch.kernel}: {error.decode()}"
        for buffer in buffers:
            buffer.check(launch.kernel)


def execute(name, inputs, attrs, **options):
    """Execute like repops.backend(...).execute, on numpy arrays."""
    call = check(name, inputs, attrs)
    if name == "reshape":
        return [inputs[0].reshape(call.outputs[0][1])]
    return execute_call(call, inputs, **options)


def execute_call(call, inputs, *, order=0, target=TARGET, shift=0, sums=SumMode.REPOPS_F32):
    buffers = [Guarded(array.nbytes, array.tobytes(), shift * array.itemsize) for array in inputs]
    outputs = []
    for dtype, shape in call.outputs:
        item = NUMPY_DTYPE[dtype].itemsize
        outputs.append(Guarded(int(np.prod(shape, dtype=np.int64)) * item, shift=shift * item))
    run(plan_of(call, target, sums), [*buffers, *outputs], order)
    return [
        np.frombuffer(buffer.view.tobytes(), NUMPY_DTYPE[dtype]).reshape(shape)
        for buffer, (dtype, shape) in zip(outputs, call.outputs, strict=True)
    ]


BACKEND = Backend("emulation", execute)
EXACT = Backend("emulation", partial(execute, sums=SumMode.EXACT), SumMode.EXACT)
TC16 = Backend("emulation", partial(execute, sums=SumMode.TC16), SumMode.TC16)
