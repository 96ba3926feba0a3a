"""Attack: which interval a refutation of ours is about was read in a look that nobody confirms. The endpoint that
serves named another one in each look, and each was replayed at once, before all else and beyond the limit of
the memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.trainer_node.desk import until
from trainer_node.daemon.remembered import Remembered
from trainer_node.errors import RpcUnavailable
from trainer_node.roles.sampling.sampler import Samples
from trainer_node.run.refutation import Refuted
from trainer_node.storage.database import Database

from .test_siege import INTERVAL, Siege, siege  # noqa: F401

ME = "0x" + "aa" * 20
CLAIMED: Any = SimpleNamespace(index=0, root=b"lie", refutes=None, dead=False, members=(0,))
OWN: Any = SimpleNamespace(index=1, root=b"ours", refutes=0, dead=False, members=(1,))
JOB: Any = SimpleNamespace(
    id=1,
    groups=[CLAIMED, OWN],
    claims=[SimpleNamespace(owner="0x" + "bb" * 20), SimpleNamespace(owner=ME)],
    group_of_root={b"lie": CLAIMED}.get,
)
LIE = Refuted(b"ours", b"", (), against=b"lie", index=INTERVAL - 1)


class Chain:
    """What one endpoint says, and whether others confirm it."""

    def __init__(self, says: int, *, confirmed: bool) -> None:
        self.says, self.confirmed, self.looks = says, confirmed, 0

    def snapshot(self) -> Any:
        self.looks += 1

        def confirm(*, hurried: bool) -> None:
            assert hurried
            if not self.confirmed:
                raise RpcUnavailable("nobody confirms it")

        return SimpleNamespace(job=lambda _: JOB, refuted=lambda _: {1: self.says}, confirm=confirm)


def samples(database: Database, chain: Chain) -> Samples:
    """Return what a new process knows."""
    node: Any = SimpleNamespace(
        address=ME, client=chain, settings=None, remembered=Remembered(), database=database
    )
    return Samples(node)


def test_what_is_known_is_asked_of_nobody_also_after_a_restart() -> None:
    database, chain = Database(None), Chain(1, confirmed=True)
    assert samples(database, chain).staked(JOB, CLAIMED, [LIE]) == (INTERVAL,)
    assert samples(database, chain).staked(JOB, CLAIMED, []) == (INTERVAL,)
    assert chain.looks == 0


def test_what_others_confirm_is_asked_for_once() -> None:
    database, chain = Database(None), Chain(INTERVAL, confirmed=True)
    assert samples(database, chain).staked(JOB, CLAIMED, []) == (INTERVAL,)
    chain.says = 1
    assert samples(database, chain).staked(JOB, CLAIMED, []) == (INTERVAL,)
    assert chain.looks == 1


def test_what_nobody_confirms_is_not_kept() -> None:
    """With one of two endpoints silent it is all that there is."""
    database, chain = Database(None), Chain(1, confirmed=False)
    known = samples(database, chain)
    assert known.staked(JOB, CLAIMED, []) == (1,)
    chain.says = INTERVAL
    assert known.staked(JOB, CLAIMED, []) == (INTERVAL,)
    chain.confirmed = True
    assert samples(database, chain).staked(JOB, CLAIMED, []) == (INTERVAL,)


def test_no_more_is_replayed_at_once_than_refutations_live(siege: Siege) -> None:  # noqa: F811
    of = siege.job(1, siege.lie)
    siege.prepared(of)
    siege.wanted.of = siege.run.root
    for told in (1, 2, 3, 4):
        siege.wanted.refuted = (told,)
        siege.check(of, ours=True)
        assert len(siege.node._checks[1].staked) <= 1
    siege.wanted.refuted = (INTERVAL,)
    assert until(lambda: siege.check(of, ours=True) == [[INTERVAL]])
    until(lambda: not siege.node.busy)
    siege.check(of, ours=True)
    assert siege.node._checks[1].staked.keys() <= {(siege.run.root, INTERVAL)}
