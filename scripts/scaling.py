"""Simulates the schedule of `trainer_node/workers` for models and numbers of GPUs that nobody has here.

    python -m scripts.scaling             # writes the tables of docs/scaling.md
    python -m scripts.scaling --check     # measures on two processes here, and compares a step with its simulation

A step has two rounds. In the first a worker computes its micro-batches and sends each owner its partial sums of the
owner's tensors; in the second it adds, updates what it owns, and sends the new weights to all others. Tensors are dealt
out whole, as `partition` does, and a worker sends one partial sum for each whole subtree of its range of micro-batches.
Messages leave a worker one after the other, and come to it one after the other. GPUs are simulated, not measured.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_node.workers.partition import owner_of_part

PAGE = Path(__file__).parent.parent / "docs" / "scaling.md"
BEGIN, END = "<!-- scaling -->", "<!-- /scaling -->"
GB = 1e9
MAX_NODES = 1 << 17
"""Nodes of a program, at most (`run.package`)."""
F32 = 4
ADAM_SLOTS = 2


@dataclass(frozen=True)
class Rates:
    """Rates of one worker: operations and bytes a second; and the seconds of a message of no length."""

    flops: float
    hashing: float
    network: float
    disk: float
    latency_s: float
    memory: float


H200 = Rates(flops=17.6e12, hashing=472 * GB, network=50 * GB, disk=2 * GB, latency_s=2e-5, memory=141 * GB)
"""Measured (docs/measurements/gpu.md): 512 tokens of GPT-2 small in 21.64 ms, and hashing. From data sheets: memory,
and 400 Gb/s of network for each GPU. Assumed: the disk and the latency."""
HASHED_UPDATE, HASHED_TOKEN = 80, 35 / 512
"""Bytes hashed in a committed step for each parameter, by the update and by a token: 14.3 GB for GPT-2 small and 512
tokens (docs/measurements/models.md), of which the update's share is an estimate. Larger models hash less by a token."""


@dataclass(frozen=True)
class Model:
    """A Llama: its shapes, the nodes of a micro-batch and of the update, tokens of a micro-batch and of a step."""

    name: str
    layers: int
    width: int
    inner: int
    keys: int
    vocabulary: int
    heads: int = 2
    """Tensors of vocabulary and width: one if inputs and outputs share it."""
    micro_tokens: int = 4096
    step_tokens: int = 1 << 22

    @property
    def tensors(self) -> list[int]:
        """Elements of each parameter; norms are left out."""
        layer = [self.width**2, self.width * self.keys, self.width * self.keys, self.width**2]
        layer += [self.width * self.inner] * 3
        return self.layers * layer + [self.vocabulary * self.width] * self.heads

    @property
    def nodes(self) -> tuple[int, int]:
        """Nodes of a micro-batch and of the update, by those of GPT-2 small: 12 layers of 208, 12 for each tensor."""
        return 208 * self.layers, 12 * len(self.tensors)

    @property
    def activation_bytes(self) -> float:
        """Bytes of a micro-batch that wait for the backward pass: 34 elements for each token, layer and column."""
        return 34.0 * F32 * self.micro_tokens * self.width * self.layers


MODELS = (
    Model("1B", 16, 2048, 8192, 512, 128_256, heads=1),
    Model("8B", 32, 4096, 14_336, 1024, 128_256),
    Model("70B", 80, 8192, 28_672, 1024, 128_256),
)
GPUS = (8, 64, 256, 1024)


# ---------------------------------------------------------------------------------------------- the schedule


def partial_sums(parts: int, workers: int) -> list[int]:
    """Return for each worker how many subtrees of the tree over micro-batches it computes alone."""
    found = [0] * workers

    def visit(first: int, end: int) -> None:
        owners = owner_of_part(first, parts, workers), owner_of_part(end - 1, parts, workers)
        if owners[0] == owners[1]:
            found[owners[0]] += 1
            return
        half = 1 << (end - first - 1).bit_length() - 1
        visit(first, first + half)
        visit(first + half, end)

    visit(0, parts)
    return found


def dealt(tensors: Sequence[int], workers: int) -> list[int]:
    """Return the elements that each worker owns: whole tensors, the largest first, to whoever has fewest."""
    held = [0] * workers
    for size in sorted(tensors, reverse=True):
        held[held.index(min(held))] += size
    return held


@dataclass(frozen=True)
class Step:
    """A simulated step: seconds, bytes that all workers send, and the most that one sends or gets."""

    seconds: float
    sent: float
    most: float


def simulate(
    tensors: Sequence[int], parts: int, workers: int, rates: Rates, part_s: float, update_s: float
) -> Step:
    """Return a step of ``parts`` micro-batches of ``part_s`` seconds, and an update of ``update_s`` for all tensors."""
    held, sums, total = dealt(tensors, workers), partial_sums(parts, workers), sum(tensors)
    counts = [0] * workers
    for part in range(parts):
        counts[owner_of_part(part, parts, workers)] += 1
    others = sum(sums)
    rounds = []
    for own, count in zip(held, sums, strict=True):
        reduce = F32 * count * (total - own), F32 * (others - count) * own
        gather = F32 * own * (workers - 1), F32 * (total - own)
        rounds.append((reduce, gather))
    arrival = 0.0
    begins = [count * part_s for count in counts]
    for k in range(2):
        # NOTE: nobody has all messages before the last one has begun to send.
        wire = [max(both[k]) / rates.network for both in rounds]
        arrival = max(begins) + max(wire) + (workers - 1) * rates.latency_s
        begins = [arrival + update_s * own / total for own in held]
    sent = sum(out for both in rounds for out, _ in both)
    return Step(arrival, sent, max(sum(map(max, both)) for both in rounds))


# ---------------------------------------------------------------------------------------------- large models


def memory(model: Model, parts: int, workers: int) -> float:
    """Return bytes of the fullest worker: weights, partial sums, messages both ways, its optimizer, activations."""
    total, own = sum(model.tensors), max(dealt(model.tensors, workers))
    share = -(-parts // workers)
    alive = math.floor(math.log2(share)) + 2
    most = max(partial_sums(parts, workers))
    messages = most * (total - own) + (sum(partial_sums(parts, workers)) - most) * own
    messages += own * (workers - 1) + total - own
    return F32 * (total * (1 + alive) + messages + ADAM_SLOTS * own) + model.activation_bytes


def row(model: Model, workers: int, rates: Rates) -> list[str]:
    """Return what a step, a committed step, a checkpoint and a dispute take."""
    parts = max(model.step_tokens // model.micro_tokens, workers)
    total = sum(model.tensors)
    part_s = 6 * total * model.micro_tokens / rates.flops
    step = simulate(model.tensors, parts, workers, rates, part_s, 0.0)
    even = simulate([-(-total // workers)] * workers, parts, workers, rates, part_s, 0.0)
    ideal = parts * part_s / workers
    nodes = model.nodes[0] * parts + model.nodes[1]
    hashed = HASHED_UPDATE * total + HASHED_TOKEN * total * parts * model.micro_tokens
    state = F32 * total * (1 + ADAM_SLOTS)
    # NOTE: worker 0 gathers the state, hashes it as names of files, and writes it.
    checkpoint_s = state * (1 / rates.network + 1 / rates.hashing + 1 / rates.disk)
    alone_s = parts * part_s
    strides = (100, 10, 1)
    replays = (len(strides) + 1) * strides[0]
    return [
        model.name,
        f"{workers:,}",
        f"{nodes / MAX_NODES:.1f}",
        f"{memory(model, parts, workers) / rates.memory:.1f}",
        f"{step.seconds:.2f}",
        f"{ideal / step.seconds:.2f}",
        f"{ideal / even.seconds:.2f}",
        f"{step.most / GB:,.0f}",
        f"{hashed / workers / rates.hashing:.1f}",
        f"{state / GB:,.0f} in {checkpoint_s:,.0f} s",
        f"{replays * alone_s / 3600:,.0f}",
        f"{replays * step.seconds / 3600:,.1f}",
    ]


HEADS = (
    "model", "GPUs", "nodes / limit", "memory / device", "step, s", "efficiency", "with cut tensors",
    "GB of the busiest worker", "hashing, s", "checkpoint, GB", "dispute alone, h", "by all workers, h",
)  # fmt: skip


def tables(rates: Rates = H200) -> Iterator[str]:
    """Yield the lines of the page's table."""
    yield "| " + " | ".join(HEADS) + " |"
    yield "|---|" + "---:|" * (len(HEADS) - 1)
    for model in MODELS:
        for workers in GPUS:
            yield "| " + " | ".join(row(model, workers, rates)) + " |"


def write() -> None:
    """Write the table into the page."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + "\n".join([BEGIN, *tables(), END]) + after)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        from .scaling_check import check

        print("\n".join(check()))
    else:
        print("\n".join(tables()))
        write()
