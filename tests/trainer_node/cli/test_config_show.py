"""`assay config show`: what applies, where it comes from, and no secret in it; names that nearly exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assay_capture.capture import load_recipe
from assay_capture.capture.errors import CaptureError
from assay_lab.faults import Fault
from tests.conftest import Assay
from trainer_node.errors import ConfigError
from trainer_node.settings.settings import load_settings, setting_names
from trainer_node.suggest import did_you_mean


def shown(assay: Assay, *flags: str) -> dict[str, tuple[object, str]]:
    code, output, errors = assay("config", "show", "--json", "--offline", *flags)
    assert code == 0, errors
    return {name: (told["value"], told["origin"]) for name, told in json.loads(output).items()}


def test_each_setting_has_its_origin(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("assay.toml").write_text(
        'port = 7000\nhost = "::1"\ndata_dir = "here"\n[limits]\nrpc_bytes = 70000\n'
    )
    monkeypatch.setenv("ASSAY_HOST", "0.0.0.0")
    monkeypatch.setenv("ASSAY_LIMITS__LOG_RANGE", "77")
    told = shown(assay, "--data-dir", "there")
    assert told["data_dir"] == ("there", "flag")
    assert told["host"] == ("0.0.0.0", "$ASSAY_HOST")
    assert told["port"] == (7000, "assay.toml")
    assert told["limits.rpc_bytes"] == (70000, "assay.toml")
    assert told["limits.log_range"] == (77, "$ASSAY_LIMITS__LOG_RANGE")
    assert told["limits.memory_bytes"] == (16 << 30, "default")
    assert told["keystore"] == ("there/key.json", "default")
    assert set(told) == set(setting_names())


def test_secrets_are_masked(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PASSWORD", "hunter2")
    monkeypatch.setenv("ASSAY_RPC_URL", "https://user:word@rpc.example.org/v3/KEY-1234?token=KEY-5678")
    for flags in ((), ("--json",)):
        code, output, errors = assay("config", "show", *flags)
        assert code == 0, errors
        for secret in ("hunter2", "user", "word@", "KEY-1234", "KEY-5678"):
            assert secret not in output
        assert "https://rpc.example.org/***" in output


def test_unknown_names_get_a_suggestion(
    assay: Assay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_MAX_STAK_ETH", "1")
    with pytest.raises(
        ConfigError, match=r"\$ASSAY_MAX_STAK_ETH is not a setting; .*did you mean max_stake_eth\?"
    ):
        load_settings()
    monkeypatch.delenv("ASSAY_MAX_STAK_ETH")
    (tmp_path / "assay.toml").write_text("[limits]\nmemory_byte = 1\n")
    with pytest.raises(ConfigError, match=r"did you mean limits.memory_bytes\?"):
        load_settings()
    (tmp_path / "assay.toml").unlink()
    with pytest.raises(CaptureError, match=r"did you mean digits-mlp\?"):
        load_recipe("digit-mlp")
    assert "Did you mean 'trainer'?" in assay("trainr")[2]
    assert "Did you mean 'post'?" in assay("job", "pots")[2]
    code, _, errors = assay("lab", "trainer", "--fault", "poison-dat")
    assert (code, "did you mean poison-data?" in " ".join(errors.split())) == (2, True), errors


def test_a_name_that_is_like_none_gets_no_suggestion() -> None:
    assert did_you_mean("xyzzy", Fault) == ""
    assert did_you_mean("POISON-DATA", Fault) == "; did you mean poison-data?"
