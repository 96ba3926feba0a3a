"""Keystores: encrypted, never overwritten, readable by the owner only."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from eth_account import Account

from trainer_node.daemon.keys import create_key, hold_account, load_account, open_key, read_address
from trainer_node.errors import AlreadyRunning, KeystoreError
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


def test_a_copy_of_a_key_is_the_same_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process for each account, wherever the files lie; on a chain of its own it may run beside."""
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    one = load_settings(data_dir=tmp_path / "one", chain_id=5)
    account = create_key(one.keystore_path, "secret", work_factor=FAST)
    two = load_settings(data_dir=tmp_path / "two", chain_id=5)
    create_key(two.keystore_path, "secret", key=account.key, work_factor=FAST)
    with hold_account(one):
        second = hold_account(two)
        with pytest.raises(AlreadyRunning, match=account.address):
            second.__enter__()
        with hold_account(two.model_copy(update={"chain_id": 6})) as held:
            assert held.address == account.address
    with hold_account(two):
        pass


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
@pytest.mark.parametrize("which", ["key.json", "password"])
def test_a_key_or_password_that_others_can_read_is_refused(tmp_path: Path, which: str, mode: int) -> None:
    create_key(tmp_path / "key.json", "secret", work_factor=FAST)
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "password").chmod(0o600)
    settings = load_settings(data_dir=tmp_path, password_file=tmp_path / "password")
    assert load_account(settings).address
    (tmp_path / which).chmod(mode)
    with pytest.raises(KeystoreError, match=f"{which} has mode {mode:04o}: others can read it; chmod 600"):
        load_account(settings)


def test_a_credential_of_the_service_manager_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its group's rights are the mask of an access list; those of others are what they are."""
    create_key(tmp_path / "key.json", "secret", work_factor=FAST)
    (tmp_path / "given").mkdir()
    password = tmp_path / "given" / "password"
    password.write_text("secret")
    password.chmod(0o440)
    settings = load_settings(data_dir=tmp_path, password_file=password)
    with pytest.raises(KeystoreError, match="0440"):
        load_account(settings)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(password.parent))
    assert load_account(settings).address
    password.chmod(0o444)
    with pytest.raises(KeystoreError, match="0444"):
        load_account(settings)


def test_settings_say_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeystoreError, match="assay key new"):
        load_account(load_settings())
    create_key(tmp_path / ".assay" / "key.json", "secret", work_factor=FAST)
    with pytest.raises(KeystoreError, match="ASSAY_PASSWORD"):
        load_account(load_settings())
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    assert load_account(load_settings()).address
