"""A file of tensors is written whole, or not at all and with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.support.small_disk import small_disk
from trainer_node.errors import DiskFailed
from trainer_node.storage.tensor_file import save_tensors


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    wanted = {"weight": np.arange(1 << 16, dtype=np.float32)}
    with small_disk(tmp_path / "disk", 1 << 16) as disk:
        with pytest.raises(
            DiskFailed, match=r"state cannot be written: No space left on device.*; make room"
        ):
            save_tensors(wanted, disk / "state")
        assert not list(disk.iterdir())
    save_tensors(wanted, tmp_path / "new" / "state", {"job": "7"})
    assert load_file(tmp_path / "new" / "state")["weight"].tobytes() == wanted["weight"].tobytes()
    with pytest.raises(DiskFailed, match="Is a directory"):
        save_tensors(wanted, tmp_path)
