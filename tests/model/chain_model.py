"""All contracts of the protocol, composed, to simulate whole histories."""

from __future__ import annotations

from typing import Any

from .availability_hook import AvailabilityHook
from .data_availability import DataAvailability
from .jobs_contract import JobsContract


class ChainModel(JobsContract):
    """All contracts; ``credits`` are those of Jobs. It takes moves in order, and refuses what the contracts refuse."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data_availability = DataAvailability(AvailabilityHook(self))
