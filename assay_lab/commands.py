"""The lab's commands, as `assay` finds them by the entry points of this distribution."""

from __future__ import annotations

from trainer_node.cli.command import Command

COMMANDS = {
    "demo": Command(
        "assay_lab.cli:demo",
        "Start a chain, deploy, train, cheat, dispute, and check that the truth has won.",
    ),
    "lab": Command("assay_lab.cli:lab", "Run daemons that cheat, on a chain of your own."),
}
