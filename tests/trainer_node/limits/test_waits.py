"""The table of waits on strangers: docs/security.md shows it, each row has a test, and the shares leave enough."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from trainer_node.chain import JobPhase
from trainer_node.limits.waits import (
    AGAIN,
    INTERVAL,
    LANE,
    LANES,
    LOGS,
    PACKAGE,
    RETRY,
    STAKED,
    TREES,
    TURN_S,
    WAITS,
    Wait,
    again_s,
    behind_s,
    later_turn_s,
    logs_s,
    package_s,
    retry_s,
    table,
)

from ..desk import job

ROOT = Path(__file__).resolve().parents[3]
SHORT = {"N/": "trainer_node/", "C/": "contracts/", "R/": "referee_py/"}


def test_the_document_shows_the_table() -> None:
    """If this fails, put the lines of `table()` between the marks."""
    shown = re.search(
        r"<!-- waits -->\n(.*?)\n<!-- /waits -->", (ROOT / "docs/security.md").read_text(), re.DOTALL
    )
    assert shown is not None
    assert shown[1].splitlines() == list(table())


@pytest.mark.parametrize("wait", WAITS, ids=lambda wait: wait.name)
def test_each_wait_has_a_test_that_drives_it_to_its_limit(wait: Wait) -> None:
    path, _, name = wait.test.partition("::")
    file = ROOT / "tests" / (SHORT.get(path[:2], path[:2]) + path[2:])
    assert name
    assert re.search(rf"(?:def|function) {name}\(", file.read_text()), wait.test


def test_each_wait_has_an_end() -> None:
    for wait in WAITS:
        assert wait.share > 0
        assert wait.then
        assert wait.at_most
    assert Wait("", "", Fraction(2), "a setting", "", "").at_most == "2 × a setting"
    assert Wait("", "", 5.0, "", "", "").at_most == "5 s"
    assert Wait("", "", Fraction(1), "its clock", "", "").at_most == "its clock"


def test_what_is_waited_for_one_after_the_other_leaves_half_of_the_period() -> None:
    """A follower waits for the package, then for the logs; a request on the chain needs what is left."""
    assert Fraction(1, 2) >= PACKAGE + LOGS
    assert RETRY < LOGS / 4, "a delay uses up no budget"
    assert AGAIN * (1 + 2 + 4) < 1, "all measurements come in the period"
    assert Fraction(1, 2) > LANE + INTERVAL, "a lane, and the data of an interval"
    assert Fraction(1, 2) > STAKED
    assert Fraction(1, 2) > TREES, "half of a clock is never waited away (patience)"


def test_the_seconds_follow_from_the_period_that_a_wait_serves() -> None:
    training = job(train_period=8000, challenge_period=3200)
    claimed = job(train_period=8000, challenge_period=3200, phase=JobPhase.CHALLENGE)
    closing = job(train_period=8000, challenge_period=3200, phase=JobPhase.CLOSING)
    assert [package_s(of) for of in (training, claimed, closing)] == [2000, 800, 800]
    assert [logs_s(of) for of in (training, claimed)] == [800, 800]
    assert [retry_s(of) for of in (training, claimed)] == [250, 100]
    assert [again_s(claimed, times) for times in range(3)] == [400, 800, 1600]


def test_how_long_decoys_keep_a_package_waiting() -> None:
    """The figures of docs/security.md, and that of a package that needs a later turn."""
    assert [behind_s(decoys) for decoys in (0, 16, 64)] == [TURN_S, 90, 270]
    assert behind_s(16, takes_s=later_turn_s(1) + 1) == (16 / LANES + 1) * (30 + 60 + 120)
    text = " ".join((ROOT / "docs/security.md").read_text().split())
    assert "Behind 16 decoys whose packages stall in every turn" in text
    assert "is there after 90 s at the latest; behind 64 of them after 270 s." in text
