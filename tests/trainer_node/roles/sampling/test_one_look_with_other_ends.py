"""Attack: one look of the endpoint that serves shows that a job ends at once, or another time of the chain, while the
data of its roots are asked for first. All of them counted as withheld for good: where the whole run is more than a
sampler does, the lie was accepted."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.trainer_node.desk import until
from trainer_node.chain import JobView

from .test_siege import DAY, INTERVAL, Siege, siege  # noqa: F401

NOW, LEFT = 100 * DAY, 30 * DAY


def comes(siege: Siege, of: JobView, *, seconds: float = 20.0) -> bool:  # noqa: F811
    """Return whether the lie is found, while a minute passes between two looks."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        siege.clock.on(60.0)
        if siege.check(of) == [[INTERVAL]]:
            return True
        time.sleep(0.02)
    return False


def ends_early(siege: Siege, of: JobView) -> None:  # noqa: F811
    siege.check(replace(of, challenge_end=0, challenge_period=0))


def long_ago(siege: Siege, of: JobView) -> None:  # noqa: F811
    """What is asked for then comes after the next look."""
    siege.quick.release.clear()
    siege.quick.seen.clear()
    siege.node.check(of, 1)
    if not siege.node._checks[1].roots[siege.run.root].until:
        until(lambda: siege.quick.seen)
    siege.check(of)
    time.sleep(0.3)
    siege.quick.release.set()


@pytest.mark.parametrize("lie", [ends_early, long_ago])
@pytest.mark.parametrize("looks", [1, 4])
def test_a_root_is_checked_after_it(
    siege: Siege,  # noqa: F811
    lie: Callable[[Siege, JobView], None],
    looks: int,
) -> None:
    siege.clock.to(NOW)
    of = siege.job(1, siege.lie, ends=NOW + LEFT)
    siege.prepared(of)
    for _ in range(looks):
        lie(siege, of)
        time.sleep(0.05)
        siege.clock.on(60.0)
    assert comes(siege, of)
    assert not siege.node.withheld(of)


def test_what_is_late_by_what_all_looks_show_stays_withheld(siege: Siege) -> None:  # noqa: F811
    siege.clock.to(NOW)
    of = siege.job(1, siege.slow(), ends=NOW + LEFT)
    siege.prepared(of)
    siege.check(of)

    def late() -> bool:
        siege.clock.on(DAY)
        siege.check(of)
        time.sleep(0.02)
        return siege.node.withheld(of)

    end = time.monotonic() + 20.0
    while not late():
        assert time.monotonic() < end
    assert siege.clock() < NOW + LEFT
    (root,) = siege.node._checks[1].roots.values()
    assert root.overdue == {0: 0}
    siege.check(of)
    assert siege.node.withheld(of)
    longer = replace(of, challenge_end=NOW + 10 * LEFT)
    siege.check(longer)
    assert not siege.node.withheld(longer), "a lost refutation has opened the challenges again"


def test_a_look_in_which_nothing_has_time_spends_no_interval(siege: Siege) -> None:  # noqa: F811
    siege.clock.to(NOW)
    of = siege.job(1, siege.lie, ends=NOW + LEFT)
    siege.prepared(of)
    siege.check(replace(of, challenge_end=0))
    for _ in range(6):
        siege.clock.on(600.0)
        siege.check(replace(of, challenge_end=0))
        time.sleep(0.02)
    (root,) = siege.node._checks[1].roots.values()
    assert (root.taken, root.withheld) == (0, False)
    assert len(root.overdue) <= 1
