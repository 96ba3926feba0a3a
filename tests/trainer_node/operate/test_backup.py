"""A backup holds no key unless asked; a node restored from it signs nothing twice and loses no intent."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from web3.types import RPCEndpoint

from tests.conftest import Anvil
from trainer_node.chain import Call, TransactionManager, connect
from trainer_node.daemon.single_use import MARK, alone
from trainer_node.errors import AlreadyRunning, ConfigError
from trainer_node.operate.backup import back_up, restore
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store


def node(folder: Path) -> Database:
    database = Database(folder / "node.sqlite3")
    database.bind("here")
    database.put("fact", 5)
    return database


def test_a_backup_of_a_running_node_holds_what_it_has_and_no_key(tmp_path: Path) -> None:
    database = node(tmp_path / "node")
    (tmp_path / "node" / "key.json").write_text("{}")
    Store(tmp_path / "node" / "artifacts").put_blob(b"data")
    made = back_up(tmp_path / "node", tmp_path / "a.tar")
    assert set(made.files) == {"node.sqlite3"}
    assert made.deployment == "here"
    assert (tmp_path / "a.tar").stat().st_mode & 0o777 == 0o600
    whole = back_up(tmp_path / "node", tmp_path / "b.tar", key=tmp_path / "node" / "key.json", artifacts=True)
    assert len(whole.files) == 3
    restore(tmp_path / "b.tar", tmp_path / "new")
    again = Database(tmp_path / "new" / "node.sqlite3")
    assert (again.get("fact"), again.deployment) == (5, "here")
    assert (tmp_path / "new" / "key.json").read_text() == "{}"
    assert len(list((tmp_path / "new" / "artifacts" / "blob").rglob("*"))) == 2
    assert (tmp_path / "new" / MARK).exists()
    with pytest.raises(ConfigError, match="new data directory"):
        restore(tmp_path / "b.tar", tmp_path / "new")
    with pytest.raises(ConfigError, match="name a new file"):
        back_up(tmp_path / "node", tmp_path / "a.tar")
    with pytest.raises(ConfigError, match=r"no node\.sqlite3"):
        back_up(tmp_path / "empty", tmp_path / "c.tar")
    for each in (database, again):
        each.close()


@pytest.mark.parametrize("journal", ["node.sqlite3-wal", "outbox.sqlite3-shm", "node.sqlite3-journal"])
def test_journals_of_removed_databases_are_named_and_nothing_is_restored(
    tmp_path: Path, journal: str
) -> None:
    """SQLite would play them over the restored databases."""
    node(tmp_path / "node").close()
    back_up(tmp_path / "node", tmp_path / "a.tar")
    new = tmp_path / "new"
    new.mkdir()
    (new / journal).write_bytes(b"of a database that was removed")
    with pytest.raises(ConfigError, match=f"{journal} exists"):
        restore(tmp_path / "a.tar", new)
    assert [path.name for path in new.iterdir()] == [journal]


def rewritten(source: Path, to: Path, change: Callable[[tarfile.TarInfo, bytes], tuple[Any, bytes]]) -> Path:
    with tarfile.open(source) as old, tarfile.open(to, "w") as new:
        for member in old:
            stream = old.extractfile(member)
            info, data = change(member, stream.read() if stream else b"")
            info.size = len(data) if info.isreg() else 0
            new.addfile(info, io.BytesIO(data))
    return to


def _elsewhere(info: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if info.name == "node.sqlite3":
        info.name = "../outside"
    return info, data


def _linked(info: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    if info.name == "node.sqlite3":
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return info, data


def _damaged(info: tarfile.TarInfo, data: bytes) -> tuple[tarfile.TarInfo, bytes]:
    return info, data[:-1] + b"!" if info.name == "node.sqlite3" else data


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.02, 0.1, 0.5, 0.9])
def test_a_backup_that_was_cut_off_is_named_as_that(tmp_path: Path, kept: float) -> None:
    node(tmp_path / "node").close()
    back_up(tmp_path / "node", tmp_path / "a.tar")
    whole = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(ConfigError, match=r"cut off|cannot be read as a backup|lacks"):
        restore(tmp_path / "a.tar", tmp_path / "new")
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [(_elsewhere, "does not belong"), (_linked, "does not belong"), (_damaged, "another hash")],
)
def test_a_bad_backup_makes_no_data_directory(tmp_path: Path, change: Any, words: str) -> None:
    node(tmp_path / "node").close()
    back_up(tmp_path / "node", tmp_path / "a.tar")
    bad = rewritten(tmp_path / "a.tar", tmp_path / "bad.tar", change)
    with pytest.raises(ConfigError, match=words):
        restore(bad, tmp_path / "new")
    assert not (tmp_path / "outside").exists()
    assert not list((tmp_path / "new").iterdir())
    (tmp_path / "noise").write_bytes(b"noise" * 1000)
    with pytest.raises(ConfigError, match="cannot be read"):
        restore(tmp_path / "noise", tmp_path / "new")


def manager(anvil: Anvil, database: Database) -> TransactionManager:
    web3, account = connect(anvil.url, 31337), Account.from_key(anvil.keys[0])
    return TransactionManager(web3, account, database, chain_id=31337, poll_s=0.02)


def test_a_restored_outbox_sends_nothing_twice_and_loses_nothing(
    tmp_path: Path, start_anvil: Callable[..., Anvil]
) -> None:
    """The backup is taken with one transaction on its way; another follows, and is not in it."""
    anvil = start_anvil("--no-mining")
    web3 = connect(anvil.url, 31337)
    to = [Account.create().address for _ in range(3)]
    database = node(tmp_path / "node")
    first = manager(anvil, database)
    first.submit(Call("first", to[0], b"", 5))
    back_up(tmp_path / "node", tmp_path / "a.tar")
    first.submit(Call("second", to[1], b"", 6))
    database.close()  # the machine is lost

    restore(tmp_path / "a.tar", tmp_path / "new")
    again = Database(tmp_path / "new" / "node.sqlite3")
    restored = manager(anvil, again)
    assert len(restored.recover()) == 1, "the intent in the backup is known"
    third = restored.submit(Call("third", to[2], b"", 7))
    web3.provider.make_request(RPCEndpoint("evm_mine"), [])
    assert restored.wait(third).action == "third"
    restored.confirm()
    assert [web3.eth.get_balance(address) for address in to] == [5, 6, 7]
    assert web3.eth.get_transaction_count(restored.address) == 3  # type: ignore[arg-type]
    again.close()


def test_a_restored_node_does_not_start_while_its_key_is_in_use(tmp_path: Path) -> None:
    node(tmp_path / "node").close()
    back_up(tmp_path / "node", tmp_path / "a.tar")
    restore(tmp_path / "a.tar", tmp_path / "new")
    nonces = iter([4, 4, 6])
    with pytest.raises(AlreadyRunning, match="2 transactions"):
        alone(tmp_path / "new", lambda: next(nonces), 0.0, lambda _: False)
    assert (tmp_path / "new" / MARK).exists(), "the next start watches again"
    alone(tmp_path / "new", lambda: 6, 0.0, lambda _: False)
    assert not (tmp_path / "new" / MARK).exists()
    alone(tmp_path / "new", lambda: pytest.fail("it has been watched"), 0.0, lambda _: False)
