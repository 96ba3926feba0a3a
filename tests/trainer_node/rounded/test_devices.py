"""The evaluators of a GPU, and the errors on machines without one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from referee_py.compiled import Cuda
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.log_source import MemoryLogs
from trainer_node.errors import ConfigError
from trainer_node.run.devices import EMULATED, evaluator_of
from trainer_node.settings.settings import load_settings

from .places import GPU


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_the_remedy_is_named() -> None:
    with pytest.raises(ConfigError, match='set device = "cpu"'):
        evaluator_of("torch", "cuda")


@pytest.mark.gpu
@GPU
def test_on_a_gpu_values_are_its_tensors() -> None:
    backend = Rounded(Rounding(32), MemoryLogs(), evaluator_of("torch", "cuda"))
    assert isinstance(backend.device, Cuda)


def test_simulated_hardware_is_no_gpu(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='set evaluator = "torch", or device = "cpu"'):
        evaluator_of("halves", "cuda")
    file = tmp_path / "assay.toml"
    file.write_text('device = "cuda"\nevaluator = "halves"\n')
    with pytest.raises(ConfigError, match='"halves" runs on the processor'):
        load_settings(file)


def test_emulated_binary64_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EMULATED, "1")
    with pytest.raises(ConfigError, match=f"{EMULATED} is set"):
        evaluator_of("torch", "cuda")
    assert evaluator_of("torch").device is None, "it is no matter of the processor"
