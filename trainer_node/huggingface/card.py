"""The model card of an exported result: where it comes from, what was checked, by whom, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..bundle import Bundle


@dataclass(frozen=True)
class Provenance:
    """What is known about a result: names and values, and sentences for people."""

    facts: Sequence[tuple[str, str]]
    checked: Sequence[str]
    unknown: Sequence[str]


def local_run(facts: Mapping[str, str]) -> Provenance:
    """Return what is known about a run on this machine, without a chain. `facts` is what the run has shown."""
    unknown = ["Nobody else has computed it, and no stake stands behind it."]
    if "run root" not in facts:
        unknown.append("There is no run root, so the result cannot be compared with anybody's claim.")
    return Provenance(
        list(facts.items()),
        ["The run was computed by the party that made this folder, from the bundle's own tensors."],
        unknown,
    )


def model_card(bundle: Bundle, known: Provenance, library: str, optimizer_state: bool) -> str:
    """Return README.md."""
    facts = {"program hash": bundle.terms.hash().hex(), **dict(known.facts)}
    rows = "\n".join(f"| {name} | {_cell(value)} |" for name, value in facts.items())
    parts = [
        f"---\nlibrary_name: {library}\ntags:\n- assay\n---",
        f"# {_cell(bundle.name)}",
        "Trained as a program that anybody can run again, bit for bit. This card was written by the software that "
        "made the folder, from what it had checked. A copy of the folder can be changed: whoever got it from somebody "
        "else knows what the run root proves, once the tensors are compared with it.",
        f"| | |\n|---|---|\n{rows}",
        "## What was checked",
        "\n".join(f"- {sentence}" for sentence in known.checked),
        "## What is not known",
        "\n".join(f"- {sentence}" for sentence in known.unknown),
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


def _cell(text: str) -> str:
    """Return text for a table, without what would end a cell or a line."""
    return "".join(c if c.isprintable() and c not in "|`<>" else " " for c in text)
