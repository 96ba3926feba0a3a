"""Whether the threads of torch's pool keep subnormal numbers: an answer that is known, from each of them.

A thread's control register can be read by itself alone, and these threads run torch's code only. But torch gives every
one of them an equal part of an array that is long enough. A pool's threads have the registers of the thread that
started them, as they were then: torch.set_flush_denormal, called before, may have made all of them flush.
"""

from __future__ import annotations

import torch

from referee_py.errors import Disturbed

GRAIN = 32_768
"""Elements from which on torch wakes a thread (at::internal::GRAIN_SIZE)."""
SPACING = 1024
"""NOTE: one number in so many is subnormal: processors take a hundred times longer for those."""
SMALL = 1 << 9
"""The bits of 2^-140."""


class Probe:
    """Numbers that are made wide and narrow again, on `where`, a torch device."""

    def __init__(self, where: str = "cpu") -> None:
        self._where = where
        self._numbers = torch.empty(0)

    def check(self) -> None:
        """Raises Disturbed if some thread has lost one."""
        size = GRAIN * torch.get_num_threads()
        if self._numbers.numel() != size:
            self._numbers = torch.ones(size, device=self._where)
            self._numbers.view(torch.int32)[::SPACING] = SMALL
            self._wide = torch.empty(size, dtype=torch.float64, device=self._where)
            self._narrow = torch.empty_like(self._numbers)
        self._wide.copy_(self._numbers)
        self._narrow.copy_(self._wide)
        # NOTE: compared as bits, since a thread that flushes holds a subnormal number to be zero.
        if not torch.equal(self._narrow.view(torch.int32), self._numbers.view(torch.int32)):
            raise Disturbed(
                "threads of torch flush subnormal numbers to zero; start this process anew, and without what sets "
                "flush-to-zero in it (torch.set_flush_denormal, a library built with -ffast-math)"
            )
