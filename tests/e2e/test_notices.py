"""Operators are told of a dispute on a real chain; a receiver that hangs loses nobody a stake."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from assay_lab.faults import Fault
from tests.conftest import Anvil
from tests.support.local_server import LocalServer
from tests.trainer_node.desk import until
from trainer_node.daemon.notices import Notices
from trainer_node.local.bundle import Bundle
from trainer_node.settings.sections import Notify

from .arena import STAKE, Arena


def test_both_sides_are_told_and_a_hanging_receiver_costs_nothing(
    anvil: Anvil, tmp_path: Path, bundle: Bundle
) -> None:
    got: list[dict[str, Any]] = []
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            release.wait(600)

    lies = [Fault.NONE, Fault.WRONG_OP_OUTPUT]
    with LocalServer(Handler) as server, Arena(anvil, tmp_path, bundle, trainers=lies) as arena:
        for member in arena.members:
            node = member.node
            about = {"role": node.role, "account": node.address, "chain_id": 31337}
            rule = Notify(url=server.uri, timeout_s=60)
            node.notices = Notices(rule, about, node.remembered.of_jobs(set), node.problems)
        outcome = arena.play()
        players = {arena.address("trainer-0"), arena.address("trainer-1")}
        until(lambda: players <= {str(one["account"]) for one in got})
        matches = arena.client.snapshot().matches_of(arena.job_id)
        for member in arena.members:
            member.node.notices.close()
        release.set()
    ((_, losers),) = outcome.matches
    assert losers == {arena.address("trainer-1")}
    assert outcome.profit["trainer-0"] > 0
    assert outcome.profit["trainer-1"] == -STAKE
    for told in got:
        assert (told["job"], int(told["match"], 16)) == (arena.job_id, matches[0])
        assert set(told["roots"]) == {group.root.hex() for group in outcome.job.groups}
