"""What is wrong in a job is on disk with the terms by which it was found, until others confirm that nothing is."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.trainer_node.desk import job
from trainer_node.errors import Disagreement, DiskFull
from trainer_node.play.wrong_jobs import WrongJobs, lies, results
from trainer_node.run.refutation import Refuted
from trainer_node.storage.database import Database

LIE = Refuted(
    b"\1" * 32,
    b"\2" * 32,
    (b"\3" * 32, b"\4" * 32),
    against=b"\5" * 32,
    index=7,
    claimed=b"\6" * 32,
    computed=b"\7" * 32,
    siblings=(b"\10" * 32,),
)
ROOT = b"\1" * 32
AGREED: Any = SimpleNamespace(confirm=lambda **_: None)


def refused(**_: Any) -> None:
    raise Disagreement("two endpoints show another state", contradicted=True)


def test_another_process_knows_it() -> None:
    database = Database(None)
    found, of = lies(database), job(3)
    assert found.still(AGREED, of, (LIE,))
    again = lies(database)
    assert (list(again), again.by_number(3), again.of(of)) == ([3], (LIE,), (LIE,))
    assert " at 0x" not in repr(of.terms), "it says the same in each process"
    another = replace(of, challenge_period=of.challenge_period + 1)
    assert again.differs(another)
    assert again.of(another) is None
    assert list(results(database)) == []


def test_it_is_known_until_others_confirm_that_it_is_not() -> None:
    database, of = Database(None), job(3)
    found, liar = results(database), SimpleNamespace(confirm=refused)
    assert not found.still(AGREED, of, None)
    assert found.still(AGREED, of, ROOT)
    assert found.still(liar, of, None)  # type: ignore[arg-type]
    assert results(database).of(of) == ROOT
    assert not lies(database).still(AGREED, of, None)
    again = results(database)
    assert not again.still(AGREED, of, None)
    assert list(results(database)) == []


def test_what_the_disk_refuses_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise DiskFull("no space left")

    database, of = Database(None), job(3)
    found = results(database)
    with monkeypatch.context() as disk:
        disk.setattr(database, "session", full)
        assert found.still(AGREED, of, ROOT)
        assert found.of(of) == ROOT
    assert list(results(database)) == []
    assert found.still(AGREED, of, ROOT)
    assert results(database).of(of) == ROOT
    with monkeypatch.context() as disk:
        disk.setattr(database, "session", full)
        found.forget(3)
    assert results(database).of(of) == ROOT
    found.still(AGREED, job(4), ROOT)
    assert list(results(database)) == [4]


def many(count: int) -> tuple[Refuted, ...]:
    return tuple(replace(LIE, index=n) for n in range(count))


def test_one_lie_more_costs_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack: 400 lies in one job, each found in another look, wrote 215 MB."""
    database, of, wrote = Database(None), job(3), list[str]()
    write = WrongJobs._write_rows

    def counted(self: Any, rows: dict[str, Any], gone: list[str]) -> None:
        wrote.extend(rows)
        write(self, rows, gone)

    found = lies(database)
    monkeypatch.setattr(WrongJobs, "_write_rows", counted)
    for count in range(1, 41):
        found.still(AGREED, of, many(count))
    assert len([name for name in wrote if "," in name]) == 40
    again = lies(database)
    assert again.of(of) == many(40)
    wrote.clear()
    again.still(AGREED, of, many(40))
    assert wrote == [], "it knows what an earlier process has written"
    again.still(AGREED, of, many(2))
    assert lies(database).of(of) == many(2)
    again.forget(3)
    assert [name for name in (f"lies in job 3, {n}" for n in range(40)) if database.get(name)] == []


@pytest.mark.parametrize("row", [None, "text", 5, {"a": 1}, ["x"], ["d", "x"], ["d", [{"no": 1}]], ["d", 2]])
def test_a_row_of_another_shape_ends_no_start(row: Any) -> None:
    database = Database(None)
    lies(database).still(AGREED, job(3), (LIE,))
    lies(database).still(AGREED, job(4), (LIE,))
    database.put("jobs with lies", [3, 4])
    database.put("lies in job 3", row)
    assert list(lies(database)) == [4]


@pytest.mark.parametrize("index", [None, 5, "text", ["x"], [None]])
def test_an_index_of_another_shape_ends_no_start(index: Any) -> None:
    database = Database(None)
    database.put("jobs with lies", index)
    assert list(lies(database)) == []
