"""Checks that every thread of torch's pool keeps subnormal numbers, by a computation with a known answer.

Only a thread itself can read its control register, and these threads run only torch's code. But torch gives each of
them an equal part of an array that is long enough. The threads of a pool have the registers that their starting thread
had at that moment: torch.set_flush_denormal, called before, may have made all of them flush.
"""

from __future__ import annotations

import torch

from referee_py.errors import Disturbed

GRAIN = 32_768
"""Elements from which torch wakes another thread (at::internal::GRAIN_SIZE)."""
SPACING = 1024
"""Distance between subnormal numbers. NOTE: processors take a hundred times longer for those, so most are normal."""
SMALL = 1 << 9
"""The bits of 2^-140, a subnormal number."""


class Probe:
    """Numbers that are converted to binary64 and back on `where`, a torch device."""

    def __init__(self, where: str = "cpu") -> None:
        self._where = where
        self._numbers = torch.empty(0)

    def check(self) -> None:
        """Raise Disturbed if a thread has flushed one of the numbers."""
        size = GRAIN * torch.get_num_threads()
        if self._numbers.numel() != size:
            self._numbers = torch.ones(size, device=self._where)
            self._numbers.view(torch.int32)[::SPACING] = SMALL
            self._wide = torch.empty(size, dtype=torch.float64, device=self._where)
            self._narrow = torch.empty_like(self._numbers)
        self._wide.copy_(self._numbers)
        self._narrow.copy_(self._wide)
        # NOTE: compared as bits, because a thread that flushes treats a subnormal number as zero.
        if not torch.equal(self._narrow.view(torch.int32), self._numbers.view(torch.int32)):
            raise Disturbed(
                "threads of torch flush subnormal numbers to zero; restart this process without what sets "
                "flush-to-zero in it (torch.set_flush_denormal, a library built with -ffast-math)"
            )
