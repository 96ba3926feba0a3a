"""Errors of capture. Each message names the problem and a remedy.

AssayError
└── CaptureError         a training step that cannot become a program as it is written
    └── Unsupported      it uses a PyTorch operator, dtype or option without a lowering
"""

from __future__ import annotations

from referee_py.errors import AssayError


class CaptureError(AssayError):
    """A training step that cannot become a program as it is written."""


class Unsupported(CaptureError):
    """Something that PyTorch can do and the operator set cannot. Callers up the stack fill in `where`."""

    def __init__(self, what: str, remedy: str, where: str = "") -> None:
        self.what, self.remedy, self.where = what, remedy, where
        super().__init__(f"{where}: {what}; {remedy}" if where else f"{what}; {remedy}")
