"""The judge of jobs: the first reason decides, nothing after it is asked, and a job is logged once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError

import pytest
import structlog

from trainer_node.reason import Reason
from trainer_node.stake.judge import NOT_KNOWN, JobJudge, first
from trainer_node.stake.policy import TooDear, too_dear


class Table:
    """A role's reasons, of which the second holds, and what was asked for."""

    def __init__(self, second: Reason | None) -> None:
        self.second = second
        self.asked: list[str] = []

    def reasons(self) -> Iterator[Reason | None]:
        self.asked.append("cheap")
        yield None
        self.asked.append("second")
        yield self.second
        self.asked.append("costly")
        yield None


def test_nothing_is_asked_after_the_first_reason() -> None:
    """A table ends with what has the disk and memory make room: for a job that is declined, none is made."""
    table = Table(TooDear(5, 3, "max_stake_eth"))
    assert first(table.reasons()) == TooDear(5, 3, "max_stake_eth")
    assert table.asked == ["cheap", "second"]


def test_without_a_reason_the_job_is_taken() -> None:
    table = Table(None)
    assert JobJudge().takes(7, table.reasons())
    assert table.asked == ["cheap", "second", "costly"]


def test_why_a_job_is_declined_is_logged_once_with_its_kind() -> None:
    judge = JobJudge()
    with structlog.testing.capture_logs() as logs:
        assert not judge.takes(7, [too_dear(5, 3)])
        assert not judge.takes(7, [too_dear(6, 3)])
        assert not judge.takes(8, [too_dear(5, 3)])
    assert [(line["event"], line["job"], line["kind"]) for line in logs] == [
        ("job.left_to_others", 7, "TooDear"),
        ("job.left_to_others", 8, "TooDear"),
    ]
    assert logs[0]["reason"] == "its stake is 5 wei, max_stake_eth allows 3"


def test_what_is_not_known_yet_is_neither_taken_nor_logged() -> None:
    table = Table(NOT_KNOWN)
    judge = JobJudge()
    with structlog.testing.capture_logs() as logs:
        assert not judge.takes(7, table.reasons())
    assert (table.asked, logs) == (["cheap", "second"], [])
    with structlog.testing.capture_logs() as logs:
        assert not judge.takes(7, [too_dear(5, 3)])
    assert len(logs) == 1, "once it is known"


def test_a_reason_is_a_value() -> None:
    reason = too_dear(5, 3, "max_watch_eth")
    assert reason == TooDear(5, 3, "max_watch_eth") != TooDear(5, 4, "max_watch_eth")
    with pytest.raises(FrozenInstanceError):
        reason.stake = 3  # type: ignore[misc]
