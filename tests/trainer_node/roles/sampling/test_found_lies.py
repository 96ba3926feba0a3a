"""What is found wrong and not staked on keeps nothing: it gives way in memory, and is found again before a stake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog

from referee_py.errors import Unavailable
from tests.trainer_node.desk import until
from tests.trainer_node.roles.member import RICH, YEARS, member
from trainer_node.chain import JobView
from trainer_node.errors import MemoryShort
from trainer_node.roles.sampling.sampler import Sampler
from trainer_node.run.refutation import Refuted
from trainer_node.run.tensors import MEANT_S, Takes
from trainer_node.settings.extent import Mode

from .test_siege import DAY, INTERVAL, Siege, siege  # noqa: F401

OTHER = 9


class Lies:
    """A sampler with all that it decides, whose memory has room for one interval of any job."""

    def __init__(self, siege: Siege, folder: Path, mode: Mode = Mode.CHALLENGE) -> None:  # noqa: F811
        self.siege, self.tensors = siege, siege.node._tensors
        self.node: Any = member(folder, mode=mode, check="sample:1")
        self.sampler = Sampler(self.node, siege.node)
        self.tensors.of(OTHER, Takes(step=self.tensors.limit))

    def job(self, number: int = 1, ends: int = DAY) -> JobView:
        """Return a job with a lie that is served, and that takes all memory."""
        of = self.siege.job(number, self.siege.lie, ends=ends)
        self.siege.prepared(of)
        self.tensors.of(number, Takes(step=self.tensors.limit))
        return of

    def look(self, of: JobView) -> tuple[list[int], list[Refuted]]:
        """Let a round pass. Return the intervals that are known to be wrong, and what is to be refuted."""
        now = int(self.siege.clock())
        self.sampler.decide(of, now)
        found, due = self.sampler.refutations(of, now)
        return [lie.index + 1 for lie in found], due

    def found(self, of: JobView) -> None:
        """Let the lie be found while the account has nothing to stake."""
        self.node.wei = 0
        until(lambda: self.look(of) == ([INTERVAL], []))
        until(lambda: not self.siege.node._checks[of.id].busy)

    def lends(self) -> bool:
        """Whether another job has the memory now."""
        try:
            with self.tensors.lent(OTHER, waits=False):
                return True
        except MemoryShort:
            return False


@pytest.fixture
def lies(siege: Siege, tmp_path: Path) -> Lies:  # noqa: F811
    return Lies(siege, tmp_path)


def test_a_lie_on_which_nobody_would_stake_takes_no_memory_from_another(lies: Lies) -> None:
    """The attack: in a job of a hundred years, which its author wins back, the lie kept all memory as long."""
    bait, real = lies.job(2, ends=YEARS), lies.job(1)
    with structlog.testing.capture_logs() as told:
        for _ in range(20):
            assert lies.look(bait) == ([], [])
            lies.siege.clock.on(60.0)
            until(lambda: not lies.siege.node.busy)
    (reason,) = [line["reason"] for line in told if line["event"] == "job.left_to_others"]
    assert "limits.max_period_s" in reason, "said once"
    assert until(lambda: lies.look(real)[1])[0].index + 1 == INTERVAL


@pytest.mark.parametrize("mode", [Mode.WATCH, Mode.DEFEND])
def test_who_only_watches_says_what_is_wrong_in_any_job_and_keeps_no_memory_for_it(
    siege: Siege,  # noqa: F811
    tmp_path: Path,
    mode: Mode,
) -> None:
    lies = Lies(siege, tmp_path, mode)
    of = lies.job(ends=YEARS)
    for _ in range(3):
        lies.look(of)
        until(lambda: not siege.node.busy)
    if mode is Mode.WATCH:
        until(lambda: lies.look(of) == ([INTERVAL], []))
        until(lambda: not siege.node.busy)
    assert lies.look(of) == ([INTERVAL] if mode is Mode.WATCH else [], [])
    assert lies.lends()


def test_what_is_found_and_not_staked_on_gives_way_and_its_statement_stays(lies: Lies) -> None:
    """The attack: what was found kept its memory until its job was over, whatever kept us from a stake."""
    of = lies.job()
    lies.found(of)
    assert lies.tensors.used == lies.tensors.limit, "it is there as long as nobody asks"
    assert lies.lends()
    assert lies.tensors.used == 0
    assert lies.look(of) == ([INTERVAL], [])
    assert not lies.siege.node.works_at(1), "nothing is found again before it is wanted"


def test_what_has_given_way_is_found_again_from_the_disk_before_it_is_refuted(lies: Lies) -> None:
    of = lies.job()
    lies.found(of)
    assert lies.lends()
    lies.siege.quick.release.clear()  # from now on nobody serves anything
    lies.node.wei = RICH
    assert lies.look(of) == ([INTERVAL], [])
    (lie,) = until(lambda: lies.look(of)[1])
    assert lies.siege.node.replay(1, lie).run_tree(0, 0, 12).root == lie.root


def test_room_for_a_refutation_that_is_due_is_kept_for_a_while(lies: Lies) -> None:
    of = lies.job()
    lies.found(of)
    lies.node.wei = RICH
    (lie,) = until(lambda: lies.look(of)[1])
    assert not lies.lends()
    assert lies.tensors.used == lies.tensors.limit, "once"
    lies.siege.clock.on(MEANT_S)
    assert lies.lends()
    with pytest.raises(Unavailable, match="is found again"):
        lies.siege.node.replay(1, lie)


def test_a_claim_and_a_refutation_that_are_due_in_one_look_have_room_for_both(lies: Lies) -> None:
    """The attack: another lie is due in the very rounds in which the right root is about to be claimed. A stranger's
    run had the room of our whole run, which was still in memory."""
    of, node, gone, half = lies.job(), lies.siege.node, list[int](), lies.tensors.limit // 2
    for number in (1, OTHER):
        lies.tensors.of(number, Takes(step=half))
    lies.found(of)
    lies.tensors.idle(1, lambda: gone.append(1))
    assert node.too_full(1, part=False) is None
    assert node.at_hand(of, node.found(1)) == node.found(1)
    assert not lies.lends()
    assert gone == []


def test_room_for_a_lie_that_a_server_does_not_end_to_serve_is_kept_half_of_the_time(lies: Lies) -> None:
    """The attack: it is due, our disk has lost it, and its server answers with nothing, for ever."""
    of, store, others = lies.job(), lies.siege.node._fetcher.store, list[bool]()
    lies.found(of)
    assert lies.lends()
    for path in [path for path in (store.root / "tree").rglob("*") if path.is_file()]:
        path.unlink()
    lies.siege.quick.release.clear()
    lies.node.wei = RICH
    for _ in range(80):
        lies.look(of)
        others.append(lies.lends())
        lies.siege.clock.on(MEANT_S / 20)
    assert others == [*[False] * 20, *[True] * 20] * 2


def test_what_is_staked_on_keeps_its_memory_until_nothing_is_at_stake(lies: Lies) -> None:
    of, node = lies.job(), lies.siege.node
    lies.found(of)
    assert lies.lends()
    lies.siege.wanted.refuted, lies.siege.wanted.of = (INTERVAL,), lies.siege.run.root

    def here() -> bool:
        node.check(of, int(lies.siege.clock()), ours=True)
        return bool(node._checks[1].parts) and not node.busy

    until(here)
    assert not lies.lends()
    assert lies.tensors.used == lies.tensors.limit
    node.check(of, int(lies.siege.clock()), ours=False)
    assert lies.lends()


def test_a_second_stake_in_a_job_takes_memory_of_its_own(lies: Lies) -> None:
    """What the first one keeps is no room for it."""
    of = lies.job()
    until(lambda: not lies.siege.node.busy)
    lies.tensors.keep(1)
    assert "bytes of memory" in str(lies.siege.node.too_full(1, part=True))
    lies.tensors.of(1, Takes(step=lies.tensors.limit // 2))
    assert lies.siege.node.too_full(1, part=True) is None
    assert lies.siege.node.too_full(1, part=True, stakes=2) is not None
    assert of.id == 1
