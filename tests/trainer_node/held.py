"""A backend that a test holds."""

from __future__ import annotations

import threading
from typing import Any

import repops
from repops.sums import SumMode


class Held:
    """A backend that waits at every operator until it is let go, and counts operators and waits."""

    name, sums = "held", SumMode.REPOPS_F32

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Event()
        self.calls = self.waited = 0

    def execute(self, *operator: Any) -> Any:
        self.calls += 1
        self.begun.set()
        let_go = self.go.wait(120)
        self.waited += 1
        assert let_go
        return repops.backend("cpu").execute(*operator)
