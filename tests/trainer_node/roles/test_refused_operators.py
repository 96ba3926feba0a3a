"""What a verifier refuses of one operator says nothing of another that the match reaches after a reorganisation, under
the same id of the hearing (docs/decisions.md, record 188)."""

from __future__ import annotations

import time
from dataclasses import replace

from ..courtroom import NODE, STEP, Court, publish
from ..desk import ENOUGH


def test_a_refused_operator_keeps_nobody_from_another_under_the_same_hearing(court: Court) -> None:
    court.node.settings.limits.memory_bytes = 60
    assert court.tick() == []
    court.node.settings.limits.memory_bytes = ENOUGH
    court.disputed = NODE - 1
    court.right = court.replay.record(STEP, court.disputed)
    wrong = replace(court.right, outputs=(b"\1" * 32,) * len(court.right.outputs))
    publish(court)
    court.submit(101, 1, court.heard[101].terms.submission.players, (wrong, court.right))
    signed = list[int]()
    for _ in range(100):
        signed += court.tick()
        if signed:
            break
        time.sleep(0.02)
    assert signed == [101]
