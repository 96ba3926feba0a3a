"""One endpoint is quick; those that are right are slower than anybody is waited for once most have answered.

Time is moved by the tests: a second passes when everybody waits for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.conftest import Anvil
from trainer_node.chain.endpoints import PATIENCE_S

from ..campaigns.proxy import Trouble
from .endpoint_bench import TIMEOUT_S, Bench
from .moved_time import MovedTime
from .test_slow_and_right import Refuser, bench_of, is_right, liars  # noqa: F401

SLOW_S = (PATIENCE_S + 1, 4 * PATIENCE_S, TIMEOUT_S / 2)


@pytest.fixture
def pair(module_anvil: Anvil, liars: list[Refuser]) -> Bench:  # noqa: F811
    return bench_of(module_anvil, liars[:2], MovedTime())


@pytest.fixture
def three(module_anvil: Anvil, liars: list[Refuser]) -> Bench:  # noqa: F811
    return bench_of(module_anvil, liars, MovedTime())


def fork(bench: Bench, place: int, after: int) -> None:
    """Let an endpoint leave the chain after a block."""

    def other(true: dict[str, Any]) -> dict[str, Any]:
        block = true["result"]
        if block is None or int(block["number"], 16) <= after:
            return {"result": block}
        return {"result": {**block, "hash": block["hash"][:-4] + "dead"}}

    bench.proxies[place].lies["eth_getBlockByNumber"] = other  # type: ignore[attr-defined]


@pytest.mark.parametrize("slow_s", SLOW_S)
def test_a_fork_after_what_is_known_loses_to_two_that_are_slow(three: Bench, slow_s: float) -> None:
    view = three.view(agree=2)
    fork(three, 0, view.look().block.number)
    for proxy in three.proxies[1:]:
        proxy.late_s = slow_s
    for _ in range(4):
        three.mine(1)
        assert is_right(three, view)
        assert view.doubt is None
        three.clock.now += 61


@pytest.mark.parametrize("agree", [1, 2])
@pytest.mark.parametrize("slow_s", SLOW_S)
def test_a_fork_loses_at_the_start_of_a_daemon(three: Bench, agree: int, slow_s: float) -> None:
    view = three.view(agree=agree)
    three.proxies[0].always = Trouble.FORKED
    for proxy in three.proxies[1:]:
        proxy.late_s = slow_s
    for _ in range(4):
        assert is_right(three, view)
        assert view.doubt is None
        three.mine(1)


@pytest.mark.parametrize("slow_s", SLOW_S)
def test_two_that_are_slow_and_right_can_be_staked_on(three: Bench, slow_s: float) -> None:
    view = three.view(agree=2)
    for proxy in three.proxies[1:]:
        proxy.late_s = slow_s
    for _ in range(4):
        three.mine(1)
        assert view.look().doubt is None
        three.clock.now += 61
