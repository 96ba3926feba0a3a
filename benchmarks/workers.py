"""A training step on several processes: one and two workers of ours, and DistributedDataParallel with the same model.

Each contestant is a set of processes that stay, and they take turns on the same machine. Bytes are those that leave all
processes in a step: ours by the plan's messages, DDP's by its buckets, of which a ring all-reduce sends 2 (W - 1) / W.
They are the same for any batch, so two sizes of it are measured: 1,024 tokens a step, and 4,096.
NOTE: two workers need two free cores; on a busy machine only the processors' time, that of all processes, says much.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import nn

from assay_capture.capture import Adam, Recipe, build
from trainer_node.local.bundle import Bundle
from trainer_node.run.modes import backend_here
from trainer_node.workers.gloo import Gloo
from trainer_node.workers.lead import Lead, worker_of
from trainer_node.workers.serve import serve

from .report import Table, ms

dist: Any = torch.distributed
MICRO_BATCHES = 4
BATCH, LENGTH, VOCABULARY = 16, 64, 512
LARGE = 32, 128
"""Sequences of a larger batch, and their length."""
STEPS = 5
"""Steps of a turn."""


class Gpt(nn.Module):
    """A language model of 3.4 million parameters, with dropout."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 256)
        self.places = nn.Embedding(length, 256)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(256, 4, 1024, 0.1, "gelu", batch_first=True, norm_first=True)
            for _ in range(4)
        )
        self.head = nn.Linear(256, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = self.places.num_embeddings
        x = self.embed(tokens) + self.places(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        for layer in self.layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return self.head(x)


def loss_of(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def recipe(batch: int = BATCH, length: int = LENGTH) -> Recipe:
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (256, length + 1))
    data = {"x": tokens[:, :-1], "y": tokens[:, 1:]}
    optimizer = Adam(3e-4, weight_decay=0.01, decoupled=True)
    order = np.broadcast_to(np.arange(batch), (1 << 10, batch)).copy()
    return Recipe(
        *("gpt", Gpt(length), loss_of, optimizer, data, 1 << 20, batch),
        micro_batches=MICRO_BATCHES,
        order=order,
    )


def measure(turns: int) -> Table:
    """Return milliseconds of a step and bytes that it sends."""
    columns = ["tokens a step", "", "step, ms", "speed-up", "processors' time, ms", "bytes sent in a step"]
    table = Table("workers", columns)
    for batch, length in ((BATCH, LENGTH), LARGE):
        _measure(table, turns, batch, length)
    return table


def _measure(table: Table, turns: int, batch: int, length: int) -> None:
    """Add the rows of a batch of that many sequences of that length."""
    short = replace(recipe(batch, length), steps=1 << 10)
    with tempfile.TemporaryDirectory() as folder:
        build(short, check=False).write(Path(folder) / "job")
        ddp = partial(_ddp, batch, length)
        teams = {
            "ours, 1 process": _Team(_ours, 1, folder),
            "ours, 2 processes": _Team(_ours, 2, folder),
            "DDP, 1 process": _Team(ddp, 1, folder),
            "DDP, 2 processes": _Team(ddp, 2, folder),
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in teams}
        for _ in range(turns):
            for name, team in teams.items():
                times[name].append(team.turn())
        best = {name: np.median(found, axis=0) for name, found in times.items()}
        for name, team in teams.items():
            one, (wall, busy) = best[f"{name.split(',')[0]}, 1 process"], best[name]
            speed_up = f"{one[0] / wall:.2f}"
            table.add(f"{batch * length:,}", name, ms(wall), speed_up, ms(busy), f"{team.nbytes:,}")
            team.close()


class _Team:
    """Processes that stay between turns; process 0 says how long a turn took."""

    def __init__(self, work: Any, size: int, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        meet = tempfile.mkdtemp(dir=folder)
        self._pipe, theirs = context.Pipe()
        self._processes = [
            context.Process(target=work, args=(rank, size, folder, meet, theirs if rank == 0 else None))
            for rank in range(size)
        ]
        for process in self._processes:
            process.start()
        self.nbytes: int = self._pipe.recv()

    def turn(self) -> tuple[float, float]:
        """Return seconds of a step, by the clock and of the processors."""
        before = self._busy()
        self._pipe.send(True)
        wall = float(self._pipe.recv())
        return wall, (self._busy() - before) / STEPS

    def _busy(self) -> float:
        """Return seconds that the processes have computed."""
        ticks = 0
        for process in self._processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._pipe.send(False)
        for process in self._processes:
            process.join()


def _meet(meet: str, size: int) -> Any:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    return dist.FileStore(f"{meet}/store", size)


def _ours(rank: int, size: int, folder: str, meet: str, pipe: Any) -> None:
    import repops

    repops.set_num_threads(1)
    channel = Gloo(_meet(meet, size), rank, size, 300.0)
    bundle = Bundle.read(Path(folder) / "job")

    def backend_of(logs: Any) -> Any:
        return backend_here(bundle.terms.mode, "cpu", "torch", logs)

    if rank:
        serve(*worker_of(bundle, bundle.metrics, channel, backend_of))
        return
    lead = Lead(bundle, bundle.metrics, channel, backend_of)
    from referee_py.execute import Run

    run = Run.of(bundle, backend_of(None), executor=lead)
    state = run.advance(run.initial(), 2)
    parts = lead._worker.plan.parts
    pipe.send(sum(m.offsets[-1] for part in parts for stage in part.stages for m in stage.sends))
    while pipe.recv():
        state.offer()
        began = time.perf_counter()
        state = run.advance(state, state.step + STEPS)
        pipe.send((time.perf_counter() - began) / STEPS)
    lead.close()
    channel.close()


def _ddp(batch: int, length: int, rank: int, size: int, folder: str, meet: str, pipe: Any) -> None:
    del folder  # NOTE: it needs no bundle
    dist.init_process_group("gloo", store=_meet(meet, size), rank=rank, world_size=size)
    model = Gpt(length).train()
    wrapped = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, weight_decay=0.01)
    tokens = torch.randint(0, VOCABULARY, (batch, length + 1))
    share = MICRO_BATCHES // size
    parts = tokens.chunk(MICRO_BATCHES)[rank * share : (rank + 1) * share]

    def step() -> None:
        optimizer.zero_grad()
        for part in parts[:-1]:
            with wrapped.no_sync():
                (loss_of(wrapped(part[:, :-1]), part[:, 1:]) / share).backward()
        (loss_of(wrapped(parts[-1][:, :-1]), parts[-1][:, 1:]) / share).backward()
        optimizer.step()

    step()
    if pipe is not None:
        weights = sum(p.numel() * 4 for p in model.parameters())
        pipe.send(2 * (size - 1) * weights)
    while True:
        goes_on = torch.tensor([pipe.recv() if pipe is not None else 0])
        dist.broadcast(goes_on, 0)
        if not goes_on[0]:
            break
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        if pipe is not None:
            pipe.send((time.perf_counter() - began) / STEPS)
    dist.destroy_process_group()
