"""The explorer's command, as `assay` finds it by the entry points of this distribution."""

from __future__ import annotations

from trainer_node.cli.command import Command

COMMANDS = {
    "explorer": Command(
        "assay_explorer.cli:app", "Web pages that show jobs and disputes, down to the number."
    ),
}
