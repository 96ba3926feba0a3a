"""The rules one guard at a time: the refusals of a match, the charges of the clocks, the decisions at an open node."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from referee_py.commit import Record
from referee_py.game.rules import apply, hearing_decided
from referee_py.game.solver import log_proof_of
from referee_py.game.state import (
    Descend,
    Evidence,
    Exhibit,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    LogProof,
    MatchState,
    Move,
    OpenRecord,
    Phase,
    Refine,
    Reveal,
    Submit,
    Timeout,
)
from referee_py.walk import clock
from referee_py.walk.descent import Descent
from referee_py.walk.reason import Reason
from referee_py.walk.sides import BOTH

from .play import START, Contestant, Table, refused
from .synthetic import PLAYERS, Graph, random_graph
from .synthetic_run import Lie, Run

STRANGER = "0x" + "EE" * 20


def table(*lies: Lie, **shape: object) -> Table:
    """Return a match of an honest side 0 against those lies of side 1; neither serves anything."""
    options: dict[str, object] = {"nodes": 20, "steps": 40, "strides": (1,), **shape}
    graph = random_graph(Random(7), **options)  # type: ignore[arg-type]
    players = (Contestant(Run(graph), serves=False), Contestant(Run(graph, lies), serves=False))
    return Table(graph, players, Random(0))


def walked(lie: Lie, phase: Phase, **shape: object) -> Table:
    """Return a match with one lie, played by both sides until it is in that phase."""
    game = table(lie, **shape)
    while game.state.phase is not phase:
        for side in (0, 1):
            for move in game.moves(side)[:1]:
                if game.state.phase is not phase:
                    game.apply(move, PLAYERS[side])
    return game


def refusal(game: Table, move: Move, sender: str = STRANGER, late: int = 0) -> str | None:
    return refused(game.state, game.terms, move, sender, game.now + late)


def descent(game: Table, child: int, levels: int | None = None) -> Descend:
    """Return the descent to that child in both trees."""
    state = game.state
    levels = state.height if levels is None else levels
    trees = [player.run.claim_tree for player in game.players]
    index, height = (state.index << levels) + child, state.height - levels
    halves = [(tree.node(height, index), tuple(tree.path(index, height, state.height))) for tree in trees]
    previous: tuple[bytes, ...] = (bytes(32),)
    if height == 0 and index:
        previous = (trees[0].node(0, index - 1), tuple(trees[0].path(index - 1)))  # type: ignore[assignment]
    return Descend(Descent(child, *halves[0], *halves[1]), *previous)  # type: ignore[arg-type]


# --- walk -------------------------------------------------------------------------------------------------------


def test_reveal_by_a_stranger_expect_accepted_because_the_hash_binds_it() -> None:
    game = table(Lie("output", 30, 3))
    move = game.moves(0)[0]
    assert isinstance(move, Reveal)
    assert refusal(game, move) is None
    assert refusal(game, replace(move, side=1)) == "WrongNode"
    assert refusal(game, replace(move, side=2)) == "BadSide"
    assert refusal(game, replace(move, children=move.children[:-1])) == "WrongChildCount"
    assert refusal(game, replace(move, children=move.children[::-1])) == "WrongNode"
    game.apply(move, STRANGER)
    assert refusal(game, move) == "AlreadyPosted"


def test_descend_to_a_later_difference_expect_refused() -> None:
    game = table(Lie("output", 11, 19), Lie("output", 30, 19))
    assert refusal(game, descent(game, 10)) is None
    assert refusal(game, descent(game, 29)) == "EarlierDifference"
    assert refusal(game, descent(game, 9)) == "NoDifference"


def test_descend_by_wrong_paths_expect_refused() -> None:
    game = table(Lie("output", 11, 19))
    move = descent(game, 10)
    way = move.way

    def changed(**changes: Any) -> Descend:
        return replace(move, way=replace(way, **changes))

    assert refusal(game, move) is None
    assert refusal(game, changed(path1=way.path1[:-1])) == "PathsDiffer"
    assert refusal(game, descent(game, 1, 3)) == "BadDescent"
    longer = changed(path0=(*way.path0, bytes(32)), path1=(*way.path1, bytes(32)))
    assert refusal(game, longer) == "BadDescent"
    assert refusal(game, changed(child=way.child + 64)) == "ChildOutOfRange"
    assert refusal(game, changed(child=way.child ^ 1)) == "WrongNode"
    assert refusal(game, changed(node0=bytes(32))) == "WrongNode"


def test_descend_with_a_wrong_previous_checkpoint_expect_refused() -> None:
    game = table(Lie("output", 11, 19))
    move = descent(game, 10)
    assert refusal(game, replace(move, previous=bytes(32))) == "PathMismatch"
    assert refusal(game, replace(move, previous_path=())) == "WrongPathLength"
    inner = replace(descent(game, 10 >> 2, 4), previous=move.previous)
    assert refusal(game, inner) == "PreviousNotNeeded"
    under_the_other_root = game.players[1].run.claim_tree.path(9)
    assert refusal(game, replace(move, previous_path=tuple(under_the_other_root))) is None


def test_refine_by_a_stranger_expect_refused() -> None:
    game = walked(Lie("output", 32, 19), Phase.REFINE, strides=(8, 1))
    (move,) = game.moves(0)
    assert isinstance(move, Refine)
    assert refusal(game, move) == "NotSpokesman"
    assert refusal(game, move, PLAYERS[1]) == "NotSpokesman"
    assert refusal(game, move, PLAYERS[0]) is None
    assert refusal(game, replace(move, root=bytes(32)), PLAYERS[0]) == "PathMismatch"
    assert refusal(game, Reveal(0, ()), PLAYERS[0]) == "WrongPhase"


def test_run_of_one_checkpoint_expect_match_opens_below_it() -> None:
    refining = table(Lie("output", 5, 19), steps=5, strides=(5, 1))
    assert (refining.state.phase, refining.state.level) == (Phase.REFINE, 0)
    stepping = table(Lie("output", 1, 19), steps=1)
    assert (stepping.state.phase, stepping.state.level, stepping.state.height) == (Phase.WALK, 1, 5)
    opened = table(Lie("output", 1, 0), steps=1, nodes=1)
    assert opened.state.phase is Phase.OPEN


# --- clocks -----------------------------------------------------------------------------------------------------


def test_move_in_the_last_second_expect_accepted_and_a_second_later_late() -> None:
    game = table(Lie("output", 30, 3))
    move = game.moves(0)[0]
    assert refusal(game, move, late=100) is None
    assert refusal(game, Timeout(), late=100) == "NotLate"
    assert refusal(game, move, late=101) == "Late"
    assert refusal(game, Timeout(), late=101) is None


def test_timeout_claimed_late_expect_the_same_loser() -> None:
    game = table(Lie("output", 30, 3))
    game.now += 3
    game.apply(game.moves(1)[0], PLAYERS[1])  # side 0 has 97 seconds left, and so has side 1
    for delay in (98, 99, 1000):
        end = apply(game.state, game.terms, Timeout(), STRANGER, game.now + delay)
        assert (end.losers, end.reason) == (0b01, Reason.TIMEOUT)


def test_both_silent_expect_both_lose() -> None:
    game = table(Lie("output", 30, 3))
    end = apply(game.state, game.terms, Timeout(), STRANGER, game.now + 101)
    assert end.losers == BOTH


def test_charge_expect_only_who_owes_pays_and_time_is_conserved() -> None:
    game = table(Lie("output", 30, 3))
    game.now += 5
    game.apply(game.moves(0)[0], PLAYERS[0])
    assert game.state.clock == (95, 95)
    game.now += 7
    game.apply(game.moves(1)[0], PLAYERS[1])
    assert game.state.clock == (95, 88), "side 0 had posted, so only side 1 owed"
    assert game.state.tick == START + 12
    assert clock.deadline(game.state, 1) == START + 12 + 88


# --- open -------------------------------------------------------------------------------------------------------


def _exhibit(game: Table) -> Exhibit:
    state = game.state
    records = [player.run.record(state.end, state.index) for player in game.players]
    path = tuple(game.graph.structure_path(state.index))
    first, second = records
    return Exhibit(first, second, game.graph.structure(state.index), path)  # type: ignore[arg-type]


def test_wrong_case_expect_refused() -> None:
    output = walked(Lie("output", 30, 19), Phase.OPEN)
    exhibit = _exhibit(output)
    assert refusal(output, JudgeStructure(exhibit)) == "WellFormed"
    assert refusal(output, Submit(exhibit)) is None
    assert refusal(output, Submit(replace(exhibit, structure=b"\0\0\0\0"))) == "PathMismatch"
    assert refusal(output, Submit(replace(exhibit, record0=exhibit.record1))) == "WrongNode"
    malformed = walked(Lie("structure", 30, 19), Phase.OPEN)
    exhibit = _exhibit(malformed)
    assert refusal(malformed, Submit(exhibit)) == "Malformed"
    assert refusal(malformed, JudgeInput(exhibit, Evidence(0))) == "Malformed"
    assert refusal(malformed, JudgeStructure(exhibit)) is None


def test_input_differs_expect_the_operator_cannot_be_submitted() -> None:
    operands = table(Lie("output", 30, 19)).graph.operands
    node = next(k for k, sources in enumerate(operands) if len(sources) > 1)
    game = walked(Lie("input", 30, node), Phase.OPEN)
    exhibit = _exhibit(game)
    equal = next(
        k
        for k, (a, b) in enumerate(zip(exhibit.record0.inputs, exhibit.record1.inputs, strict=True))
        if a == b
    )
    assert refusal(game, Submit(exhibit)) == "InputsDiffer"
    assert refusal(game, JudgeInput(exhibit, Evidence(equal))) == "InputsEqual"
    assert refusal(game, JudgeInput(exhibit, Evidence(200))) == "NoSuchInput"


def test_logs_differ_expect_the_jobs_log_and_only_by_its_whole_path() -> None:
    game = walked(Lie("log", 30, 18), Phase.OPEN, rounded=True)
    exhibit, proof = _exhibit(game), log_proof_of(game.players[0].run, game.state)
    assert proof is not None
    move = JudgeLog(exhibit, proof)
    assert refusal(game, Submit(exhibit)) == "LogsDiffer"
    assert refusal(game, JudgeStructure(exhibit)) == "WellFormed"
    assert refusal(game, replace(move, proof=replace(proof, log=exhibit.record1.log))) == "PathMismatch"
    assert refusal(game, replace(move, proof=replace(proof, step_root=bytes(32)))) == "PathMismatch"
    assert (
        refusal(game, replace(move, proof=replace(proof, step_path=proof.step_path[1:]))) == "WrongPathLength"
    )
    assert (
        refusal(game, replace(move, proof=replace(proof, node_path=proof.node_path[1:]))) == "WrongPathLength"
    )
    other = game.graph.log_tree(29)  # the log of another step, in its own place
    assert other is not None
    elsewhere = replace(proof, step_root=other.root, log=other.leaves[18], node_path=tuple(other.path(18)))
    assert refusal(game, replace(move, proof=elsewhere)) == "PathMismatch"
    game.apply(move, STRANGER)
    assert (game.state.losers, game.state.reason) == (0b10, Reason.LOG)


def test_two_wrong_logs_expect_both_lose() -> None:
    game = walked(Lie("log", 30, 18), Phase.OPEN, rounded=True)
    graph = game.graph
    runs = [Run(graph, (Lie("log", 30, 18, 0, seed),)) for seed in (1, 2)]
    both = Table(graph, (Contestant(runs[0]), Contestant(runs[1])), Random(0))
    end = both.play()
    assert (end.losers, end.reason) == (BOTH, Reason.LOG)


def test_logs_equal_expect_nothing_to_judge() -> None:
    game = walked(Lie("output", 30, 18), Phase.OPEN, rounded=True)
    proof = log_proof_of(game.players[0].run, game.state)
    assert proof is not None
    assert refusal(game, JudgeLog(_exhibit(game), proof)) == "LogsEqual"
    assert refusal(game, Submit(_exhibit(game))) is None


def test_log_in_a_mode_without_logs_expect_malformed() -> None:
    game = walked(Lie("log", 30, 18), Phase.OPEN)
    move = JudgeLog(_exhibit(game), LogProof(bytes(32), bytes(32), (), ()))
    assert refusal(game, move) == "Malformed"


def _insane(operand: bytes) -> Table:
    """Return a match about the only input of a node, to which a malicious client has given this operand."""
    sane = random_graph(Random(9), nodes=4, steps=1, strides=(1,))
    structure = b"\0\1\1\1" + operand + sane.structures[0][4:]
    graph = Graph(
        sane.seed, (structure, *sane.structures[1:]), sane.slots, sane.constants, sane.initial, 1, (1,)
    )
    game = Table(graph, (Contestant(Run(graph)), Contestant(Run(graph, (Lie("input", 1, 0),)))), Random(0))
    for move in game.moves(0):
        game.apply(move, PLAYERS[0])
    assert game.state.phase is Phase.OPEN, "the solver finds no way on, and does not fail"
    return game


@pytest.mark.parametrize(
    ("operand", "expected"),
    [
        (b"\x00\0\0\0\x00\0", "ForwardReference"),
        (b"\x00\0\0\0\x02\0", "ForwardReference"),
        (b"\x09\0\0\0\0\0", "UnknownOperand"),
    ],
)
def test_unsound_program_expect_no_judgement(operand: bytes, expected: str) -> None:
    game = _insane(operand)
    assert refusal(game, JudgeInput(_exhibit(game), Evidence(0))) == expected


def test_slot_that_does_not_exist_expect_no_proof() -> None:
    game = _insane(b"\x01\0\0\xff\0\0")
    depth = max(len(game.graph.slots) - 1, 0).bit_length()
    evidence = Evidence(0, source_path=(bytes(32),) * depth)
    assert refusal(game, JudgeInput(_exhibit(game), evidence)) == "IndexOutOfTree"


def test_source_without_such_an_output_expect_zero_is_the_truth_and_both_lose() -> None:
    structures = [b"\0\1\0\1", b"\0\1\1\1" + b"\0\0\0\0\0\x05"]
    graph = Graph(1, tuple(structures), (), (), (), 1, (1,))
    runs = [Run(graph, (Lie("input", 1, 1, 0, seed),)) for seed in (1, 3)]
    game = Table(graph, (Contestant(runs[0]), Contestant(runs[1])), Random(0))
    for move in game.moves(0):
        game.apply(move, PLAYERS[0])
    assert (game.state.losers, game.state.reason) == (BOTH, Reason.INPUT_NODE)


def test_open_with_another_record_expect_refused() -> None:
    game = walked(Lie("output", 30, 19), Phase.OPEN)
    records = [player.run.record(game.state.end, game.state.index) for player in game.players]
    assert isinstance(records[0], Record)
    assert isinstance(records[1], Record)
    assert refusal(game, OpenRecord(0, records[1])) == "WrongNode"
    assert refusal(game, OpenRecord(1, records[1])) is None


def test_submitted_expect_no_clock_runs_and_no_move_but_the_panels_end() -> None:
    game = walked(Lie("output", 30, 19), Phase.OPEN)
    game.apply(game.moves(0)[0] if game.state.posted else OpenRecord(0, _exhibit(game).record0), STRANGER)
    exhibit = _exhibit(game)
    game.apply(Submit(exhibit), STRANGER)
    assert (game.state.phase, game.state.posted, clock.owing(game.state)) == (Phase.HEARING, 0, 0)
    assert refusal(game, Submit(exhibit)) == "WrongPhase"
    assert refusal(game, OpenRecord(0, exhibit.record0)) == "WrongPhase"
    assert refusal(game, Timeout(), late=10**6) == "NotLate"
    assert game.moves(0) == game.moves(1) == []
    end: MatchState = hearing_decided(game.state, 0b10, Reason.OPERATOR)
    assert (end.phase, end.losers, end.reason) == (Phase.DONE, 0b10, Reason.OPERATOR)
