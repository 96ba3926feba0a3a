"""`--help` of every command shows its flags and loads nothing that the flags do not need."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import typer

from trainer_node.cli.app import application

LIGHT = {
    "rich",
    "typer",
    "shellingham",
    "markdown_it",
    "mdurl",
    "pygments",
    "click",
    "annotated_doc",
    "attr",
    "pydantic",
}
"""Packages of others that a command may load to show its flags: what writes to the terminal, and what that takes by
itself if it is installed."""
OF_PYDANTIC = {"annotated_types", "pydantic_core", "typing_extensions", "typing_inspection"}
OURS = {"assay_capture", "assay_explorer", "assay_lab", "assay_serve", "referee_py", "trainer_node"}

LOADED = """
import json, sys
from trainer_node.cli import main

before, found = set(sys.modules), {}
for command in json.loads(sys.argv[1]):
    sys.argv = ["assay", *command.split(), "--help"]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, command
    found[command] = sorted(set(sys.modules) - before)
    before |= set(sys.modules)
print("loaded", json.dumps(found))
"""


def _commands() -> list[str]:
    def below(command: object, path: str) -> list[str]:
        inner = getattr(command, "commands", {})
        return [path, *(found for name in inner for found in below(inner[name], f"{path} {name}".strip()))]

    return below(typer.main.get_command(application([], complete=True)), "")


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """What each command's help loads beyond what those before it have loaded, in one process."""
    told = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(_commands())], capture_output=True, text=True, check=True
    ).stdout
    assert told.count("Usage: assay") == len(_commands())
    found: dict[str, list[str]] = json.loads(told.rpartition("loaded ")[2])
    return found


def test_help_of_no_command_loads_a_library_of_its_work(loaded: dict[str, list[str]]) -> None:
    assert len(loaded) > 70
    known = LIGHT | OF_PYDANTIC | OURS | set(sys.stdlib_module_names)
    heavy = {
        command: foreign
        for command, modules in loaded.items()
        if (foreign := {name.split(".")[0] for name in modules if not name.startswith("_")} - known)
    }
    assert heavy == {}


def test_help_of_a_command_loads_little_of_ours(loaded: dict[str, list[str]]) -> None:
    """All commands together: the command line itself, and a few tables of names and numbers."""
    ours = {name for modules in loaded.values() for name in modules if name.split(".")[0] in OURS}
    beside = {name for name in ours if ".cli" not in name and "commands" not in name}
    assert len(beside) <= 40, sorted(beside)
    assert "trainer_node.cli.job" in ours
