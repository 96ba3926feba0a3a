"""A verifier that was right keeps its bond, though both sides of the match are one attacker, who gives it away."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from assay_lab.daemons import SilentParticipant
from assay_lab.faults import Fault
from referee_py.errors import Unavailable
from referee_py.panel.state import HearingPhase
from tests.conftest import Anvil
from trainer_node.local.bundle import Bundle
from trainer_node.network.download import Downloads
from trainer_node.roles.trainer import trainer
from trainer_node.roles.verifier import Verifier

from .arena import Arena, Member

DAY_S = 24 * 3600.0
SPOKESMAN, LIAR, SIGNER = "trainer-0", "challenger", "verifier-0"


def member(arena: Arena, name: str) -> Member:
    return next(found for found in arena.members if found.name == name)


def phase(arena: Arena) -> HearingPhase | None:
    """Return the phase of the only hearing; None if there is none."""
    snapshot = arena.client.snapshot()
    found = snapshot.hearings(snapshot.job(arena.job_id))[0]
    return found[0].state.phase if found else None


def servers_vanish(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nobody but the client serves anything."""
    client, download = arena.client.snapshot().job(arena.job_id).uri, Downloads._download

    async def gone(self: Downloads, call: Any, uri: str, *rest: Any) -> None:
        if uri.rstrip("/") != client.rstrip("/"):
            raise Unavailable("the spokesmen's servers have gone")
        await download(self, call, uri, *rest)

    monkeypatch.setattr(Downloads, "_download", gone)


def a_day_passes(verifier: Member) -> None:
    """Let a day pass on the verifier's disk, in which nothing there is used; collect what may go."""
    then = time.time() - DAY_S
    for path in verifier.node.store.root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))
    verifier.node.keeper.collect()
    verifier.node.keeper._urgently(lambda: False)


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_a_signer_stands_by_its_verdict_from_what_it_has_kept(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    """The liar appeals in the last second; the side that is right, the attacker's too, lets its clock run down."""
    trainers, lie = [Fault.NONE], Fault.WRONG_OP_OUTPUT
    one: dict[str, Any] = {"verifiers": 1, "threshold": 1, "appeals": True}
    with Arena(anvil, tmp_path, bundle, trainers=trainers, challenger=lie, **one) as arena:
        verifier, spokesman = member(arena, SIGNER), member(arena, SPOKESMAN)
        while phase(arena) not in (HearingPhase.RULED, HearingPhase.TRIAL):
            arena.turn()
        assert spokesman.runner is not None
        spokesman.start(trainer(spokesman.node, spokesman.runner, SilentParticipant))
        servers_vanish(arena, monkeypatch)
        a_day_passes(verifier)
        if restarts:
            verifier.start(Verifier(verifier.node))
            a_day_passes(verifier)
        outcome = arena.play()
        assert outcome.profit[SIGNER] > 0, "its bond is whole, and it has won a trial against the liar"
        assert outcome.profit[SPOKESMAN] < 0
