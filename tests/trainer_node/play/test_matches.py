"""A match seen by the player: the opponent serves, withholds, stalls; the endpoint hides the opponent's moves."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import repops
from eth_utils.address import to_checksum_address

from referee_py.commit import Tag, Tree
from referee_py.game.rules import apply, opened
from referee_py.game.state import MatchState, MatchTerms, Move, Phase
from tests.support.planned import observe
from trainer_node.chain import Group, MatchInfo, Seat, Snapshot
from trainer_node.errors import RpcCorrupt
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.opponents import Opponents
from trainer_node.play.drafts import RoundPatience
from trainer_node.play.matches import MatchPlayer
from trainer_node.run.replay import Replay
from trainer_node.storage.artifacts import Kind, Name
from trainer_node.storage.store import Store

from ..desk import TERMS, Remembered, tiny_package, until
from ..sent import CONTRACTS, moves_of_match

ME, LIAR = (to_checksum_address("0x" + byte * 20) for byte in ("aa", "bb"))
POSTED = 1000


class Table:
    """My honest run against a liar's root, and the player in their match."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "own", sync=False)
        self.replay = Replay(tiny_package(), repops.backend("cpu"), self.store, Remembered())
        claim = self.replay.train()
        leaves = list(self.replay.run_tree(0, 0, TERMS.steps).leaves)
        self.lie = Tree(Tag.RUN_TREE, [leaves[0], b"\1" * 32, b"\2" * 32])
        terms = MatchTerms(TERMS, 100, (ME, LIAR), match_id=1, roots=(claim.root, self.lie.root))
        state = opened(terms, POSTED)
        self.match = MatchInfo(1, 1, ME, state, terms)
        self.sent: list[list[Move]] = []
        fetcher = Fetcher(self.store, timeout_s=60.0, attempts=1, budget_s=60.0)
        opponents = Opponents(fetcher, patience_s=60.0)
        self.player = MatchPlayer(CONTRACTS.referee, opponents, threading.Event(), RoundPatience(60.0))

    def play(self, uris: list[str], now: int = POSTED + 1) -> list[str] | None:
        """Return the names of the moves that were sent; None if there were none."""
        group = Group(0, b"", b"", 1, 0, 0, 0, (0,))
        look = cast(Snapshot, SimpleNamespace(now=now))
        dues = self.player.due(look, Seat(self.match, 0, True, group, group), self.replay, uris)
        found = [moves_of_match(due.call) for due in dues]
        self.sent += found
        return [move.function for move in found[-1]] if found else None

    def accept(self, now: int = POSTED + 1) -> MatchState:
        """Let the chain accept what was sent last."""
        state = self.match.state
        for move in self.sent[-1]:
            after = apply(state, self.match.terms, move, ME, now)
            observe(self.match.log, state, move, after)
            state = after
        self.match = replace(self.match, state=state)
        return state


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_the_opponent_serves_expect_one_batch_to_the_refinement(table: Table, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.put_tree(table.lie)
    with ArtifactServer(other) as server:
        assert table.play([server.uri]) == ["descend", "refine"]
    state = table.accept()
    assert (state.phase, state.start, state.end) == (Phase.REFINE, 4, 8)
    assert table.play([]) is None, "the other side owes now"


def test_the_opponent_withholds_expect_my_half_and_then_silence(table: Table) -> None:
    assert table.play(["http://127.0.0.1:9"]) == ["reveal"]
    table.accept()
    assert table.play(["http://127.0.0.1:9"]) is None
    assert table.play([], now=POSTED + 100) is None, "the last second is in time"
    assert table.play([], now=POSTED + 101) == ["timeout"]


def test_an_old_look_repeats_a_move_for_the_chain_to_refuse(table: Table) -> None:
    """With confirmations the state is older than the tip; the repetition costs only a simulation."""
    assert table.play([]) == table.play([]) == ["reveal"]
    assert table.sent[0] == table.sent[1]


def test_the_opponent_lies_about_his_tree_expect_my_half(table: Table, tmp_path: Path) -> None:
    other = Store(tmp_path / "other")
    other.put_tree(table.lie)
    path = other.find(Name(Kind.TREE, table.lie.root, table.lie.tag, 3))
    assert path is not None
    path.write_bytes(bytes(96))
    with ArtifactServer(other) as server:
        assert table.play([server.uri]) == ["reveal"]


def test_the_endpoint_hides_what_was_posted_expect_moves_that_need_it_not_and_then_an_error(
    table: Table, tmp_path: Path
) -> None:
    """The cause may be a machine that is behind; meanwhile we play on."""
    state = table.match.state
    table.match = replace(table.match, state=replace(state, posted=0b10), hidden="no event")
    assert table.play([]) == ["reveal"]
    table.match = replace(table.match, state=replace(state, posted=0b11))
    with pytest.raises(RpcCorrupt, match="no event"):
        table.play([])
    other = Store(tmp_path / "other")
    other.put_tree(table.lie)
    with ArtifactServer(other) as server:
        assert table.play([server.uri]) == ["descend", "refine"]


def test_the_panel_hears_expect_the_tensors_published(table: Table) -> None:
    state = replace(table.match.state, phase=Phase.HEARING, start=6, end=7, index=8, height=0, level=3)
    table.match = replace(table.match, state=state)
    record = table.replay.record(7, 8)
    tensors = [Name(Kind.TENSOR, tensor) for tensor in (*record.inputs, *record.outputs)]
    for tensor in tensors:
        table.store.forget(tensor)
    assert table.play([]) is None
    assert all(map(table.store.has, tensors))
    assert table.play([], now=POSTED + 200) is None, "nobody owes a move: the panel ends it"


def test_moves_are_computed_beside_the_loop_and_sent_once_they_are_there(table: Table) -> None:
    """A move may take an interval of the run. Meanwhile the loop does what is due elsewhere."""
    go, threads = threading.Event(), set[int]()
    tree = table.replay.run_tree

    def slow(level: int, start: int, end: int) -> Tree:
        threads.add(threading.get_ident())
        assert go.wait(60)
        return tree(level, start, end)

    table.replay.run_tree = slow  # type: ignore[method-assign]
    table.player = impatient(table)
    assert table.play([]) is None
    assert table.play([]) is None, "it is still computed"
    go.set()
    assert until(lambda: table.play([])) == ["reveal"]
    assert threading.get_ident() not in threads


def test_a_match_that_goes_on_meanwhile_expect_the_moves_of_its_new_state(
    table: Table, tmp_path: Path
) -> None:
    go = threading.Event()
    tree = table.replay.run_tree

    def slow(level: int, start: int, end: int) -> Tree:
        assert go.wait(60)
        return tree(level, start, end)

    table.replay.run_tree = slow  # type: ignore[method-assign]
    table.player = impatient(table)
    assert table.play([]) is None
    table.match = replace(table.match, state=replace(table.match.state, posted=0b01))
    go.set()
    until(lambda: not table.player._drafts.busy((1, 1, 0)))
    assert table.play([]) is None, "our half is there, and the other side's is not"
    other = Store(tmp_path / "other")
    other.put_tree(table.lie)
    with ArtifactServer(other) as server:
        assert until(lambda: table.play([server.uri])) == ["descend", "refine"]


def test_nothing_is_kept_of_a_match_that_is_over(table: Table) -> None:
    table.player = impatient(table)
    assert table.play([]) is None
    table.player.forget(2)
    table.player.forget(1, but=[1])
    assert table.player._drafts.known() == [(1, 1, 0)]
    table.player.forget(1)
    assert table.player._drafts.known() == []


def impatient(table: Table) -> MatchPlayer:
    """Return a player that never waits for what it computes."""
    old = table.player
    return MatchPlayer(old._referee, old._opponents, threading.Event(), RoundPatience(0.0))
