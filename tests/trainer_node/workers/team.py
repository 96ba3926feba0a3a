"""A run with many workers in this process: worker 0 is the test's own thread, the others are threads of their own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType

from referee_py.rounding.log_source import LogSource
from trainer_node.local.bundle import Bundle
from trainer_node.run.modes import backend_here
from trainer_node.workers.commands import COMMAND, Command, Do, to_all
from trainer_node.workers.lead import BackendOf, Lead, worker_of
from trainer_node.workers.serve import serve

from .simulated import Network, Queues


def backend_of(bundle: Bundle) -> BackendOf:
    return partial(backend_here, bundle.terms.mode, "cpu", "torch")


@contextlib.contextmanager
def team(
    bundle: Bundle,
    workers: int,
    logs: LogSource | None = None,
    faulty: Mapping[int, BackendOf] = MappingProxyType({}),
) -> Iterator[Lead]:
    """Yield worker 0's executor. Workers in ``faulty`` have another backend."""
    network = Network(workers)

    def work(rank: int) -> None:
        computes = faulty.get(rank, backend_of(bundle))
        serve(*worker_of(bundle, bundle.metrics, Queues(network, rank), computes))

    others = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(1, workers)]
    for thread in others:
        thread.start()
    lead = Lead(bundle, bundle.metrics, Queues(network, 0), backend_of(bundle), logs)
    yield lead
    lead.close()
    if (
        lead.failed is not None
    ):  # NOTE: it says nothing more; processes would see that their connection is closed
        to_all(Queues(network, 0), Command(Do.STOP).encode(), COMMAND)
    for thread in others:
        thread.join()
