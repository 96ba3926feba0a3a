"""Funds that are kept for jobs on which we have staked, even if blocks are read late."""

from __future__ import annotations

import pytest

from trainer_node.errors import RpcUnavailable
from trainer_node.stake.reserved_ether import Reserve


class Chain:
    head = 10
    pending: tuple[int, ...] = ()


def reserve(chain: Chain) -> Reserve:
    return Reserve(lambda: chain.head, lambda: chain.pending)


def test_what_is_kept_for_one_job_is_not_for_another() -> None:
    kept = reserve(Chain())
    kept.seen(1, 5, 7)
    kept.seen(2, 3, 7)
    assert (kept.for_others(), kept.for_others(1), kept.for_others(2)) == (8, 3, 5)
    kept.seen(1, 0, 7)
    assert (kept.kept(1), kept.for_others()) == (0, 3)


def test_a_block_from_before_the_stake_says_nothing_of_it() -> None:
    """Three blocks late: the stake is in block 11, so the view of block 8 is older."""
    chain = Chain()
    kept = reserve(chain)
    kept.staking(1, 9)
    chain.head = 11
    for block in (7, 8, 9, 10):
        kept.seen(1, 0, block)
        assert kept.kept(1) == 9
    kept.seen(1, 0, 11)
    assert kept.kept(1) == 0, "it was refused"


def test_what_is_not_mined_yet_is_kept_for() -> None:
    chain = Chain()
    chain.pending = (7,)
    kept = reserve(chain)
    kept.staking(1, 9)
    kept.seen(1, 4, 50)
    assert kept.kept(1) == 9
    chain.pending, chain.head = (), 60
    kept.seen(1, 4, 59)
    assert kept.kept(1) == 9
    kept.seen(1, 4, 60)
    assert kept.kept(1) == 4


def test_what_is_sent_later_is_not_waited_for() -> None:
    """The attack: a stranger asks for answers again and again, so that one is always on its way."""
    chain = Chain()
    chain.pending = (7,)
    kept = reserve(chain)
    kept.staking(1, 9)
    kept.seen(1, 0, 20)
    chain.pending = (8,)
    kept.seen(1, 0, 21)
    assert kept.kept(1) == 0
    chain.pending = (9,)
    kept.staking(1, 9)
    kept.seen(1, 0, 22)
    assert kept.kept(1) == 9, "a stake that is sent again is waited for again"


def test_more_is_kept_at_once_and_a_smaller_stake_lets_go_of_nothing() -> None:
    kept = reserve(Chain())
    kept.seen(1, 20, 7)
    kept.staking(1, 6)
    assert kept.kept(1) == 20
    kept.seen(1, 30, 1)
    assert kept.kept(1) == 30


def test_an_endpoint_that_fails_lets_go_of_nothing() -> None:
    class Failing(Chain):
        fails = True

    chain = Failing()

    def head() -> int:
        if chain.fails:
            raise RpcUnavailable("no answer")
        return 12

    kept = Reserve(head, tuple)
    kept.staking(1, 9)
    with pytest.raises(RpcUnavailable):
        kept.seen(1, 0, 10)
    chain.fails = False
    kept.seen(1, 0, 10)
    assert kept.kept(1) == 9
    kept.seen(1, 0, 12)
    assert kept.kept(1) == 0
