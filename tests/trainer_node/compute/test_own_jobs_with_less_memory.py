"""A node restarts with a lower limit on memory (`limits.memory_bytes`, or more `workers`, which divide it) while a
stake of its own rests on a finished run: the job is refused for good, so nothing of it is committed, revealed or
played."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainer_node.run.package import memory_needed
from trainer_node.storage.database import Database

from ..desk import PROGRAM, TERMS, job, runner, serving, until


@pytest.mark.parametrize("finished", [True, False])
def test_what_we_have_staked_on_is_not_refused_for_its_memory(
    tmp_path: Path, stored: Database, *, finished: bool
) -> None:
    needs = memory_needed(PROGRAM, TERMS)
    with serving(tmp_path / "client") as uri:
        ours = job(1, uri=uri)
        with runner(tmp_path / "node", stored, max_memory=needs) as node:
            if finished:
                assert until(lambda: node.train(ours, ours=True))
            else:
                assert until(lambda: node.prepare(ours))
        # As with `workers` = 2, with which a job counts the same (docs/decisions.md, record 187).
        with runner(tmp_path / "node", stored, max_memory=needs // 2) as node:
            until(lambda: node.train(ours, ours=True) or node.refused(1))
            assert node.refused(1) is None, "the stake is lost"
