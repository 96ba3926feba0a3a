"""Commands as a person types them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_node.cli import main

Assay = Callable[..., tuple[int, str, str]]


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Assay:
    """`assay("data", "show", ...)` returns exit code, standard output and error; it runs in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        output, errors = capfd.readouterr()
        return int(caught.value.code or 0), output, errors

    return run
