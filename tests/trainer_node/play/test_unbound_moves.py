"""What no hash ties to its position waits for other endpoints; but not longer than its clock allows."""

from __future__ import annotations

import pytest

from referee_py.game.state import Refine, Timeout
from referee_py.trial import Answer, Post
from trainer_node.chain import Call
from trainer_node.daemon.due import Due
from trainer_node.play.unbound_moves import confirmed_first
from trainer_node.stake.gas_patience import Slack

DUE = Due(Call(action="move", to="0x" + "11" * 20, data=b"", value=0), dispute=True)
UNBOUND = (Refine(0, bytes(32), ()), Post(b""), Answer(b"", 0, b""))
CLOCK = 800


@pytest.mark.parametrize("move", UNBOUND, ids=lambda move: type(move).__name__)
@pytest.mark.parametrize(
    ("left", "waits", "urgent"),
    [
        (800, True, False),
        (401, True, False),
        (400, True, True),
        (301, True, True),
        (300, False, True),
        (0, False, True),
    ],
)
def test_it_waits_while_enough_of_the_clock_is_left(
    move: object, left: int, waits: bool, urgent: bool
) -> None:
    due = confirmed_first(DUE, [Timeout(), move], Slack(left, CLOCK))
    assert (due.exposes, due.urgent) == (waits, urgent)
    assert due.dispute


def test_other_moves_wait_for_nobody() -> None:
    assert confirmed_first(DUE, [Timeout()], Slack(CLOCK, CLOCK)) is DUE
    assert confirmed_first(DUE, UNBOUND, Slack(-1)) is DUE, "a clock has run out"
