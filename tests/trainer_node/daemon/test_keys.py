"""Keystores: encrypted, never overwritten, readable by the owner only."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from eth_account import Account

from trainer_node.daemon.keys import create_key, load_account, open_key, read_address
from trainer_node.errors import KeystoreError
from trainer_node.settings.settings import load_settings

FAST = 1 << 4


def test_create_and_open(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "key.json"
    account = create_key(path, "secret", work_factor=FAST)
    assert open_key(path, "secret").key == account.key
    assert read_address(path) == account.address
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert account.key.hex() not in path.read_text()


def test_import_of_a_key(tmp_path: Path) -> None:
    account = Account.create()
    create_key(tmp_path / "key", "secret", key=account.key.hex(), work_factor=FAST)
    assert open_key(tmp_path / "key", "secret").address == account.address
    with pytest.raises(KeystoreError, match="32 bytes"):
        create_key(tmp_path / "other", "secret", key="0x12", work_factor=FAST)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    account = create_key(tmp_path / "key", "secret", work_factor=FAST)
    with pytest.raises(KeystoreError, match="exists and holds an account; give another"):
        create_key(tmp_path / "key", "secret", work_factor=FAST)
    assert read_address(tmp_path / "key") == account.address


def test_wrong_password(tmp_path: Path) -> None:
    create_key(tmp_path / "key", "secret", work_factor=FAST)
    with pytest.raises(KeystoreError, match="password"):
        open_key(tmp_path / "key", "guess")
    with pytest.raises(KeystoreError, match="empty"):
        create_key(tmp_path / "other", "", work_factor=FAST)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"crypto": 5}', '{"version": 3, "crypto": {}}', "\x00"])
def test_what_is_no_keystore(tmp_path: Path, content: str) -> None:
    path = tmp_path / "key"
    path.write_text(content)
    with pytest.raises(KeystoreError):
        open_key(path, "secret")
    with pytest.raises(KeystoreError):
        read_address(path)


@pytest.mark.parametrize("version", [4, 5, "3", None])
def test_a_keystore_of_another_version(tmp_path: Path, version: object) -> None:
    """Version 4 keeps its work factor elsewhere, where it would not be bounded."""
    path = tmp_path / "key"
    create_key(path, "secret", work_factor=FAST)
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
    with pytest.raises(KeystoreError, match="no keystore of version 3, but of"):
        open_key(path, "secret")


@pytest.mark.parametrize("work", [1 << 40, 0, -1, "many", None])
def test_keystore_that_asks_for_too_much_work(tmp_path: Path, work: object) -> None:
    path = tmp_path / "key"
    create_key(path, "secret", work_factor=FAST)
    content = json.loads(path.read_text())
    content["crypto"]["kdfparams"]["n"] = work
    path.write_text(json.dumps(content))
    with pytest.raises(KeystoreError, match="work"):
        open_key(path, "secret")


def test_settings_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeystoreError, match="assay key new"):
        load_account(load_settings())
    create_key(tmp_path / ".assay" / "key.json", "secret", work_factor=FAST)
    with pytest.raises(KeystoreError, match="ASSAY_PASSWORD"):
        load_account(load_settings())
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    assert load_account(load_settings()).address
