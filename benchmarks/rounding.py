"""Rounding logs measured: the experiments of Srivastava et al. (2024), section 6, at the size of this machine.

    rounding-logs         their table 2: sizes of the logs of a step
    rounding-corrections  their table 3: elements of a step that an auditor rounds otherwise than by itself
    rounding-overhead     their table 5: CPU time of a step, of plain training in FP64 and in FP32, one thread
    rounding-paper        the same as they count it: elapsed time, with files of logs and Merkle trees
    rounding-runs         their figure 5: whole runs on different hardware, with logs and without

The models are theirs, and two small ones for long runs; the text is given or synthetic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from assay_capture.capture import SGD, Adam, Recipe
from assay_capture.capture.recipes import synthetic
from assay_capture.datasets import read_text
from referee_py.commit.tensor import Array
from referee_py.errors import Unavailable
from referee_py.execute import Executor, State, executor_for
from referee_py.program.modes import Rounding
from referee_py.rounding.backend import Rounded
from referee_py.rounding.evaluate import Evaluation
from referee_py.rounding.log_source import LogSource
from referee_py.rounding.step_log import StepLog
from trainer_node.local.bundle import Bundle
from trainer_node.rounded.evaluators import evaluator_of

from .recipes import built_in

BITS = (32, 31, 30, 29, 28, 27, 26)
PAPER_LOGS = {"resnet50": {32: "96 MB", 26: "91 MB"}, "gpt2-small": {32: "20 MB", 26: "18 MB"}}
PAPER_CORRECTIONS = {
    "resnet50": {32: "25", 31: "12", 30: "5", 29: "4", 28: "0", 27: "0", 26: "0"},
    "gpt2-small": {32: "21", 31: "3", 30: "3", 29: "0.4"},
}
"""Forward and backward pass together."""


# ---------------------------------------------------------------------------------------------------- models


def recipe_of(name: str, text: Path | None = None) -> Recipe:
    """Return a model: the paper's two with its batches, two of its comparisons, or a small one of the long runs."""
    match name:
        case "resnet50":
            return built_in(name, steps=100, batch_size=64)
        case "gpt2-small":
            recipe = built_in(name, steps=100, batch_size=8, length=64)
            return recipe if text is None else dataclasses.replace(recipe, data=_tokens(text, 64))
        case "small-cnn":
            return _small_cnn()
        case "small-gpt":
            return _small_gpt(text)
    return built_in(name, steps=100)


def _tokens(text: Path, length: int) -> Mapping[str, Array]:
    tokens = read_text(text, length).tensors["tokens"]
    return {"input_ids": tokens, "labels": tokens}


def _small_cnn() -> Recipe:
    """Return three convolutions with batch norm on 32 x 32 images, batches of 32."""
    layers: list[nn.Module] = []
    for channels, wide in ((3, 32), (32, 32), (32, 64)):
        layers += [
            nn.Conv2d(channels, wide, 3, padding=1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    pixels, labels = synthetic.images(0, 512, (3, 32, 32), 10)
    return Recipe(
        name="small-cnn",
        module=nn.Sequential(*layers, nn.Flatten(), nn.Linear(1024, 10)),
        loss=nn.functional.cross_entropy,
        optimizer=SGD(lr=0.05, momentum=0.9),
        data={"x": pixels, "y": labels},
        steps=200,
        batch_size=32,
    )


def _small_gpt(text: Path | None) -> Recipe:
    """Return a GPT of four layers of width 256 on windows of 64 bytes, batches of 8; no dropout, because of FP32."""
    import transformers

    config = transformers.GPT2Config(
        vocab_size=256,
        n_layer=4,
        n_embd=256,
        n_head=4,
        n_positions=65,
        use_cache=False,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    made_up = synthetic.tokens(0, 512, 64, 256)
    return Recipe(
        name="small-gpt",
        module=transformers.GPT2LMHeadModel(config).train(),
        loss=None,
        optimizer=Adam(lr=1e-3, decoupled=True),
        data={"input_ids": made_up, "labels": made_up} if text is None else _tokens(text, 64),
        steps=200,
        batch_size=8,
    )


# ---------------------------------------------------------------------------------------------------- running


class Borrowed:
    """Another party's log source, as an auditor has it."""

    def __init__(self, read: Callable[[int], StepLog | None]) -> None:
        self._read = read

    def get(self, step: int) -> StepLog:
        found = self._read(step)
        if found is None:
            raise Unavailable(f"the log of step {step} is not written yet")
        return found

    def put(self, step: int, log: StepLog) -> None: ...


class Observed(Rounded):
    """Calls `watch` for each evaluation with its node, and counts corrections by node."""

    watch: Callable[[int, Evaluation], None] | None = None

    def __init__(self, rounding: Rounding, log_source: LogSource, evaluator: str) -> None:
        super().__init__(rounding, log_source, evaluator_of(evaluator))
        self.corrected: dict[int, int] = {}

    def round(self, node: int, *given: Any, **named: Any) -> Array:
        if self.watch:
            self.watch(node, given[3])
        before = self.corrections
        values = super().round(node, *given, **named)
        self.corrected[node] = self.corrected.get(node, 0) + self.corrections - before
        return values


@dataclasses.dataclass
class Replayer:
    """A party that runs a program in this mode."""

    backend: Observed
    executor: Executor
    state: State

    @classmethod
    def of(
        cls, bundle: Bundle, rounding: Rounding, log_source: LogSource, evaluator: str = "torch"
    ) -> Replayer:
        backend = Observed(rounding, log_source, evaluator)
        executor = executor_for(bundle.program, bundle.constants, backend)
        return cls(backend, executor, State.of(0, bundle.initial))

    def step(self) -> None:
        """Take a step. NOTE: the state is offered, as in a run, so that its memory is reused."""
        self.state.offer()
        self.state, _ = self.executor.step(self.state, False)

    def checkpoint(self) -> bytes:
        """Take a step and commit to it."""
        self.state, trace = self.executor.step(self.state, True)
        assert trace is not None
        return trace.root
