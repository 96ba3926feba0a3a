"""A disk that is full, or a crash, in the midst of a line about what a job holds."""

from __future__ import annotations

from pathlib import Path

from trainer_node.storage.job_holds import Holders


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """What is held next is held on the disk, too: by that, and not by what a process knows, artifacts are deleted."""
    holders = Holders(tmp_path)
    holders.hold(2, ["tensor/aa/a"])
    with (holders.folder / "2").open("a") as file:
        file.write("w tensor/bb")  # the disk takes no more
    again = Holders(tmp_path)
    again.hold(2, ["tensor/bb/b", "tree/cc/c"])
    assert again.holds(2, "tensor/bb/b")
    assert {("w", "tensor/aa/a"), ("w", "tensor/bb/b"), ("w", "tree/cc/c")} <= set(again.held(2))
