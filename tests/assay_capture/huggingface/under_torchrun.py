"""A script for `torchrun`: a trainer on several processes, the program that stands for it, and what it really does.

torchrun --nproc-per-node 2 -m tests.assay_capture.huggingface.under_torchrun KIND FOLDER
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed
import transformers as hf

from assay_capture.capture import CaptureError, Recipe, build

from . import tiny

LENGTH = 12
HUNG_S = 400.0
"""Seconds after which a process that hangs says where, and ends."""


def causal(folder: Path) -> Any:
    """Losses that count labels, which differ from row to row; an epoch that does not fill its last step."""
    rows = []
    for row in tiny.sentences(22, LENGTH):
        full = torch.tensor((row * LENGTH)[:LENGTH])
        labels = full.clone()
        labels[len(row) :] = -100
        rows.append({"input_ids": full, "labels": labels})
    arguments = tiny.arguments(folder, gradient_accumulation_steps=2, per_device_train_batch_size=2)
    return hf.Trainer(tiny.gpt2(), arguments, train_dataset=rows)


class Smooth(hf.Trainer):
    """A loss of the user's own, that counts nothing."""

    def compute_loss(self, model, inputs, **_):
        scores = model(**inputs).logits[:, -1]
        return torch.nn.functional.cross_entropy(scores, inputs["labels"][:, 0])


def own_loss(folder: Path) -> Any:
    rows = [torch.tensor((row * LENGTH)[:LENGTH]) for row in tiny.sentences(16, LENGTH)]
    examples = [{"input_ids": row, "labels": row} for row in rows]
    return Smooth(tiny.gpt2(), tiny.arguments(folder, per_device_train_batch_size=2), train_dataset=examples)


KINDS = {"causal": causal, "own_loss": own_loss}


def main(kind: str, folder: Path) -> None:
    trainer = KINDS[kind](folder)
    rank = trainer.args.process_index
    recipe = Recipe.from_trainer(trainer)
    if rank == 0:
        build(recipe).write(folder / "job")
    taken: list[list[list[int]]] = []
    trainer.model.register_forward_pre_hook(
        lambda *call: taken.append(call[2]["input_ids"].tolist()), with_kwargs=True
    )
    trainer.train()
    assert recipe.order is not None
    parts = recipe.order.reshape(recipe.steps * recipe.micro_batches, -1)
    found = {
        "parts": [recipe.data["input_ids"][rows].tolist() for rows in parts],
        "batches": taken,
        "losses": tiny.reported(trainer),
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))
    with pytest.raises(CaptureError, match="continue it on one device"):
        Recipe.from_trainer(trainer, resume_from_checkpoint=folder)
    torch.distributed.barrier()
    # NOTE: here, while `trainer` lives. Where the last reference to DDP goes, its end waits for one of gloo's threads
    # with the interpreter's lock held, and that thread may wait for the lock: one run in some tens hangs for ever.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(HUNG_S, exit=True)
    main(sys.argv[1], Path(sys.argv[2]))
