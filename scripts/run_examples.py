"""Run the examples: each as a program, and as its script trains; `make examples`, or `make examples ARGS="lora vit"`.

For each: build the recipe, run the program as `assay program run` does, write the result as `--hf` does, load it with
`from_pretrained`, and train as the script does. Prints a line for each and exits with status 1 if one is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import logging
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import repops
import torch
import transformers

from assay_capture.capture import build
from assay_capture.huggingface.export import export
from referee_py.commit.tensor import Array
from trainer_node.local.bundle import Bundle
from trainer_node.local.local_run import LocalRun
from trainer_node.local.provenance import local_run

STEPS = 50
NAMES = (
    "finetune",
    "lora",
    "sft_packing",
    "classification",
    "masked_lm",
    "vit",
    "clip",
    "summarise",
    "mixture",
    "continued",
    "autocast",
    "accumulation",
)
NOISE, NOISE_BF16 = 1e-3, 2e-2
"""Largest relative difference of a loss. Rounding of FP32 starts at 1e-7 and grows as two runs drift apart, to 2e-4 in
these 50 steps, as PyTorch's FP32 drifts from its FP64. bf16 has 8 bits, and PyTorch rounds its sums elsewhere: 2e-3 in
50 steps."""


@dataclass(frozen=True)
class Outcome:
    """Losses of the program (`ours`) and of the script (`theirs`); `wrong` says what is wrong with the folder."""

    name: str
    ours: list[float]
    theirs: list[float]
    seconds: float
    wrong: str

    @property
    def difference(self) -> float:
        """The largest relative difference of a loss."""
        return float(np.abs(np.array(self.ours) / np.array(self.theirs) - 1).max())

    @property
    def allowed(self) -> float:
        return NOISE_BF16 if self.name == "autocast" else NOISE

    @property
    def good(self) -> bool:
        return len(self.ours) == len(self.theirs) and self.difference <= self.allowed and not self.wrong


def run_example(name: str, folder: Path, steps: int = STEPS) -> Outcome:
    """Run one example in both ways. `folder` must be empty; the bundle and the result are written there."""
    began = time.monotonic()
    example = importlib.import_module(f"examples.{name}")
    recipe = example.recipe(steps)
    build(recipe).write(folder / "job")
    bundle = Bundle.read(folder / "job")
    ours: list[float] = []
    result = LocalRun(bundle, steps).compute(lambda _, metrics: ours.append(metrics["loss"]), lambda: False)
    assert result.root is not None
    export(bundle, result.state.arrays, folder / "out", local_run({"run root": result.root.hex()}))
    wrong = _wrong(example, recipe.module, bundle, result.state.arrays, folder / "out")
    theirs = own_losses(example, steps)
    return Outcome(name, ours, theirs, time.monotonic() - began, wrong)


def own_losses(example: Any, steps: int) -> list[float]:
    """Train as the script does; return the loss of every step."""
    if hasattr(example, "train"):
        return list(example.train(steps))
    trainer = example.trainer(steps)
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def _wrong(example: Any, module: Any, bundle: Bundle, state: list[Array], out: Path) -> str:
    """Load the folder; return what is missing, unexpected, or other than in the run's last state."""
    if hasattr(module, "peft_config"):
        import peft

        loaded = peft.PeftModel.from_pretrained(example.base(), out)
        result = loaded.load_adapter(out, "again")
        keys = [*result.missing_keys, *result.unexpected_keys]
    else:
        loaded, info = type(module).from_pretrained(out, output_loading_info=True)
        keys = [key for part in ("missing_keys", "unexpected_keys", "mismatched_keys") for key in info[part]]
    if keys:
        return f"{keys[0]} is missing or unexpected, with {len(keys) - 1} more"
    trained = {
        label.removeprefix("param."): array
        for label, array in zip(bundle.labels["slots"], state, strict=True)
        if label.startswith("param.")
    }
    tensors = dict(loaded.named_parameters())
    other = [name for name, array in trained.items() if not np.array_equal(tensors[name].detach(), array)]
    return f"{other[0]} has other values than after the run" if other else ""


def _quiet() -> None:
    """Leave out what libraries print while they work: bars, warnings."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--steps", type=int, default=STEPS)
    given = parser.parse_args()
    torch.set_num_threads(1)
    repops.set_num_threads(1)
    _quiet()
    print(f"{'example':15} {'program':>17} {'script':>19} {'difference':>13} {'seconds':>8}")
    bad = 0
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_example(name, Path(folder), given.steps)
        ours, theirs = (f"{losses[0]:.4f} -> {losses[-1]:.4f}" for losses in (outcome.ours, outcome.theirs))
        line = f"{name:15} {ours:>17} {theirs:>19} {outcome.difference:13.1e} {outcome.seconds:8.1f}"
        print(line if outcome.good else f"{line}  WRONG: {outcome.wrong or 'losses differ'}", flush=True)
        bad += not outcome.good
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
