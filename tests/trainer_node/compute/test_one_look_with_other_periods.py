"""Attack: one look of the endpoint that serves shows a job with a challenge period of no seconds, while its package is
asked for first. It was late at once and for good, and the job was never checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.trainer_node.desk import job, runner, serving, until
from tests.trainer_node.slow import Hand
from trainer_node.chain import JobPhase
from trainer_node.storage.database import Database


def test_a_package_comes_after_a_look_with_a_short_period(tmp_path: Path) -> None:
    clock = Hand()
    with (
        serving(tmp_path / "client") as uri,
        runner(tmp_path / "node", Database(None), clock=clock) as works,
    ):
        of = job(uri=uri, phase=JobPhase.CHALLENGE, challenge_period=3600, challenge_end=3600)
        assert works.prepare(replace(of, challenge_period=0)) is None
        assert works.refused(1), "as long as that is what is shown"
        assert until(lambda: works.prepare(of))
        assert works.refused(1) is None


def test_a_period_that_is_too_long_gives_no_more_time_later(tmp_path: Path) -> None:
    clock = Hand()
    with runner(tmp_path / "node", Database(None), clock=clock) as works:
        of = job(uri="http://127.0.0.1:9", phase=JobPhase.CHALLENGE, challenge_period=0, challenge_end=3600)
        works.prepare(replace(of, challenge_period=10**9))
        until(lambda: not works.busy)
        clock.on(1000.0)
        assert "are over" in until(lambda: works.prepare(of) or works.refused(1))
