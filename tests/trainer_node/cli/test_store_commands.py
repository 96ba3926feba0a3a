"""`assay store`, `assay backup` and `assay restore` as a person types them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Assay
from trainer_node.storage.database import Database
from trainer_node.storage.process import exclusive
from trainer_node.storage.store import Store


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A data directory: job 1 is over and job 2 goes on; each has a tensor."""
    folder = tmp_path / "node"
    store = Store(folder / "artifacts", sync=False)
    store.held_by(1).put_tensor(np.zeros(1000, np.float32))
    for path in (folder / "artifacts" / "tensor").rglob("*"):
        os.utime(path, (time.time() - 86400,) * 2)  # NOTE: what is newer than the oldest open job stays
    store.held_by(2).put_tensor(np.ones(1000, np.float32))
    store.holders.end(1)
    database = Database(folder / "node.sqlite3")
    database.bind("here")
    database.close()
    return folder


def test_du_shows_kinds_jobs_and_what_is_free(assay: Assay, node: Path) -> None:
    code, output, _ = assay("store", "du", "--data-dir", node)
    assert code == 0
    assert "job      1" in output
    assert "it is over" in output
    assert "is open" in output
    code, output, _ = assay("store", "du", "--data-dir", node, "--json")
    told = json.loads(output)
    assert code == 0
    assert told["files"]["tensor"] == 2
    assert told["kinds"]["tensor"] >= 8000
    assert told["jobs"]["1"]["over_since"] > 0
    assert told["jobs"]["2"]["over_since"] is None
    assert told["free"] > 0


def test_gc_keeps_the_job_that_goes_on(assay: Assay, node: Path) -> None:
    code, output, _ = assay("store", "gc", "--data-dir", node, "--offline", "--now")
    assert code == 0, output
    assert "in 1 files are gone" in output
    left = json.loads(assay("store", "du", "--data-dir", node, "--json")[1])
    assert left["files"]["tensor"] == 1


def test_gc_refuses_beside_a_running_node(assay: Assay, node: Path) -> None:
    with exclusive(node / "lock", "the node"):
        code, _, errors = assay("store", "gc", "--data-dir", node, "--offline")
    assert code == 2
    assert str(node) in errors


def test_verify_names_what_is_damaged_and_removes_it_on_request(assay: Assay, node: Path) -> None:
    code, output, _ = assay("store", "verify", "--data-dir", node)
    assert (code, output.strip()) == (0, "2 artifacts, 0 damaged")
    path = next(path for path in (node / "artifacts" / "tensor").rglob("*") if path.is_file())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o600)
    path.write_bytes(data)
    code, output, _ = assay("store", "verify", "--data-dir", node)
    assert code == 1
    assert path.name in output
    assert "2 artifacts, 1 damaged" in output
    assert assay("store", "verify", "--data-dir", node, "--remove")[0] == 1
    assert not path.exists()
    assert assay("store", "verify", "--data-dir", node)[0] == 0


def test_a_folder_that_is_no_node_is_named(assay: Assay, tmp_path: Path) -> None:
    for command in ("du", "verify", "gc"):
        code, _, errors = assay("store", command, "--data-dir", tmp_path / "nowhere")
        assert code == 2
        assert "--data-dir" in errors


def test_a_backup_comes_back_in_another_place(assay: Assay, node: Path, tmp_path: Path) -> None:
    code, output, _ = assay("backup", tmp_path / "node.tar", "--data-dir", node)
    assert code == 0
    assert "1 files" in output
    assert "without the key" in output
    code, output, errors = assay("restore", tmp_path / "node.tar", "--data-dir", tmp_path / "again")
    assert code == 0, errors
    assert "put the key at" in output
    database = Database(tmp_path / "again" / "node.sqlite3")
    assert database.deployment == "here"
    database.close()
    code, _, errors = assay("restore", tmp_path / "node.tar", "--data-dir", tmp_path / "again")
    assert code == 2
    assert "new data directory" in errors
    code, _, errors = assay("backup", tmp_path / "node.tar", "--data-dir", node)
    assert code == 2
    assert "new file" in errors
