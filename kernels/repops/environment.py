"""The floating-point environment of the calling thread, around code that is not ours.

Kernels make it standard for themselves (csrc/runtime.c). Other libraries compute in whatever they find, and where some
library was built with -ffast-math, or torch.set_flush_denormal was called, that flushes subnormal numbers to zero.
"""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Self

from .library import LIBRARY

LIBRARY.repops_environment_bytes.restype = ctypes.c_int64
LIBRARY.repops_environment_enter.argtypes = [ctypes.c_void_p]
LIBRARY.repops_environment_leave.argtypes = [ctypes.c_void_p]
_WORDS = -(-LIBRARY.repops_environment_bytes() // 8)


class Standard:
    """`with Standard() as inside:` rounds to nearest and flushes nothing; then it is again as it was before.

    `inside.found` says whether it was so before; `inside.kept`, afterwards, whether it was so to the end.
    """

    def __init__(self) -> None:
        self._saved = (ctypes.c_uint64 * _WORDS)()
        self.found = self.kept = False

    def __enter__(self) -> Self:
        self.found = bool(LIBRARY.repops_environment_enter(self._saved))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kept = bool(LIBRARY.repops_environment_leave(self._saved))
