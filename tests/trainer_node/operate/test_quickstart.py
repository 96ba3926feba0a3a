"""`assay quickstart`: the folder that it makes, and the commands that it prints, pasted into a shell."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from referee_py.errors import InvalidInput
from tests.support.small_disk import Filler, small_disk
from trainer_node.daemon.keys import create_key, open_key
from trainer_node.errors import KeystoreError
from trainer_node.operate.quickstart import quickstart

BIN = Path(sys.executable).parent


def test_the_folder_has_settings_a_password_and_keys(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    started = quickstart(folder, "http://127.0.0.1:8545", 31337, answers=True)
    password = folder / "password"
    assert stat.S_IMODE(password.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    told = tomllib.loads((folder / "assay.toml").read_text())
    assert told == {"rpc_url": "http://127.0.0.1:8545", "chain_id": 31337, "password_file": "password"}
    for party, address in started.addresses.items():
        path = folder / party / "key.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert open_key(path, password.read_text().strip()).address == address
    assert not any(command.startswith("anvil") for command in started.commands)
    assert started.commands[0] == f"cd '{folder}'"


def test_on_a_chain_with_value_there_is_one_strong_key(tmp_path: Path) -> None:
    started = quickstart(tmp_path / "node", "https://rpc.example.org", 11155111, answers=True)
    content = json.loads((tmp_path / "node" / "data" / "key.json").read_text())
    assert content["crypto"]["kdfparams"]["n"] == 1 << 18
    assert list(started.addresses) == ["trainer"]
    assert started.commands[-1] == "assay trainer run"
    assert tomllib.loads((tmp_path / "node" / "assay.toml").read_text())["chain_id"] == 11155111


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(InvalidInput, match="not empty"):
        quickstart(tmp_path, "http://127.0.0.1:8545", 31337, answers=True)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_on_a_full_disk_nothing_is_left_that_would_be_in_the_way(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 16) as disk:
        filler = Filler(disk)
        filler.fill()
        with pytest.raises(OSError, match="No space left on device"):
            quickstart(disk / "node", "http://127.0.0.1:8545", 31337, answers=True)
        with pytest.raises(KeystoreError, match="No space left on device; make room"):
            create_key(disk / "key.json", "secret", work_factor=2)
        assert [path.name for path in disk.iterdir()] == [filler.path.name]
        filler.free()
        assert quickstart(disk / "node", "http://127.0.0.1:8545", 31337, answers=True).addresses


@pytest.mark.slow
def test_the_commands_play_a_job_when_they_are_pasted(start_anvil, tmp_path: Path) -> None:
    anvil = start_anvil("--block-time", "1")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    environment |= {"PATH": f"{BIN}:{os.environ['PATH']}", "COLUMNS": "200"}
    folder = tmp_path / "network"
    made = subprocess.run(
        [BIN / "assay", "quickstart", str(folder), "--rpc-url", anvil.url],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    # NOTE: a group of its own, so that the daemons end with the shell, and nobody else's.
    shell = subprocess.Popen(
        ["bash", "-e"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write(made.stdout + "echo PASTED\n")
        shell.stdin.flush()
        told = []
        for line in shell.stdout:
            told.append(line)
            if line == "PASTED\n":
                break
        assert told[-1:] == ["PASTED\n"], "".join(told)
        output = "".join(told)
        assert "60 operators give the bits" in output
        assert "no alert" in output
        _until_revealed(folder, environment)
        assert "claim.valid" in (folder / "challenger.log").read_text()
    finally:
        os.killpg(shell.pid, signal.SIGTERM)
        shell.wait(60)


def _until_revealed(folder: Path, environment: dict[str, str]) -> None:
    deadline = time.monotonic() + 400
    while time.monotonic() < deadline:
        told = subprocess.run(
            [BIN / "assay", "monitor", "--once", "--json", "--near", "0"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
        )
        lines = json.loads(told.stdout)["open"]
        log = folder / "challenger.log"
        if lines and lines[0]["knowledge"] == "alone" and "claim." in log.read_text():
            return
        time.sleep(2)
    raise AssertionError(f"no claim was checked: {(folder / 'trainer.log').read_text()[-2000:]}")
