"""Jobs that hold what is at stake for too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from referee_py.jobs import Rules
from trainer_node.stake.policy import too_long

from ..desk import job

LONG = 1000
RULES = Rules(1, LONG, LONG, LONG)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"train_period": LONG + 1}, "training period has 1001 s"),
        ({"watch_period": LONG + 1}, "watch period has 1001 s"),
        ({"reveal_period": LONG + 1}, "reveal period has 1001 s"),
        ({"challenge_period": LONG + 1}, "challenge period has 1001 s"),
        ({"rules": replace(RULES, verdict_period=LONG + 1)}, "verdict period has 1001 s"),
        ({"rules": replace(RULES, appeal_period=LONG + 1)}, "appeal period has 1001 s"),
        ({"rules": replace(RULES, clock=LONG + 1)}, "clock has 1001 s"),
    ],
)
def test_a_period_that_is_too_long_is_named(changes: dict[str, Any], name: str) -> None:
    assert too_long(job(rules=RULES), LONG) is None
    reason = too_long(job(**{"rules": RULES, **changes}), LONG)
    assert reason is not None
    assert name in str(reason)
    assert "max_period_s allows 1000" in str(reason)
