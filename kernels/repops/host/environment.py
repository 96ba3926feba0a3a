"""The floating-point environment of the calling thread, for code of other libraries.

Our kernels set the standard environment themselves (csrc/runtime/runtime.c). Other libraries compute in the environment
that they find. A library built with -ffast-math, or torch.set_flush_denormal, makes it flush subnormal numbers to zero.
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
    """`with Standard() as inside:` rounds to nearest and flushes nothing; on exit the old environment is restored.

    `inside.found`: the environment was standard on entry. `inside.kept`, set on exit: it was still standard then.
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
