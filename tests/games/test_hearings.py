"""No stranger's act, silence or slowness takes the bond of a verifier that is right."""

from __future__ import annotations

import time

import pytest

from referee_py.commit import Record

from .hearings import Hearings, dispute, third

RIGHT = ["first", "second", "neither"]


def record(of: str) -> Record:
    return third() if of == "neither" else dispute().records[RIGHT.index(of)]


@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("threshold", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.timeout(1800)
def test_every_hearing(threshold: int, right: str) -> None:
    began = time.process_time()
    played = Hearings(threshold, record(right)).run()
    took = time.process_time() - began
    print(
        f"verifier, {right} record right, threshold {threshold}: {played.games} games, {len(played.seen)} states, "
        f"{took:.0f} s, violations: {len(played.losses)}"
    )
    assert not played.losses, played.losses[0]
    assert played.voted
    assert played.stood, "the play is worth something only if the verdict is overruled"


@pytest.mark.parametrize("right", RIGHT)
def test_the_search_finds_a_verifier_that_does_not_keep_its_inputs(right: str) -> None:
    played = Hearings(1, record(right), keeps=False).run()
    assert played.losses
    assert played.losses[0][-1] == "proceed"
