"""The shared library of C kernels and the instruction sets that this machine has."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

ISA_NAMES = ("portable", "avx2", "avx512")


class LibraryError(Exception):
    """The kernels are not built, or this machine lacks the instruction set that was asked for."""


def _load() -> ctypes.CDLL:
    path = Path(os.environ.get("REPOPS_LIBRARY") or Path(__file__).parent.parent / "librepops.so")
    # NOTE: the OpenMP runtime reads this variable when it is loaded. By default its threads spin while they wait, which
    # slows everything on a busy machine: two daemons side by side took five times as long for a small step. A process
    # has one such runtime. If torch came first, the runtime is torch's and waits as torch set it. A library that loads
    # another runtime later finds the environment as the user left it.
    given = os.environ.get("OMP_WAIT_POLICY")
    os.environ["OMP_WAIT_POLICY"] = given or "passive"
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"cannot load {path}: {error}; build it with `make setup`") from error
    finally:
        if given is None:
            del os.environ["OMP_WAIT_POLICY"]


LIBRARY = _load()
BEST_ISA: int = LIBRARY.repops_best_isa()


LIBRARY.repops_others.restype = ctypes.c_int64


def thread_time() -> float:
    """Return the seconds of processor time that what this thread computes has taken: its own (`time.thread_time`), and
    what the busiest thread of each kernel has worked longer."""
    return time.thread_time() + 1e-9 * int(LIBRARY.repops_others())


def isa_code(name: str) -> int:
    """Return the code of an instruction set. Raise LibraryError if this machine lacks it."""
    code = ISA_NAMES.index(name) if name in ISA_NAMES else len(ISA_NAMES)
    if code > BEST_ISA:
        raise LibraryError(
            f"instruction set {name!r} is not one of {ISA_NAMES[: BEST_ISA + 1]} of this machine"
        )
    return code
