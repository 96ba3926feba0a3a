"""Two endpoints, one slow and right, one quick and on another chain: a whole job ends as with a sound one.

The right one is late with every answer, now and then by more than a look waits for. From a moment on the quick one
shows blocks with other hashes. In half of the runs one endpoint is enough to stake, as the other's chain is known to
be another; in the others both must agree, and the quick one leaves our chain once the honest trainer has staked.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

from assay_lab.faults import EXPECTED, Fault
from tests.conftest import Anvil
from tests.e2e.test_disputes import expect_justice
from trainer_node.bundle import Bundle
from trainer_node.chain.endpoints import PATIENCE_S

from .games import LIMITS, Game, game
from .proxy import FaultProxy, Trouble

RUNS, PARTS = 50, 10
LATE_S = 0.1
"""Mean delay of the right endpoint's answers."""
TOO_LATE = 0.02
"""Share of its answers that come later than a look waits for."""
TURNS = 8
"""The quick endpoint leaves our chain within so many turns."""


class SlowProxy(FaultProxy):
    """Late with every answer, sometimes very late."""

    def __init__(self, upstream: str, seed: int) -> None:
        super().__init__(upstream, seed)
        self._delays = Random(repr(("delays", seed)))

    @property
    def late_s(self) -> float:
        draw = self._delays.random()
        return PATIENCE_S + 1 if draw < TOO_LATE else self._delays.uniform(0, 2 * LATE_S)

    @late_s.setter
    def late_s(self, value: float) -> None:
        """It is not for others to say."""


def staked(played: Game) -> bool:
    job = played.client.snapshot().job(played.job_id)
    return job.trainer(played.address("trainer-0")) is not None


def play(anvil: Anvil, folder: Path, bundle: Bundle, seed: int) -> None:
    """Play a run whose delays and moments follow from the seed. The right endpoint is the first in every other one."""
    agree, leaves_at = 1 + seed % 2, Random(seed).randrange(TURNS)
    turns = 0
    with (
        SlowProxy(anvil.url, seed) as right,
        FaultProxy(anvil.url, seed) as quick,
        game(
            *(anvil, folder, bundle),
            [one.url for one in ((right, quick) if seed // 2 % 2 else (quick, right))],
            agree=agree,
            limits={**LIMITS, "rpc_timeout_s": 10.0},
        ) as played,
    ):
        honest = next(member.node for member in played.members if member.honest)

        def leave() -> None:
            nonlocal turns
            turns += 1
            known = honest.client.agreement.known is not None
            if known and (turns > leaves_at if agree == 1 else staked(played)):
                quick.always = Trouble.FORKED

        played.between = leave
        outcome = played.play()
        print(
            f"run {seed}: {turns} turns, {quick.made[Trouble.FORKED]} answers of another chain",
            file=sys.__stderr__,
        )
        assert quick.always is Trouble.FORKED, "it never left our chain"
        assert quick.made[Trouble.FORKED] > 0
        expect_justice(played, outcome, bundle)
        assert outcome.matches == [(EXPECTED[Fault.POISON_DATA], {played.address("trainer-1")})]


def test_a_job_through_a_slow_right_and_a_quick_forked_endpoint(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    play(module_anvil, tmp_path / "game", bundle, 0)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(PARTS))
def test_slow_and_right_wins_in_every_run(
    module_anvil: Anvil, tmp_path: Path, bundle: Bundle, part: int
) -> None:
    """Fifty whole jobs, in parts that may run side by side."""
    failed = list[str]()
    for seed in range(part, RUNS, PARTS):
        try:
            play(module_anvil, tmp_path / str(seed), bundle, seed)
        except AssertionError as error:
            failed.append(f"run {seed}: {str(error)[:500]}")
    assert not failed, "\n".join(failed)
