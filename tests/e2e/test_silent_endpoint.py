"""One of two endpoints is silent in the last moment of training, and may have lied before: the slot is given back.

To keep it would cost the whole stake, instead of a 32nd.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.campaigns.proxy import Trouble
from tests.conftest import Anvil
from trainer_node.daemon.service import Daemon
from trainer_node.local.bundle import Bundle

from ..trainer_node.chain.liar import Liar
from ..trainer_node.desk import until
from .test_slow_steps import LOST, Alone, Gate


@pytest.mark.parametrize("lies", [False, True])
def test_an_old_lie_of_an_endpoint_that_is_silent_now_keeps_no_slot(
    anvil: Anvil, tmp_path: Path, bundle: Bundle, lies: bool
) -> None:
    gate = Gate()
    with Liar(anvil.url) as second:

        class Slow(Alone):
            replay = gate.replay

            def _node(self, name: str, role: str, **settings: Any) -> Daemon:
                urls = [anvil.url, second.url]
                return super()._node(name, role, **settings, rpc_url=urls, block_s=3.0)

        with Slow(anvil, tmp_path, bundle) as arena:
            (member,) = arena.members
            until(lambda: arena.turn() and gate.reached.is_set())
            snapshot = arena.client.snapshot()
            job = snapshot.job(arena.job_id)
            true, false = f"{job.commit_end:064x}", f"{job.commit_end + 1:064x}"

            def lie(answer: dict[str, Any]) -> dict[str, Any]:
                changed: dict[str, Any] = json.loads(json.dumps(answer).replace(true, false))
                return changed

            second.lies |= {"eth_call": lie, "eth_getLogs": lie}
            while lies and not member.node.client.agreement.conflict:
                member.loop._compare_at = 0.0
                member.loop.tick()
            second.lies.clear()
            second.always = Trouble.STATUS
            arena.skip(job.commit_end - arena.client.snapshot().now - int(2 * member.node.settings.latency_s))
            until(arena.resigned)
            gate.go.set()
            assert arena.profit() == -LOST
