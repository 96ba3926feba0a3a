"""The service's commands, as `assay` finds them by the entry points of this distribution."""

from __future__ import annotations

from trainer_node.cli.command import Command

COMMANDS = {
    "serve": Command(
        "assay_serve.cli:serve", "Serve a language model, with receipts that anybody can check."
    ),
    "pledge": Command(
        "assay_serve.pledge_cli:app", "Ether behind the receipts of a server, and challenges of them."
    ),
    "receipt": Command("assay_serve.receipt_cli:app", "Receipts of answers: show one, and check it again."),
}
