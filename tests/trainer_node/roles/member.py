"""The node of a challenger as its decisions see it: no chain, no account, and what it may spend in the test's hand."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.trainer_node.desk import REFEREE
from trainer_node.daemon.remembered import Remembered
from trainer_node.settings.extent import Mode
from trainer_node.settings.settings import load_settings
from trainer_node.storage.database import Database

ME = "0x" + "aa" * 20
RICH = 10**30
YEARS = 100 * 365 * 24 * 3600
"""A period for which no node lets a stake be held."""


class _Idle:
    """Stands for what keeps room on a disk that has room for all."""

    def considers(self, *_: Any, **__: Any) -> None: ...

    def stake(self, *_: Any) -> None: ...

    def finds(self, *_: Any) -> None: ...

    def runs(self, *_: Any) -> None: ...


def member(
    folder: Path,
    *,
    keeper: Any = None,
    mode: Mode = Mode.CHALLENGE,
    database: Database | None = None,
    pays: bool = False,
    **settings: Any,
) -> Any:
    """Return the node. ``wei`` is what its account can spare; ``pays``: it makes moves for others."""
    node: Any = SimpleNamespace(
        settings=load_settings(chain_id=31337, data_dir=folder / "settings", mode=mode, **settings),
        address=None if mode is Mode.WATCH else ME,
        transactions=None,
        keeper=keeper or _Idle(),
        remembered=Remembered(),
        database=database or Database(None),
        client=SimpleNamespace(
            deployment=SimpleNamespace(referee=REFEREE, chain_id=1),
            commit_age=lambda: 1,
            contracts=None,
        ),
        gas=SimpleNamespace(pays=pays),
        gauges=SimpleNamespace(job=lambda *_: None),
        reserve=SimpleNamespace(jobs=set, seen=lambda *_: None, kept=lambda _: 0),
        duties=SimpleNamespace(
            refuses=lambda *_: None,
            moves_s=lambda _: 0.0,
            sends_s=lambda _: 0.0,
            free=lambda _: None,
            looked=lambda _: None,
        ),
        wei=RICH,
    )
    node.spare = lambda _job=0: node.wei
    return node
