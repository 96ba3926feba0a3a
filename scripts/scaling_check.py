"""Checks the simulation of `scaling` against two processes of this machine: a step of the GPT of `benchmarks.workers`.

NOTE: two processes need two free cores; on a busy machine only the processors' time says much, and bytes.

A step of one process takes a + b m seconds with m micro-batches, so steps of two programs give what a micro-batch and
what the update take. The rate of messages is that of gloo between two processes that send each other as much at once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from assay_capture.capture import build
from benchmarks import workers
from benchmarks.workers import STEPS, _meet, _ours, _Team
from trainer_node.workers.gloo import Gloo

from .scaling import GB, H200, dealt, simulate

TURNS = 7
EXCHANGED = 1 << 23
"""Bytes that each of two processes sends the other at once: about half of the GPT's weights."""


def check() -> Iterator[str]:
    """Yield what is measured, and what is simulated from it."""
    recipe = replace(workers.recipe(), steps=1 << 10)
    half = replace(
        recipe,
        micro_batches=recipe.micro_batches // 2,
        batch_size=recipe.batch_size // 2,
        order=_half(recipe),
    )
    with tempfile.TemporaryDirectory() as folder:
        bundles = [build(one, check=False) for one in (recipe, half)]
        for name, bundle in zip(("whole", "half"), bundles, strict=True):
            bundle.write(Path(folder) / name / "job")
        teams = {
            "one process": _Team(_ours, 1, f"{folder}/whole"),
            "half the micro-batches": _Team(_ours, 1, f"{folder}/half"),
            "two processes": _Team(_ours, 2, f"{folder}/whole"),
            "exchange": _Team(_exchange, 2, folder),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in teams}
        for _ in range(TURNS):
            for name, team in teams.items():
                taken[name].append(team.turn())
        sent = teams["two processes"].nbytes
        for team in teams.values():
            team.close()
    best = {name: min(wall for wall, _ in turns) for name, turns in taken.items()}
    busy = {name: float(np.median([used for _, used in turns])) for name, turns in taken.items()}
    parts = recipe.micro_batches
    part_s = (best["one process"] - best["half the micro-batches"]) / (parts - parts // 2)
    update_s = max(best["one process"] - parts * part_s, 0.0)
    rate = EXCHANGED / best["exchange"]
    tensors = [p.numel() for p in recipe.module.parameters()]
    found = simulate(tensors, parts, 2, replace(H200, network=rate, latency_s=1e-4), part_s, update_s)
    for name, seconds in best.items():
        yield f"{name}: {1000 * seconds:.1f} ms, {1000 * busy[name]:.1f} ms of processors"
    yield f"a micro-batch {1000 * part_s:.1f} ms, the update {1000 * update_s:.1f} ms, messages {rate / GB:.2f} GB/s"
    yield f"shares of the tensors: {dealt(tensors, 2)}"
    step = best["two processes"]
    yield f"two processes: simulated {1000 * found.seconds:.1f} ms, measured {1000 * step:.1f} ms"
    yield f"speed-up: simulated {best['one process'] / found.seconds:.2f}, measured {best['one process'] / step:.2f}"
    yield f"bytes sent: simulated {found.sent:,.0f}, those of the plan {sent:,}"


def _half(recipe: Any) -> Any:
    return recipe.order[:, : recipe.batch_size // 2].copy()


def _exchange(rank: int, size: int, folder: str, meet: str, pipe: Any) -> None:  # noqa: ARG001
    channel = Gloo(_meet(meet, size), rank, size, 300.0, loopback=True)
    source, letter, into = (np.zeros(EXCHANGED, np.uint8) for _ in range(3))
    told = np.ones(1, np.uint8)
    if pipe is not None:
        pipe.send(0)
    while True:
        if pipe is not None:
            told[0] = pipe.recv()
            channel.send(1, told, 16).wait()
        else:
            channel.receive(0, told, 16).wait()
        if not told[0]:
            break
        began = time.perf_counter()
        for _ in range(STEPS):
            coming = channel.receive(1 - rank, into, 17)
            np.copyto(letter, source)
            leaving = channel.send(1 - rank, letter, 17)
            coming.wait()
            leaving.wait()
        if pipe is not None:
            pipe.send((time.perf_counter() - began) / STEPS)
    channel.close()
