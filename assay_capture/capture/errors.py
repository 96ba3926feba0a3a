"""Errors of capture. Each message names the problem and a remedy.

AssayError
└── CaptureError         a training step that cannot become a program as it is written
    └── Unsupported      it uses a PyTorch operator, dtype or option without a lowering
        └── Unexpected   a rule of capture's or of PyTorch's failed in a way that nobody has foreseen
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


class LeftOver(Unsupported):
    """A tensor without data that an earlier trace has left somewhere."""


class Unexpected(Unsupported):
    """An error inside a rule: a defect, told to the user as a refusal with its place, and to tests as a failure."""

    def __init__(self, error: Exception, where: str) -> None:
        said = (str(error).strip().splitlines() or [""])[0]
        super().__init__(
            f"its rule fails ({type(error).__name__}: {said})".replace(": )", ")"),
            "write it with other functions, and report the failure",
            where,
        )
