"""What commands ask of a person and write beside their answer."""

from __future__ import annotations

import pytest
import structlog

from referee_py.errors import InvalidInput
from tests.conftest import Assay
from trainer_node.settings.extent import Mode


def test_a_new_key_asks_for_a_new_password(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []

    def prompt(text: str, *, hide_input: bool, confirmation_prompt: object) -> str:
        asked.append((text, confirmation_prompt))
        assert hide_input
        return "secret"

    monkeypatch.delenv("ASSAY_PASSWORD", raising=False)
    monkeypatch.setattr("trainer_node.cli.key.interactive", lambda: True)
    monkeypatch.setattr("typer.prompt", prompt)
    assert assay("key", "new", "--light")[0] == 0
    assert asked == [("A new password, to encrypt this key with", "The same again")]


@pytest.mark.parametrize(("given", "told"), [((), False), (("--log-level", "info"), True)])
def test_a_command_that_is_read_as_a_table_logs_warnings_unless_a_level_is_set(
    assay: Assay, given: tuple[str, ...], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looks(_settings: object) -> None:
        structlog.get_logger("test").info("artifacts.fetched")
        raise InvalidInput("no chain")

    monkeypatch.setattr("trainer_node.cli.result.reader", looks)
    code, _, errors = assay("job", "result", 1, *given)
    assert (code, "artifacts.fetched" in errors) == (2, told)


@pytest.mark.parametrize(
    ("given", "mode"),
    [((), Mode.CHALLENGE), (("--mode", "challenge"), Mode.CHALLENGE), (("--mode", "defend"), Mode.DEFEND)],
)
def test_an_accuser_acts_where_nothing_is_said_of_its_mode(
    assay: Assay, monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], mode: Mode
) -> None:
    modes: list[Mode] = []
    monkeypatch.setattr("assay_lab.daemons.run_challenger", lambda settings, _: modes.append(settings.mode))
    assert assay("lab", "challenger", "--fault", "poison-data", *given)[0] == 0
    assert modes == [mode]
