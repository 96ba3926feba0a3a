"""A command in the wrong folder, where no assay.toml is: what is said, and that nothing is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.conftest import Assay, free_port
from trainer_node.daemon.access import open_client
from trainer_node.errors import ConfigError
from trainer_node.operate import doctor
from trainer_node.settings.settings import Settings, load_settings

MISSING = "there is no key at trainer/key.json, whose folder does not exist"
MAKE = "`assay key new --keystore trainer/key.json`"

WAY_OUT = "change to the folder that `assay quickstart FOLDER` made, name its file with --config FILE"


def lost(folder: Path) -> str:
    return f", and no assay.toml was found in {folder}; {WAY_OUT}"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> str:
    """The default endpoint, with a port at which nothing listens."""
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(Settings.model_fields["rpc_url"], "default", (f"http://{address}",))
    return address


@pytest.mark.parametrize(
    "command",
    [
        ("trainer", "run", "--data-dir", "trainer", "--port", 7101),
        ("challenger", "run", "--mode", "challenge", "--data-dir", "trainer"),
        ("verifier", "run", "--data-dir", "trainer"),
        ("key", "show", "--data-dir", "trainer"),
    ],
)
def test_without_a_key_the_missing_settings_are_named_and_nothing_is_written(
    assay: Assay, tmp_path: Path, command: tuple[object, ...]
) -> None:
    code, _, errors = assay(*command)
    assert code == 2
    assert f"error: {MISSING}{lost(tmp_path)}, or make a key with {MAKE}" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", ["keystore", "config", "file"])
def test_a_key_that_settings_name_is_missing_and_not_the_settings(
    assay: Assay, tmp_path: Path, named: str, address: str
) -> None:
    """With its place stated, or with a file of settings, nothing but the key is missing."""
    file = tmp_path / ("assay.toml" if named == "file" else "other.toml")
    file.write_text('data_dir = "trainer"\n')
    given = {"keystore": ("--keystore", "trainer/key.json"), "config": ("--config", file), "file": ()}[named]
    code, _, errors = assay("trainer", "run", *given)
    assert code == 2
    assert f"error: {MISSING}; make one with {MAKE} or set keystore" in errors
    assert list(tmp_path.iterdir()) == [file]
    if named != "keystore":
        code, _, errors = assay("job", "list", *given)
        assert (code, "assay.toml was found" in errors) == (2, False)
        assert f"nothing listens at {address}; start the chain (one of this machine: " in errors


def test_a_folder_that_is_misspelt_is_named_with_those_beside_it(
    assay: Assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The remedy made another key in the default folder, and the same error came again."""
    (tmp_path / "assay.toml").write_text("chain_id = 31337\n")
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    assert assay("key", "new", "--light", "--data-dir", "trainer")[0] == 0
    code, _, errors = assay("trainer", "run", "--data-dir", "trianer")
    assert code == 2
    assert (
        "no key at trianer/key.json, whose folder does not exist (trainer beside it: each has a key)"
        in errors
    )
    make = shlex.split(errors.split("`")[1])
    assert make == ["assay", "key", "new", "--keystore", "trianer/key.json"]
    assert assay(*make[1:], "--light")[0] == 0
    assert assay("key", "show", "--data-dir", "trianer")[0] == 0


def test_at_the_default_endpoint_the_missing_settings_are_named(
    assay: Assay, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_kernels", list)  # it computes for seconds
    for command in (("job", "list"), ("deploy", "--data-dir", "client")):
        code, _, errors = assay(*command)
        assert code == 2
        assert f"nothing listens at {address}{lost(tmp_path)}, start the chain (" in errors
        assert errors.count("name its endpoint in rpc_url") == 1
    code, output, _ = assay("doctor", "--data-dir", "trainer")
    assert code == 1
    assert f"{MISSING}, and no assay.toml was found in {tmp_path}\n" in output
    assert f"nothing listens at {address}{lost(tmp_path)}, start the chain (" in output
    assert list(tmp_path.iterdir()) == []


def test_a_deployment_file_that_is_missing_may_be_in_another_folder(
    module_anvil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as told:
        open_client(load_settings(rpc_url=module_anvil.url))
    assert f"deployments/31337.json is missing{lost(tmp_path)}, or set deployment" in str(told.value)
    with pytest.raises(ConfigError, match=r"none\.json is missing; it is what"):
        open_client(load_settings(rpc_url=module_anvil.url, deployment=Path("none.json")))
