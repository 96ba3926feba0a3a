"""Two endpoints, one slow and right, one quick and on another chain: a whole job ends as with a sound one.

The right one is late with every answer, now and then by more than a look waits for. From a moment on the quick one is
on another chain, with other blocks than ours, where nothing happens any more, and keeps to itself what it is sent. In
half of the runs one endpoint is enough to stake, as the other's chain is known to be another; in the others both must
agree, and the quick one leaves once the honest trainer has staked.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from random import Random
from typing import Any

import pytest
from eth_utils.crypto import keccak

from assay_lab.faults import EXPECTED, Fault
from tests.conftest import Anvil
from tests.e2e.test_disputes import expect_justice
from trainer_node.chain.endpoints import PATIENCE_S
from trainer_node.local.bundle import Bundle

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


class Fork(FaultProxy):
    """An endpoint that can leave the chain: all its blocks are others then."""

    def __init__(self, upstream: str, seed: int) -> None:
        super().__init__(upstream, seed)
        self._left: int | None = None

    @property
    def left(self) -> bool:
        return self._left is not None

    def leave(self, at: int) -> None:
        """Show the state of block ``at`` for ever."""
        self._left = at

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        if self._left is None:
            super().answer(handler, request)
            return
        method, params = request["method"], list(request["params"])
        self._note(Trouble.FORKED)
        if method == "eth_sendRawTransaction":
            result: Any = "0x" + keccak(hexstr=params[0]).hex()
        elif method.startswith("eth_getBlock"):
            result = self._ask(request)
            if result is not None:
                result = {**result, "hash": result["hash"][:-4] + "dead"}
        elif method == "eth_getLogs":
            last = min(int(params[0]["toBlock"], 16), self._left)
            empty = int(params[0]["fromBlock"], 16) > last
            result = [] if empty else self._ask({**request, "params": [{**params[0], "toBlock": hex(last)}]})
        elif method == "eth_getTransactionReceipt":
            result = self._ask(request)
            if result is not None and int(result["blockNumber"], 16) > self._left:
                result = None
        else:
            result = self._ask({**request, "params": [self._before(item) for item in params]})
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        self._send(handler, 200, json.dumps(answer).encode())

    def _before(self, item: Any) -> Any:
        """Return a block that a request names as one before it left."""
        assert self._left is not None
        if item in ("latest", "pending"):
            return hex(self._left)
        # NOTE: what is longer than a number is an address or data.
        number = isinstance(item, str) and item.startswith("0x") and len(item) < 18
        return hex(min(int(item, 16), self._left)) if number else item

    def _ask(self, request: dict[str, Any]) -> Any:
        return self._client.post(self.upstream, json=request).json().get("result")


def staked(played: Game) -> bool:
    job = played.client.snapshot().job(played.job_id)
    return job.trainer(played.address("trainer-0")) is not None


def play(anvil: Anvil, folder: Path, bundle: Bundle, seed: int) -> None:
    """Play a run whose delays and moments follow from the seed. The right endpoint is the first in every other one."""
    agree, leaves_at = 1 + seed % 2, Random(seed).randrange(TURNS)
    turns = 0
    with (
        SlowProxy(anvil.url, seed) as right,
        Fork(anvil.url, seed) as quick,
        game(
            *(anvil, folder, bundle),
            [one.url for one in ((right, quick) if seed // 4 % 2 else (quick, right))],
            agree=agree,
            limits={**LIMITS, "rpc_timeout_s": 10.0},
        ) as played,
    ):
        honest = next(member.node for member in played.members if member.honest)

        def leave() -> None:
            nonlocal turns
            turns += 1
            known = honest.client.agreement.known
            if not quick.left and known and (turns > leaves_at if agree == 1 else staked(played)):
                quick.leave(played.web3.eth.block_number)

        played.between = leave
        outcome = played.play()
        other = quick.made[Trouble.FORKED]
        print(f"\nrun {seed}: {turns} turns, {other} answers of another chain", file=sys.__stderr__)
        assert other > 0, "it never left our chain"
        expect_justice(played, outcome, bundle)
        assert outcome.matches == [(EXPECTED[Fault.POISON_DATA], {played.address("trainer-1")})]


@pytest.mark.slow
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
