"""The folder of artifacts is away for a moment (a volume that is mounted again, an operator who moves it): a round of
the loop must say so, and play on. `Service.round` calls the keeper outside of what it catches, and "never raises"."""

from __future__ import annotations

from pathlib import Path

from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import keeper_of


def test_a_round_outlasts_a_store_that_is_away(tmp_path: Path) -> None:
    store = Store(tmp_path / "artifacts", sync=False)
    keeper, problems = keeper_of(tmp_path, store, Database(None))
    store.root.rename(tmp_path / "elsewhere")
    keeper.round()
    assert "disk" in problems
