"""Calls with fixed memory on torch's current stream: the parts of a whole step and of its CUDA graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .device import Device, torch_with_cuda
from .plan import LaunchPlan


class BoundPlan(NamedTuple):
    """A plan and the addresses of its buffers."""

    plan: LaunchPlan
    addresses: tuple[int, ...]


class CallSequence:
    """Calls in order. With `graph` the second run captures them, and every later run replays the graph.

    The first run loads the kernels, which cannot be captured. NOTE: a graph keeps addresses, so the memory that calls
    are bound to must outlive it.
    """

    def __init__(self, gpu: Device, calls: Sequence[BoundPlan], graph: bool = True):
        self._gpu, self._calls, self._wanted = gpu, list(calls), graph
        self._runs = 0
        self._graph: Any = None

    def run(self) -> None:
        """Launch all calls without waiting."""
        self._runs += 1
        if self._graph is None and self._wanted and self._runs == 2:
            cuda = torch_with_cuda().cuda
            self._graph = cuda.CUDAGraph()
            with cuda.graph(self._graph):
                self._launch()
        if self._graph is not None:
            self._graph.replay()
        else:
            self._launch()

    def _launch(self) -> None:
        for call in self._calls:
            self._gpu.run(call.plan, list(call.addresses))
