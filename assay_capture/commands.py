"""The compiler's commands, as `assay` finds them by the entry points of this distribution."""

from __future__ import annotations

from trainer_node.cli.command import Command

COMMANDS = {
    "data": Command("assay_capture.cli.data:app", "Data sets: committed tensors, and proofs of their rows."),
    "program build": Command(
        "assay_capture.cli.build:build", "Capture a job into a bundle: program, terms and tensors."
    ),
    "program recipes": Command("assay_capture.cli.build:recipes", "List the built-in recipes."),
}
