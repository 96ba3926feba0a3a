"""The model card of an exported result: where it comes from, what was checked, by whom, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from trainer_node.local.bundle import Bundle
from trainer_node.local.provenance import Provenance

_MAX_CELL, _MAX_LISTED = 300, 20


def model_card(
    bundle: Bundle,
    known: Provenance,
    library: str,
    optimizer_state: bool,
    unproven: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> str:
    """Return README.md.

    unproven   tensors that are no part of the program
    left_out   lines of configurations that asked for code
    """
    hashed = {"program hash": bundle.terms.hash().hex()}
    facts = hashed | dict(known.facts) | hashed
    rows = "\n".join(f"| {_cell(name)} | {_cell(value)} |" for name, value in facts.items())
    unknown = list(known.unknown)
    compared = str(bundle.labels.get("checked") or "not compared with PyTorch, as far as the bundle says")
    unknown.append(
        f"Whether the program is the training step that its author meant. The bundle says of it: {_cell(compared)}."
    )
    if unproven:
        unknown.append(
            f"The values of {len(unproven)} tensors that the program does not read, which come from the bundle as they "
            f"are: {_listed(unproven)}."
        )
    if left_out:
        unknown.append(
            f"What the bundle's configurations wanted to load from elsewhere, and was left out: {_listed(left_out)}."
        )
    parts = [
        f"---\nlibrary_name: {library}\ntags:\n- assay\n---",
        f"# {_cell(bundle.name)}",
        "Trained as a program that anybody can run again, bit for bit. This card was written by the software that "
        "made the folder, from what it had checked. A copy of the folder can be changed: whoever got it from somebody "
        "else knows what the run root proves, once the tensors are compared with it.",
        f"| | |\n|---|---|\n{rows}",
        "## What was checked",
        "\n".join(f"- {sentence}" for sentence in known.checked),
        *(["## The certificate", known.certificate] if known.certificate else []),
        "## What is not known",
        "\n".join(f"- {sentence}" for sentence in unknown),
    ]
    if library == "peft":
        parts.append(
            "This folder holds the adapter only. The base model must be the one that the program has as constants; "
            "`adapter_config.json` names it, and nothing here proves that a model under that name is the same."
        )
    if optimizer_state:
        parts.append(
            "`optimizer.safetensors` holds the optimizer's state after the last step, by the program's names."
        )
    return "\n\n".join(parts) + "\n"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_cell, names[:_MAX_LISTED])) + (", ..." if len(names) > _MAX_LISTED else "")


def _cell(text: str) -> str:
    """Return text for a table, without what would end a cell or a line, or be a link or a picture.

    SAFETY: names come from the bundle, and so from anybody.
    """
    return "".join(c if c.isprintable() and c not in "|`<>[]" else " " for c in text[:_MAX_CELL])
