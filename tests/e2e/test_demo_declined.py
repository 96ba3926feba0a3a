"""`assay demo` where a party leaves the job to others, and where its pages are asked for as soon as it names them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from assay_lab.demo.declined import ABOUT_ROOM, ABOUT_TIME, Declined, TooFew, declined, needed
from assay_lab.demo.play import MOST_BUSY, Periods, busy, play
from assay_lab.demo.roles import Role, roles
from assay_lab.faults import Fault, Lie
from assay_lab.names import Scenario
from trainer_node.local.bundle import Bundle
from trainer_node.reason import Reason
from trainer_node.run.cost_estimate import CostEstimate
from trainer_node.run.trial_cost import NO_TRIAL
from trainer_node.stake.judge import LEFT

LIE = Lie(Fault.WRONG_OP_OUTPUT, 3)


@pytest.mark.parametrize(
    ("periods", "words"),
    [
        (
            {"challenge": 40 * 24 * 3600},
            "the (honest|liar) leaves the job to others: its challenge period has 3456000 s",
        ),
        (
            {"train": 5},
            "(only . of 2 trainers took a slot|the (honest|liar) leaves the job to others).* with --steps$",
        ),
    ],
)
def test_a_demonstration_whose_parties_decline_ends_at_once_with_the_reason(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, periods: dict[str, int], words: str
) -> None:
    """Real parties, and periods that they do not accept, or in which they cannot begin. The limit is an hour."""
    of = Periods.of

    def other(*given: Any) -> Periods:
        return replace(of(*given), limit=3600.0, **periods)

    monkeypatch.setattr(Periods, "of", other)
    with pytest.raises((Declined, TooFew), match=words):
        play(Scenario.TRAINERS, LIE, bundle, tmp_path)


def test_parties_have_more_time_where_the_machine_is_busy(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party that takes ten times as long to begin is not late because it shares its processor with nine others."""
    cores = os.cpu_count() or 1
    for load, wanted in ((0.0, 1.0), (0.5 * cores, 1.0), (10.0 * cores, 10.0), (1e6, MOST_BUSY)):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert busy() == wanted
    parts = roles(Scenario.TRAINERS, LIE, bundle.terms.steps)
    estimate = CostEstimate(0.0, 0.0, NO_TRIAL)
    idle, full = (Periods.of(estimate, bundle.terms, parts, load) for load in (1.0, 10.0))
    names = ("train", "reveal", "challenge", "clock", "verdict")
    for name in names:
        assert getattr(full, name) >= 5 * getattr(idle, name), name
    assert full.limit > sum(getattr(full, name) for name in names)


def test_kinds_of_reasons_are_those_of_the_daemons() -> None:
    def kinds(of: type[Reason]) -> set[str]:
        return {of.__name__}.union(*(kinds(below) for below in of.__subclasses__()))

    assert kinds(Reason) >= ABOUT_TIME | ABOUT_ROOM


def test_only_a_reason_against_the_job_ends_it() -> None:
    part = Role("honest", "trainer")
    begun: list[dict[str, Any]] = [
        {"event": "daemon.started"},
        {"event": "train.progress", "step": 1, "of": 2},
    ]
    logs = [{"event": LEFT, "kind": "LogsWithheld", "reason": "nobody serves them"}]
    assert declined(part, begun + logs, "log") is None
    full = [{"event": LEFT, "kind": "NoRoom", "reason": "5 bytes are free, 7 are needed."}]
    assert str(declined(part, begun + full, "log")) == (
        "the honest leaves the job to others: 5 bytes are free, 7 are needed; make room on this disk or in memory, or "
        "name a --folder on another disk"
    )
    slow = [{"event": LEFT, "kind": "TooLate", "reason": "the result may take 9 s; 5 s are left"}]
    assert str(declined(part, slow, "log")).endswith(
        "5 s are left; this machine is busier, or slower, than it was when the demonstration chose its periods: end "
        "what else computes here and try again, or give each party less to do with --steps"
    )
    other = [{"event": LEFT, "kind": "TooDear", "reason": "its stake is 2 wei, max_stake_eth allows 1"}]
    assert str(declined(part, other, "logs/honest.log")).endswith("allows 1; see logs/honest.log")


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        (Scenario.TRAINERS, {"honest", "liar"}),
        (Scenario.LONE_LIAR, {"liar", "challenger"}),
        (Scenario.CHALLENGER, {"honest", "liar"}),
        (Scenario.SAMPLING, {"liar"}),
    ],
)
def test_a_party_is_needed_unless_others_can_do_its_part(scenario: Scenario, expected: set[str]) -> None:
    parts = roles(scenario, LIE, 20)
    assert {part.name for part in parts if needed(part, parts)} == expected


def test_the_pages_answer_as_soon_as_their_address_is_said(bundle: Bundle, tmp_path: Path) -> None:
    job = bundle.write(tmp_path / "job")
    options = ["--bundle", str(job), "--fault-step", "3", "--folder", str(tmp_path / "demo"), "--explorer"]
    with subprocess.Popen(
        [sys.executable, "-m", "trainer_node.cli", "demo", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            told = []
            for line in process.stdout:
                told.append(line)
                if found := re.search(r"look at it: (http://127\.0\.0\.1:\d+)", line):
                    page = httpx.get(found[1], timeout=60)
                    break
            else:
                pytest.fail("".join(told))
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate()
    assert page.is_success
    assert "/job/1" in page.text
