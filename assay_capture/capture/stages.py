"""The stages of a build, in order, for whoever wants to be told."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]
"""Is called with the name of each stage when it begins."""

TRACE = "tracing the step"
LOWER = "making the program"
TENSORS = "reading and hashing its tensors"
EAGER = "computing PyTorch's first step"
PROGRAM = "computing the program's first step"
ELSEWHERE = "comparing the two at other weights and inputs"
WRITE = "writing the job"

SHARES = {TRACE: 0.3, LOWER: 0.1, TENSORS: 0.1, EAGER: 0.1, PROGRAM: 0.15, ELSEWHERE: 0.2, WRITE: 0.05}
"""The part of the time that each takes: about that of GPT-2 small."""


def silent(_: str) -> None:
    """Tell nobody."""
