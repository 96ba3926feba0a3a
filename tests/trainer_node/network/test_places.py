"""Attack: packages of many jobs whose small tensors come right and slowly take all files that a process may open."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from pathlib import Path

import pytest

from referee_py.errors import Unavailable
from trainer_node.network import places
from trainer_node.network.download import Downloads
from trainer_node.network.fetcher import PARALLEL, Fetcher
from trainer_node.network.places import Places
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.store import Store

MOST = 128


@pytest.mark.parametrize(("jobs", "each"), [(1, MOST // 2), (2, MOST // 3), (28, 4), (100, 1)])
def test_however_many_jobs_are_served_slowly_the_next_one_has_a_place(jobs: int, each: int) -> None:
    of = Places(MOST)
    got = Counter(job for _ in range(MOST) for job in range(jobs) if of._take(job))
    assert got.total() < MOST
    assert min(got[job] for job in range(jobs)) >= each
    assert of._take(-1)


def test_who_waits_has_a_place_once_one_is_given_back() -> None:
    of = Places(2)

    async def waits() -> None:
        async with of.one(1):
            second = asyncio.ensure_future(of.one(1).__aenter__())
            await asyncio.sleep(0.1)
            assert not second.done()
        async with asyncio.timeout(60):
            await second

    asyncio.run(waits())


def test_all_fetchers_of_a_process_share_its_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "OF_PROCESS", Places(16))
    now, most = 0, 0

    async def slow(*_: object) -> None:
        nonlocal now, most
        now, most = now + 1, max(most, now + 1)
        await asyncio.sleep(0.01)
        now -= 1

    monkeypatch.setattr(Downloads, "_counted", slow)
    names = [Name(Kind.BLOB, bytes([number]) * 32) for number in range(100)]
    Fetcher(Store(tmp_path)).for_job(1).fetch_all(names, ["http://127.0.0.1:9"])
    assert most == 8


def test_a_package_of_many_names_costs_no_task_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two million names took four gigabytes before one of them had come."""
    tasks, asked = [], []

    async def fails(_self: object, _downloads: object, name: Name, *_: object) -> None:
        tasks.append(len(asyncio.all_tasks()))
        asked.append(name)
        raise Unavailable(f"number {len(asked)}, {name}")

    monkeypatch.setattr(Fetcher, "_fetch", fails)
    names = [Name(Kind.BLOB, number.to_bytes(32, "big")) for number in range(3000)]
    with pytest.raises(Unavailable, match="number 1,"):
        Fetcher(Store(tmp_path)).fetch_all(names, ["http://127.0.0.1:9"])
    assert asked == names, "one that fails keeps no other from being asked for"
    assert max(tasks) <= PARALLEL + 2


def test_a_place_is_given_back_whatever_happens(tmp_path: Path) -> None:
    of = Places(2)

    async def fails() -> None:
        for _ in range(5):
            with contextlib.suppress(ValueError):
                async with asyncio.timeout(60), of.one(1):
                    raise ValueError

    asyncio.run(fails())
    assert not of._held
