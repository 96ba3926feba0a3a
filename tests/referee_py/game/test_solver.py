"""The solver against every kind of liar: the honest side wins with programs of every shape."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from referee_py.game.state import Descend, Phase, Refine, Reveal
from referee_py.walk.reason import Reason

from .play import Contestant, Table
from .synthetic import LIES, Graph, random_graph
from .synthetic_run import Lie, Run, random_lie

REASONS = {
    "output": {Reason.OPERATOR},
    "input": {
        Reason.INPUT_CHECKPOINT,
        Reason.INPUT_NODE,
        Reason.INPUT_CONSTANT,
        Reason.INPUT_STEP,
    },
    "structure": {Reason.STRUCTURE},
    "log": {Reason.STRUCTURE, Reason.LOG},
    "arity": {Reason.STRUCTURE},
    "step padding": {Reason.PADDING},
    "run padding": {Reason.PADDING},
    "checkpoint": {Reason.TIMEOUT},
    "bogus refine": set(Reason),  # a second lie decides when and how it is found
}


def _match(rng: Random, lies: tuple[Lie, ...], graph: Graph, **liar: bool) -> tuple[Table, int] | None:
    """A table with an honest player at a random side, or None if the lies do not show in the root."""
    honest, forged = Run(graph), Run(graph, lies)
    if honest.root == forged.root:
        return None
    side = rng.randrange(2)
    seats = (Contestant(honest, serves=rng.random() < 0.5), Contestant(forged, **liar))
    return Table(graph, seats if side == 0 else (seats[1], seats[0]), rng), side


@pytest.mark.parametrize("kind", LIES)
@pytest.mark.parametrize("liar_serves", [True, False], ids=["served", "withheld"])
@pytest.mark.parametrize("rounded", [False, True], ids=["repops-f32", "rounded-f64"])
def test_attack_with_a_lie_expect_the_liar_loses(kind: str, liar_serves: bool, rounded: bool) -> None:
    rng = Random(f"{kind}{liar_serves}{rounded}")
    found = set()
    for _ in range(60):
        graph = random_graph(rng, rounded=rounded)
        lie = random_lie(rng, graph)
        lies: tuple[Lie, ...] = (Lie(kind, lie.step, lie.node, lie.k, lie.seed),)
        if kind == "bogus refine":
            lies += (random_lie(rng, graph),)
        if (made := _match(rng, lies, graph, serves=liar_serves)) is None:
            continue
        table, honest = made
        end = table.play()
        assert end.losers == 1 << (1 - honest), (graph, lies, table.history)
        assert end.reason in REASONS[kind], (graph, lies)
        found.add(end.reason)
    assert found, "no lie of this kind showed"
    if kind == "log":
        assert found == {Reason.LOG if rounded else Reason.STRUCTURE}


@pytest.mark.parametrize("liar", ["silent", "reluctant"])
def test_attack_by_silence_expect_timeout_or_judgement_against_the_liar(liar: str) -> None:
    rng = Random(liar)
    for _ in range(150):
        graph = random_graph(rng, rounded=rng.random() < 0.5)
        lies = tuple(random_lie(rng, graph) for _ in range(rng.randint(1, 3)))
        options = {"silent": True} if liar == "silent" else {"concede": False}
        made = _match(rng, lies, graph, serves=False, **options)
        if made is None:
            continue
        table, honest = made
        end = table.play()
        assert end.losers == 1 << (1 - honest), (graph, lies, table.history)
        assert min(end.clock) >= 0


def test_two_liars_expect_an_end_and_at_least_one_loser() -> None:
    rng = Random("two liars")
    for _ in range(150):
        graph = random_graph(rng, rounded=rng.random() < 0.5)
        runs = [Run(graph, tuple(random_lie(rng, graph) for _ in range(2))) for _ in range(2)]
        if runs[0].root == runs[1].root:
            continue
        seats = tuple(
            Contestant(run, serves=rng.random() < 0.5, silent=rng.random() < 0.2, concede=rng.random() < 0.5)
            for run in runs
        )
        table = Table(graph, seats, rng)  # type: ignore[arg-type]
        end = table.play()
        assert end.losers
        assert table.now - 1_000_000 <= 2 * 100 + 1


def test_both_served_expect_one_transaction_for_each_refinement() -> None:
    graph = random_graph(Random(1), nodes=20, steps=27, strides=(9, 3, 1))
    players = (Contestant(Run(graph)), Contestant(Run(graph, (Lie("structure", 18, 7),))))
    table = Table(graph, players, Random(2))
    assert [type(move) for move in table.moves(0)] == [Descend, Refine]
    table.play()
    kinds = [type(move).__name__ for move in table.history]
    refinement = ["Refine", "Refine", "Descend"]
    assert kinds == ["Descend", *refinement, *refinement, "Descend", "JudgeStructure"]


def test_opponent_withholds_expect_own_half_published_once() -> None:
    graph = random_graph(Random(3), nodes=20, steps=200, strides=(1,))
    players = (
        Contestant(Run(graph), serves=False),
        Contestant(Run(graph, (Lie("output", 150, 7),)), serves=False),
    )
    table = Table(graph, players, Random(4))
    (move,) = table.moves(0)
    assert isinstance(move, Reveal)
    assert len(move.children) == 16
    table.apply(move, table.terms.players[0])
    assert table.moves(0) == [], "it owes nothing now"
    assert isinstance(table.moves(1)[0], Descend), "the other side knows both halves"
    table.apply(table.moves(1)[0], table.terms.players[1])
    assert table.state.height == 4


def test_late_opponent_expect_timeout_and_nothing_when_late_oneself() -> None:
    graph = random_graph(Random(5), nodes=8, steps=9, strides=(1,))
    players = (
        Contestant(Run(graph), serves=False),
        Contestant(Run(graph, (Lie("output", 2, 1),)), serves=False),
    )
    table = Table(graph, players, Random(6))
    table.apply(table.moves(0)[0], table.terms.players[0])
    table.now += 101
    assert [move.function for move in table.moves(0)] == ["timeout"]
    assert table.moves(1) == []
    table.apply(table.moves(0)[0], table.terms.players[0])
    assert (table.state.phase, table.state.losers) == (Phase.DONE, 0b10)


def test_liar_that_does_not_concede_expect_silence_at_its_last_move() -> None:
    graph = random_graph(Random(7), nodes=5, steps=4, strides=(1,))
    forged = Run(graph, (Lie("structure", 2, 1),))
    table = Table(graph, (Contestant(Run(graph)), Contestant(forged, concede=False)), Random(8))
    moves = table.moves(1)
    assert moves
    for move in moves:
        table.apply(move, table.terms.players[1])
    assert table.state.phase is Phase.OPEN
    assert table.moves(1) == []
    assert [move.function for move in table.moves(0)] == ["judgeStructure"]


def test_logs_unknown_expect_no_judgement_of_them() -> None:
    graph = random_graph(Random(9), nodes=5, steps=4, strides=(1,), rounded=True)
    table = Table(graph, (Contestant(Run(graph)), Contestant(Run(graph, (Lie("log", 2, 1),)))), Random(10))
    table.terms = replace(table.terms, logs=bytes(32))  # of a trainer whose logs nobody can prove
    moves = table.moves(0)
    assert moves
    assert "judgeLog" not in [move.function for move in moves]


def test_logs_and_inputs_differ_expect_the_input_judged_first() -> None:
    graph = next(
        g
        for g in (random_graph(Random(k), nodes=5, steps=4, strides=(1,), rounded=True) for k in range(99))
        if g.operands[1]
    )
    lies = (Lie("input", 2, 1), Lie("log", 2, 1))
    table = Table(graph, (Contestant(Run(graph)), Contestant(Run(graph, lies))), Random(10))
    assert [move.function for move in table.moves(0)][-1] == "judgeInput"
