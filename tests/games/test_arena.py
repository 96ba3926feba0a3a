"""Games at random on the contracts, as samples of the generator that plays them in Python."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.referee_py.game.chain import ANVIL_OPTIONS, Chain
from tests.referee_py.game.random_game import LEAVE_DELAY

from .arena import Replay, generate
from .crowd import Played

ON_ONE_CHAIN = 20


@pytest.mark.parametrize(
    "count", [pytest.param(4, id="few"), pytest.param(200, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.timeout(3600)
def test_games_at_random_on_the_contracts(start_anvil: Callable[..., Any], count: int) -> None:
    played, moves = Played(), 0
    for first in range(0, count, ON_ONE_CHAIN):
        anvil = start_anvil(*ANVIL_OPTIONS, "--order", "fifo")
        chain = Chain(anvil.url, 1, LEAVE_DELAY)
        for number in range(first, min(first + ON_ONE_CHAIN, count)):
            board = generate(("arena", number), chain.now + 1, played)
            assert not played.lost, played.lost
            replay = Replay(chain, board)
            replay.play()
            moves += replay.moves
        os.kill(anvil.pid, signal.SIGTERM)
    print(f"{count} games on the contracts, {sum(played.acts.values())} acts, {moves} moves of matches")
    print(f"{dict(played.acts)}; {dict(played.ends)}")
    assert played.ends["accepted right"]
