"""Moves that the rules refuse are refused by the contract, for the same reason and without a trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from eth_utils.crypto import keccak
from web3.exceptions import ContractCustomError

from referee_py.commit import structs
from referee_py.element import NO_ENTRY
from referee_py.errors import InvalidProof
from referee_py.rounding import NOT_LOGGED, UP, Log, Rounding
from referee_py.rounding.blocks import BLOCK
from referee_py.rounding.entries import WRITTEN
from referee_py.trial import (
    NO_BLOCK,
    NOT_SHOWN,
    Answer,
    Compare,
    Inputs,
    JudgeStep,
    Move,
    NodesDescend,
    NodesReveal,
    Opening,
    Post,
    ShowLeaf,
    ShowOutputs,
    Stage,
    Timeout,
    TrialState,
    apply,
    open_trial,
)
from referee_py.trial.solver import plan
from referee_py.walk.clock import owing
from referee_py.walk.descent import Descent
from referee_py.walk.refusals import Refusal
from tests.referee_py.rounding.logs import log_of
from tests.referee_py.rounding.test_blocks import words
from tests.referee_py.trial import logged
from tests.referee_py.trial.logged import tie, told
from tests.referee_py.trial.parties import Known, Setting, outputs_of
from tests.support.planned import moves_of
from trainer_node.chain.codec.trial import trial_call

from .stand import Stand

CLOCK = 1000
REFUSALS = {
    *(
        "WrongStage",
        "NoSuchSide",
        "AlreadyShown",
        "NotPlayer",
        "AnotherHash",
        "AnotherInput",
        "LeafTooLong",
        "WrongInputCount",
    ),
    *("BadStates", "NoSuchPlace", "OutsideTensor", "NotOpened", "NotTaken", "NotTooLate", "StateNotNeeded"),
    *("BadDescent", "PathsDiffer", "ChildOutOfRange", "NoDifference", "WrongChildCount", "a proof"),
}
PROOFS = {"WrongPathLength", "PathMismatch", "IndexOutOfTree"}


def other(value: bytes) -> bytes:
    return bytes([value[0] ^ 1, *value[1:]])


def strangers() -> Iterator[Move]:
    """Yield a move of each stage, of another operator."""
    hash_, opening = bytes([7]) * 32, Opening(0, 0, b"1234", ())
    yield ShowOutputs((hash_, NOT_SHOWN))
    yield ShowOutputs((NOT_SHOWN, NOT_SHOWN))
    yield NodesReveal(1, (hash_,))
    yield NodesDescend(Descent(0, hash_, (), other(hash_), ()))
    yield ShowLeaf(1, b"1234")
    yield Compare(b"1234", b"5678", Inputs(b"", ()))
    yield Post(b"")
    yield Answer(b"", 0, b"")
    yield JudgeStep(Inputs(b"", ()), b"", (opening,))
    yield Timeout()


def spoiled(state: TrialState, move: Move) -> Iterator[Move]:
    """Yield variations of a good move, which the rules refuse."""
    match move:
        case ShowOutputs():
            first, second = move.roots
            yield ShowOutputs((second, first))
            yield ShowOutputs((other(first), other(second)))
            yield ShowOutputs((max(move.roots), max(move.roots)))
        case NodesReveal():
            yield from (replace(move, side=3), replace(move, children=move.children[:-1]))
            yield replace(move, children=(other(move.children[0]), *move.children[1:]))
        case NodesDescend():
            way = move.way
            yield NodesDescend(replace(way, child=way.child + 1))
            yield NodesDescend(replace(way, child=way.child + (1 << len(way.path0))))
            yield NodesDescend(replace(way, node1=way.node0))
            yield NodesDescend(replace(way, node0=other(way.node0)))
            yield NodesDescend(replace(way, path0=way.path0[:-1]))
            yield NodesDescend(replace(way, path0=way.path0[:1], path1=way.path1[:1]))
            yield NodesDescend(replace(way, path0=(*way.path0, way.node0), path1=(*way.path1, way.node0)))
        case ShowLeaf():
            yield from (
                replace(move, leaf=move.leaf + b"1"),
                replace(move, leaf=bytes(1025)),
                replace(move, side=9),
            )
        case Compare():
            yield replace(move, leaf0=move.leaf1)
            tensors = move.inputs.tensors()
            yield replace(move, inputs=Inputs.of(tensors[:-1]))
            yield replace(move, inputs=Inputs.of((replace(tensors[0], root=bytes(32)), *tensors[1:])))
        case Post():
            yield from (Post(move.states + b"1"), Post(move.states[:-1]))
        case Answer():
            yield replace(move, states=other(move.states))
            yield replace(move, place=len(move.states) // state.state_bytes + 1)
            yield replace(move, own=move.own[:-1] if move.own else b"1")
            yield replace(move, place=len(move.states) // state.state_bytes, own=b"1")
            if move.own:
                start = move.place * state.state_bytes
                yield replace(move, own=move.states[start : start + state.state_bytes])
        case JudgeStep():
            opening = move.openings[0]
            yield replace(move, agreed=other(move.agreed))
            yield replace(move, openings=move.openings[1:])
            yield replace(move, openings=(*move.openings, opening))
            yield replace(move, openings=(replace(opening, input=200), *move.openings[1:]))
            yield replace(move, openings=(replace(opening, element=1 << 50), *move.openings[1:]))
            yield replace(move, openings=(replace(opening, leaf=other(opening.leaf)), *move.openings[1:]))
            yield replace(move, openings=(replace(opening, path=opening.path[:-1]), *move.openings[1:]))
            yield replace(move, inputs=Inputs(b"", ()))


def error_names(stand: Stand) -> dict[str, str]:
    """Return the errors by their selectors, as hexadecimal digits."""
    return {
        keccak(text=f"{e['name']}({','.join(i['type'] for i in e['inputs'])})")[:4].hex(): e["name"]
        for e in stand.errors()
    }


class Table:
    """One trial on the chain and in the Python rules."""

    def __init__(self, stand: Stand, setting: Setting) -> None:
        self.stand, self.setting = stand, setting
        self.trial = stand.open(setting, CLOCK)
        players = stand.players[0], stand.players[1]
        self.state = open_trial(setting.dispute, players, (CLOCK, CLOCK), stand.now())
        self.names = error_names(stand)
        self.seen = set[str]()

    def to(self, stage: Stage, known: list[Known]) -> Iterator[int]:
        """Play to this stage, and yield the sides that owe a move there."""
        while self.state.stage is not stage:
            for side in (0, 1):
                sides, now = self.setting.sides, self.stand.now()
                for move in moves_of(
                    plan(self.state, self.setting.dispute, side, sides[side], known[side], now)
                ):
                    if self.state.stage is stage:
                        break
                    self.stand.send(self.trial, self.setting.dispute, self.state, [move], side)
                    self.state = apply(
                        self.state, self.setting.dispute, move, self.stand.players[side], self.stand.now()
                    )
        yield from (side for side in (0, 1) if owing(self.state) >> side & 1)

    def by_rules(self, move: Move, side: int) -> str | None:
        try:
            apply(self.state, self.setting.dispute, move, self.stand.players[side], self.stand.now())
        except Refusal as refusal:
            return type(refusal).__name__
        except InvalidProof:
            return "a proof"
        return None

    def by_contract(self, move: Move, side: int) -> str | None:
        name, given = trial_call(move, self.trial, self.setting.dispute, self.state)
        call = self.stand.court.get_function_by_name(name)(*given)
        try:
            call.call({"from": self.stand.players[side]})
        except ContractCustomError as error:
            found = self.names[str(error.data)[2:10]]
            return "a proof" if found in PROOFS else found
        return None

    def compare(self, move: Move) -> None:
        for side in (0, 1):
            want, found = self.by_rules(move, side), self.by_contract(move, side)
            # NOTE: if paths lead to no root, contract and rules may check different things first.
            assert found == want or {found, want} == {"a proof", "AnotherHash"}, (move, side)
            self.seen |= {want} if want else set()


@pytest.mark.parametrize("honest", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_contract_and_rules_refuse_alike(stand: Stand, honest: int) -> None:
    rng = np.random.default_rng(honest)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((70, 700), (700, 90))]
    setting = Setting.of("mm", inputs, {}, 0.6, honest, 300)
    assert setting is not None
    table = Table(stand, setting)
    known = [Known(), Known()]
    while table.state.stage is not Stage.DONE:
        for side in (0, 1):
            now = table.stand.now()
            for move in moves_of(
                plan(table.state, setting.dispute, side, setting.sides[side], known[side], now)
            )[:1]:
                for bad in (*strangers(), *spoiled(table.state, move)):
                    table.compare(bad)
                table.stand.send(table.trial, setting.dispute, table.state, [move], side)
                table.state = apply(
                    table.state, setting.dispute, move, table.stand.players[side], table.stand.now()
                )
                if isinstance(move, NodesReveal):
                    known[1 - side].revealed = move.children
                if isinstance(move, ShowLeaf):
                    known[1 - side].shown = move.leaf
                if isinstance(move, (ShowOutputs, NodesReveal, ShowLeaf)) and not table.state.posted:
                    continue
                table.compare(move)
                table.stand.same(table.trial, table.state)
    assert table.state.losers == 2 - honest
    assert table.seen >= REFUSALS, REFUSALS - table.seen


@pytest.mark.parametrize("what", ["up", "silent"])
def test_only_the_elements_block_of_the_agreed_log_is_taken(stand: Stand, what: str) -> None:
    """Another block, an entry less or more, a path that is too short or leads elsewhere, another number of elements."""
    rng, rounding = np.random.default_rng(4), Rounding(32)
    case = next(logged.cases(rng, rounding, 5000))
    found = {name: (element, setting) for name, element, setting in logged.disputes(case, rounding, rng, 0)}
    element, setting = found[what]
    table, own = Table(stand, setting), setting.sides[0]
    known = [Known(setting.sides[1 - side].outputs) for side in (0, 1)]
    side = next(table.to(Stage.LEAF, known))
    good, *_ = moves_of(
        plan(table.state, setting.dispute, side, setting.sides[side], known[side], table.stand.now())
    )
    assert isinstance(good, Compare)
    block, elsewhere = good.log, own.block(0, (element + BLOCK) % 5000)
    bad = [
        elsewhere,
        replace(block, entries=elsewhere.entries),
        replace(block, entries=b""),
        replace(block, entries=block.entries + b"\0"),
        replace(block, entries=block.entries[:-2]),
        replace(block, path=elsewhere.path),
        replace(block, path=block.path[:-1]),
        replace(block, path=(*block.path, block.path[0])),
        replace(block, path=()),
        replace(block, elements=4999),
        replace(block, elements=1 << 63),
        replace(block, elements=0, path=()),
        NO_BLOCK,
    ]
    for shown in bad:
        assert shown != block
        table.compare(replace(good, log=shown))
        assert table.by_rules(replace(good, log=shown), side) in ("AnotherLog", "a proof")
    assert table.seen == {"AnotherLog", "a proof"}
    assert table.by_contract(good, side) is None


UP_AND = words((2, UP))
SAYS_NOTHING = {
    "an entry twice": UP_AND + words((2, UP)),
    "entries that descend": UP_AND + words((1, UP)),
    "a kind that is none": UP_AND + words((3, NOT_LOGGED)),
    "an entry beyond the output": UP_AND + words((40, UP)),
    "half an entry": UP_AND + b"\0",
    "half a value": UP_AND + words((3, WRITTEN)) + b"\0\0",
    "zeros behind it": UP_AND + bytes(2000),
}


@pytest.mark.parametrize("honest", [0, 1])
def test_a_log_with_a_block_that_is_none_says_nothing(
    stand: Stand, honest: int, subtests: pytest.Subtests
) -> None:
    """The liar follows the entry that its block seems to have, which alone would count."""
    case = tie(40)
    (plain,), (up,) = (
        outputs_of(case.name, case.inputs, case.attrs, Rounding(32).mode, log)
        for log in (None, log_of(40, {2: True}))
    )
    assert plain[2] != up[2]
    setting = told(case, Rounding(32), log_of(40, {2: True}), 2, float(plain[2]), honest)
    assert stand.play(setting, served=True).losers == 2 - honest, "an entry alone counts"
    for name, block in SAYS_NOTHING.items():
        with subtests.test(name):
            setting = told(case, Rounding(32), Log.empty(40), 2, float(up[2]), honest).with_block(40, block)
            assert stand.play(setting, served=True).losers == 2 - honest


@pytest.mark.parametrize("elements", [0, 39, 41, 1064, 1 << 39])
def test_a_log_of_another_number_of_elements_says_nothing(stand: Stand, elements: int) -> None:
    case, log = tie(40), log_of(elements, {2: True} if elements else {})
    (up,) = outputs_of(case.name, case.inputs, case.attrs, Rounding(32).mode, log_of(40, {2: True}))
    for honest in (0, 1):
        setting = told(case, Rounding(32), log, 2, float(up[2]), honest)
        result = stand.play(setting, served=True)
        assert (result.losers, result.state.entry) == (2 - honest, NO_ENTRY)


def test_who_is_late_loses_and_nothing_else_is_possible(stand: Stand) -> None:
    rng = np.random.default_rng(3)
    setting = Setting.of("mm", [rng.standard_normal((40, 40)).astype(np.float32)] * 2, {}, 0.6, 0, 300)
    assert setting is not None
    table = Table(stand, setting)
    (move,) = moves_of(plan(table.state, setting.dispute, 0, setting.sides[0], Known(), table.stand.now()))
    table.stand.send(table.trial, setting.dispute, table.state, [move], 0)
    table.state = apply(table.state, setting.dispute, move, table.stand.players[0], table.stand.now())
    table.stand.wait(CLOCK + 1)
    for bad in (move, *strangers()):
        table.compare(bad)
    assert "TooLate" in table.seen
    table.stand.send(table.trial, setting.dispute, table.state, [Timeout()], 0)
    assert tuple(table.stand.client.functions.results(table.stand.trials).call()) == (2, True)


def test_what_is_no_dispute_is_not_opened(stand: Stand) -> None:
    setting = Setting.of("exp", [np.zeros(3, np.float32)], {}, 0.5, 0)
    assert setting is not None
    (one, other_) = setting.dispute.records
    names = error_names(stand)
    for records, want in (
        ((one, replace(other_, log=bytes(31) + b"1")), "RecordsDiffer"),
        ((one, replace(other_, inputs=(bytes(32),))), "RecordsDiffer"),
        ((one, replace(other_, outputs=())), "RecordsDiffer"),
        ((one, one), "OutputsEqual"),
    ):
        dispute = replace(setting.dispute, records=records)
        with pytest.raises(Refusal) as refused:
            open_trial(dispute, (stand.players[0], stand.players[1]), (CLOCK, CLOCK), 0)
        assert type(refused.value).__name__ == want
        with pytest.raises(ContractCustomError) as reverted:
            stand.client.functions.open(1, stand.players, CLOCK, structs.words(dispute)).call()
        assert names[str(reverted.value.data)[2:10]] == want
    stand.open(setting)
    stand.trials -= 1
    with pytest.raises(ContractCustomError) as reverted:
        stand.open(setting)
    assert names[str(reverted.value.data)[2:10]] == "AlreadyOpen"
