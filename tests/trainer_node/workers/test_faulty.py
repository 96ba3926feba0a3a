"""A worker that computes wrongly inside an honest trainer is noticed by what worker 0 computes once more."""

from __future__ import annotations

import contextlib
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pytest
import repops
from repops.opset import F32
from repops.sums import SumMode
from repops.tensors import DTYPE_CODE

from referee_py.commit.tensor import Array
from referee_py.execute import Run
from referee_py.rounding.log_source import MemoryLogs
from trainer_node.errors import WorkerLost
from trainer_node.run.modes import backend_here

from .jobs import job
from .team import team

SHARE = 4
COMMITTED = 20
"""Steps: a machine that is wrong in a quarter of its nodes gets through with a chance of 0.75 ^ 20, that is 0.3 %."""


@dataclass
class Broken:
    """Kernels of a machine that is wrong in one of `SHARE` operations: always the same ones, as with a broken unit."""

    seed: int
    name: str = "cpu"
    sums: SumMode = SumMode.REPOPS_F32

    def execute(self, name: str, inputs: Sequence[Array], attrs: dict[str, Any]) -> list[Array]:
        outputs = repops.backend("cpu").execute(name, inputs, attrs)
        key = f"{self.seed} {name} {[array.shape for array in inputs]} {sorted(map(str, attrs.items()))}"
        if zlib.crc32(key.encode()) % SHARE or DTYPE_CODE[outputs[0].dtype] != F32 or not outputs[0].size:
            return outputs
        wrong = np.array(outputs[0])
        wrong.reshape(-1)[0] += np.float32(1.0)
        return [wrong, *outputs[1:]]


def committed_until_noticed(seed: int) -> int | None:
    """Return the number of committed steps after which worker 1's faults are noticed; None if they are not."""
    bundle = job("mlp")
    run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch"))
    with team(bundle, 2, faulty={1: lambda _: Broken(seed)}) as lead:
        for count in range(1, COMMITTED + 1):
            with contextlib.suppress(WorkerLost):
                lead.step(run.initial(), True)
            if lead.failed is not None:
                assert lead.failed.worker == 1
                return count
    return None


@pytest.mark.parametrize("runs", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_a_faulty_machine_is_noticed(runs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """NOTE: by the same draws each time: of a machine that is wrong in one of the few operations of this model, and not
    in a quarter, chance decides."""
    monkeypatch.setattr(secrets, "choice", Random(runs).choice)
    noticed = [committed_until_noticed(seed) for seed in range(runs)]
    assert sum(count is not None for count in noticed) >= runs * 99 // 100


def test_checks_can_be_switched_off() -> None:
    bundle = job("mlp")
    run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch"))
    with team(bundle, 2, faulty={1: lambda _: Broken(0)}) as lead:
        lead._checks = 0
        for _ in range(COMMITTED):
            lead.step(run.initial(), True)


def test_honest_workers_pass_every_check() -> None:
    """Every node of the others, in a mode with rounding logs, too."""
    for mode in ("repops-f32", "rounded-f64"):
        bundle = job("mlp", mode)
        logs = MemoryLogs() if bundle.terms.arithmetic.follows_logs else None
        run = Run.of(bundle, backend_here(bundle.terms.mode, "cpu", "torch", logs))
        with team(bundle, 3, logs) as lead:
            _, trace = lead.step(run.initial(), True)
            assert trace is not None
            for node in lead._others:
                lead._check(1, node, trace)
