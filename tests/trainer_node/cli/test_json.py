"""`--json` of every command that shows something: one line for scripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from eth_account import Account

from tests.conftest import Assay
from tests.trainer_node.cli.test_cli import import_key
from trainer_node.cli.app import COMMANDS, application


def test_every_show_and_list_has_json() -> None:
    shown = []

    def walk(group: object, path: str) -> None:
        for name, command in getattr(group, "commands", {}).items():
            walk(command, f"{path} {name}".strip())
            if name in ("show", "list"):
                options = {option for one in command.params for option in one.opts}
                shown.append(f"{path} {name}")
                assert "--json" in options, f"{path} {name}"

    for name in {path.split()[0] for path in COMMANDS}:
        real = typer.main.get_group(application([name]))
        if name in real.commands:
            walk(real.commands[name], name)
    assert {"job list", "job show", "verifier list", "release list", "clocks show", "dispute show"} <= set(
        shown
    )
    assert {"program show", "key show", "config show"} <= set(shown)


def test_what_is_shown_is_one_line_of_json(
    assay: Assay, anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    import_key(assay, anvil, monkeypatch, tmp_path)
    periods = "--min-period", "2", "--commit-age", "1"
    code, output, errors = assay("deploy", *periods, "--min-fee", "2gwei", "--release", "1.0")
    assert code == 0, errors
    listed = ("--releases", output.split("--releases ")[1].split()[0])
    address = Account.from_key(anvil.keys[0]).address
    assert assay("verifier", "register", "--bond", "1")[0] == 0

    def told(*command: object) -> object:
        code, output, errors = assay(*command, "--json")
        assert (code, output.count("\n")) == (0, 1), errors
        return json.loads(output)

    assert told("key", "show") == {"address": address}
    assert told("verifier", "list") == [{"address": address, "bond": 10**18, "uri": ""}]
    assert told("job", "list") == []
    clocks = told("clocks", "show")
    assert isinstance(clocks, dict)
    assert (clocks["paused_until"], clocks["guardian"], clocks["behind_s"]) == (None, None, 0)
    releases = told("release", "list", *listed)
    assert isinstance(releases, list)
    (release,) = releases
    assert (release["version"], release["status"], release["reason"]) == ("1.0", "current", "")
