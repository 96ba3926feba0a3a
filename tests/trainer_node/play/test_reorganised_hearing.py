"""After a reorganisation a match may go another way, as no hash binds refinements; its hearing has the same id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from referee_py.panel.state import Appeal, HearingPhase
from referee_py.walk.dispute import dispute_hash
from tests.referee_py.trial.parties import Setting

from ..hearing_room import BEGAN, PERIOD, Room


def test_what_was_found_of_another_operator_keeps_nobody_from_an_appeal(tmp_path: Path) -> None:
    room = Room(tmp_path)
    again = room.hearing
    rng = np.random.default_rng(8)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((4, 5), (5, 4))]
    setting = Setting.of("mm", inputs, {}, 0.7, 0, 1)
    assert setting is not None
    other = setting.dispute
    hashes = other.records[0].hash(), other.records[1].hash()
    at = replace(again.terms.submission, node=2, records=hashes, dispute=dispute_hash(other))
    room.hearing = replace(again, terms=replace(again.terms, submission=at, dispute=other))
    room.has_come_to(HearingPhase.RULED, verdict=hashes[1], until=BEGAN + PERIOD)
    assert isinstance(room.attend(replace(room.source(), record=other.records[0])), Appeal)
    room.hearing = again
    room.has_come_to(HearingPhase.RULED, verdict=again.terms.submission.records[1], until=BEGAN + PERIOD)
    assert isinstance(room.attend(room.source()), Appeal), (
        "our record is right, and the verdict calls it wrong"
    )
