"""Messages go to calldata and logs, and come back equal; a name or a type that no contract has is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from enum import IntEnum
from random import Random
from types import new_class
from typing import Any, ClassVar, get_args

import pytest
from eth_abi.abi import encode
from eth_utils.abi import collapse_if_tuple, event_abi_to_log_topic
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from web3 import Web3
from web3.contract import Contract

from referee_py.availability import Place
from referee_py.availability.state import RESPONSES
from referee_py.commit import MAX_INPUTS, MAX_OUTPUTS, Record
from referee_py.commit.structs import hints_of, value_of, words
from referee_py.errors import InvalidEncoding
from referee_py.game.calldata import match_terms
from referee_py.game.state import MOVES as MATCH_MOVES
from referee_py.game.state import MatchState, MatchTerms, Phase
from referee_py.panel.state import MOVES as HEARING_MOVES
from referee_py.program.terms import Terms
from referee_py.trial import Compare, Inputs, JudgeStep, Stage, TrialState
from referee_py.trial.state import MOVES as TRIAL_MOVES
from referee_py.walk.dispute import Dispute, TrialTerms
from trainer_node.chain.abi import abi_entry, load_artifact
from trainer_node.chain.codec import availability, clock, hearing, job, match, trial
from trainer_node.chain.codec.base import Calls, Fold, View, calls_in, known
from trainer_node.chain.coders import event_coders
from trainer_node.chain.events import Event
from trainer_node.errors import ConfigError, RpcCorrupt

SEEDS = range(12)
SHOWN: Any = match.ShownTerms
SUBJECT: Any = availability.Subject
FOLDS: list[tuple[str, type[Fold]]] = [
    ("Referee", match.History),
    ("Panel", hearing._Told),
    ("Court", trial._Told),
    ("DataAvailability", availability.Ledger),
    ("Timekeeper", clock.Pauses),
]


def contract(name: str) -> Contract:
    made: Any = Web3().eth.contract(
        address=to_checksum_address("0x" + "12" * 20), abi=load_artifact(name).abi, decode_tuples=True
    )
    return made


CONTRACTS = {name: contract(name) for name in ("Jobs", *(name for name, _ in FOLDS))}


class Maker:
    """Makes values of a kind that an ABI can code: the least, the greatest, and any others."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.sizes = [(0,), (1,), (40,)][seed] if seed < 3 else (0, 1, 2, 3, 8)

    def value(self, kind: Any, entry: Mapping[str, Any], type_: str | None = None) -> Any:
        name = type_ or entry["type"]
        if kind is Record:
            return self._record()
        if kind is Inputs:
            return Inputs(self.rng.randbytes(self.rng.choice(self.sizes)), self._hashes(9))
        if name.endswith("]"):
            inner, args = name[:-1].rpartition("[")[0], get_args(kind)
            kinds = args[:1] * self.rng.choice(self.sizes) if args[1:] == (...,) else args
            return tuple(self.value(one, entry, inner) for one in kinds)
        if name == "tuple":
            kinds = tuple(hints_of(kind).values()) if is_dataclass(kind) else get_args(kind)
            parts = [self.value(*pair) for pair in zip(kinds, entry["components"], strict=True)]
            return kind(*parts) if is_dataclass(kind) else tuple(parts)  # type: ignore[operator]
        if isinstance(kind, type) and issubclass(kind, IntEnum):
            return self.rng.choice(list(kind))
        return self._plain(name)

    def message(self, kind: Any, contract: str, shown: Sequence[str]) -> Any:
        """Return a message of the contract's function, of which ``shown`` are other arguments."""
        inputs = abi_entry(contract, "function", kind.function)["inputs"]
        own = [entry for entry in inputs if entry["name"] not in shown]
        hints = list(hints_of(kind).values())
        if len(own) == 1 and own[0]["type"] == "tuple" and len(own[0]["components"]) == len(hints):
            own = own[0]["components"]
        return kind(*(self.value(*pair) for pair in zip(hints, own, strict=True)))

    def _plain(self, name: str) -> Any:
        if name.startswith("uint"):
            most = (1 << int(name.removeprefix("uint"))) - 1
            return self.rng.choice((0, 1, most, self.rng.randint(0, most)))
        match name:
            case "address":
                return to_checksum_address(self.rng.randbytes(20))
            case "bool":
                return self.rng.random() < 0.5
            case "bytes32":
                return self.rng.choice((bytes(32), self.rng.randbytes(32)))
            case "bytes":
                return self.rng.randbytes(self.rng.choice(self.sizes) * 31)
            case "string":
                return "ä" * self.rng.choice(self.sizes)
        raise AssertionError(name)

    def _hashes(self, most: int) -> tuple[bytes, ...]:
        count = self.rng.choice((0, 1, most))
        return tuple(self.rng.randbytes(32) for _ in range(count))

    def _record(self) -> Record:
        inputs, outputs = self._hashes(MAX_INPUTS), self._hashes(MAX_OUTPUTS)
        return Record(
            self.rng.randbytes(32), inputs, outputs, self.rng.choice((bytes(32), self.rng.randbytes(32)))
        )

    def struct(self, kind: Any, contract: str, function: str, name: str) -> Any:
        inputs = abi_entry(contract, "function", function)["inputs"]
        return self.value(kind, next(entry for entry in inputs if entry["name"] == name))


def sent(name: str, function: str, given: Sequence[object], *, batched: bool = True) -> tuple[str, list[Any]]:
    """Return the function and arguments as they are read from calldata, alone and in a batch."""
    data = CONTRACTS[name].encode_abi(function, given)
    found = list(calls_in(CONTRACTS[name], HexBytes(data)))
    if batched:
        batch = CONTRACTS[name].encode_abi("multicall", [[data, data]])
        assert list(calls_in(CONTRACTS[name], HexBytes(batch))) == found * 2
    return found[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_of_a_match_come_back(seed: int) -> None:
    maker = Maker(seed)
    shown: Any = maker.struct(match.ShownTerms, "Referee", "submit", "matchTerms")
    roots, players, seconds, number, program = shown
    terms = MatchTerms(program, seconds, players, maker.rng.getrandbits(256), bytes(32), roots, number)
    assert value_of(SHOWN, match_terms(terms)) == shown
    pair = maker._hashes(9)[:1] * 2 or (bytes(32), bytes(32))
    state: Any = MatchState(Phase.OPEN, 0, 0, 0, 0, 0, 1, pair, pair[::-1], b"\1" * 32, (0, 0), 0)  # type: ignore[arg-type]
    for kind in MATCH_MOVES:
        move = maker.message(kind, "Referee", ("matchId", "matchTerms", "here"))
        function, arguments = sent("Referee", *match.match_call(move, state, terms))
        assert arguments[0] == terms.match_id
        assert match.match_move(function, arguments) == move
    assert match.match_move("open", []) is None


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_of_a_hearing_come_back(seed: int) -> None:
    maker = Maker(seed)
    for kind in HEARING_MOVES:
        move = maker.message(kind, "Panel", ("hearingId",))
        function, arguments = sent("Panel", *hearing.hearing_call(move, 7 << 8), batched=False)
        assert arguments[0] == 7 << 8
        assert hearing.hearing_move(function, arguments) == move
    with pytest.raises(TypeError, match="hear is not a move"):
        hearing.hearing_move("hear", [])


@pytest.mark.parametrize("seed", SEEDS)
def test_moves_of_a_trial_come_back(seed: int) -> None:
    maker = Maker(seed)
    trial_terms: Any = maker.struct(TrialTerms, "Court", "descend", "trialTerms")
    dispute: Any = maker.struct(Dispute, "Court", "descend", "dispute")
    states = b"\1" * 8, b"\2" * 8
    state = TrialState(
        trial_terms.players, Stage.ANSWER, 0, (1, 1), 0, steps=9, agreed=states[0], states=states
    )
    for kind in TRIAL_MOVES:
        move = maker.message(kind, "Court", ("trialTerms", "dispute", "position"))
        function, arguments = sent("Court", *trial.trial_call(move, trial_terms, dispute, state))
        assert trial.trial_move(function, arguments) == (trial_terms.trial(), move)
    assert trial.trial_move("multicall", [[]]) is None


@pytest.mark.parametrize(
    ("types", "roots", "told"),
    [
        (b"\1", 1, "end early"),
        (b"\xff\0", 1, "unknown code"),
        (b"\1\0", 0, "2 bytes"),
        (b"\1\2" + bytes(8), 1, "early"),
    ],
)
def test_types_that_do_not_fit_the_roots_are_refused(types: bytes, roots: int, told: str) -> None:
    with pytest.raises(InvalidEncoding, match=told):
        Inputs(types, (bytes(32),) * roots).tensors()


@pytest.mark.parametrize("kind", [Compare, JudgeStep])
def test_inputs_are_packed_as_the_court_takes_them(kind: type[Compare | JudgeStep]) -> None:
    assert hints_of(kind)["inputs"] is Inputs
    assert Inputs.of(()) == Inputs(b"", ())


@pytest.mark.parametrize("seed", SEEDS)
def test_requests_and_responses_come_back(seed: int) -> None:
    maker = Maker(seed)
    subject: Any = maker.struct(availability.Subject, "DataAvailability", "close", "subject")
    place: Any = maker.struct(Place, "DataAvailability", "close", "place")
    asked: Any = maker.message(availability._Request, "DataAvailability", ("subject", "place")).places
    made = [availability.request_call(subject, asked), availability.close_call(subject, place)]
    answers = [maker.message(kind, "DataAvailability", ("subject", "place")) for kind in RESPONSES]
    made += [availability.provide_call(subject, place, answer) for answer in answers]
    found = [availability._CALLS.decode(*sent("DataAvailability", *one)) for one in made]
    assert [one and one[0] for one in found] == [
        availability._Request(asked),
        availability._Close(),
        *answers,
    ]
    assert all(one and value_of(SUBJECT, one[1]["subject"]) == subject for one in found)
    assert all(one and value_of(Place, one[1]["place"]) == place for one in found[1:])


@pytest.mark.parametrize("seed", SEEDS)
def test_terms_of_a_job_come_back(seed: int) -> None:
    terms = Maker(seed).message(job.JobTerms, "Jobs", ())
    found = job._POST.decode(*sent("Jobs", *job.post_call(terms), batched=False))
    assert found == (terms, {})


def logged(maker: Maker, name: str, cls: type[Fold], event: str) -> tuple[Event, dict[str, Any]]:
    """Return an event with random values, and those that the fold takes."""
    entry, fields = abi_entry(name, "event", event), cls._fields[event][1]
    kinds = {key: (one, kind) for one, (key, kind) in fields.items()}
    given, taken = {}, {}
    for part in entry["inputs"]:
        if part["name"] in kinds:
            ours, kind = kinds[part["name"]]
            taken[ours] = given[part["name"]] = maker.value(kind, part)
        else:
            given[part["name"]] = zero(part)
    plain = [part for part in entry["inputs"] if not part["indexed"]]
    indexed = [part for part in entry["inputs"] if part["indexed"]]
    data = encode([collapse_if_tuple(part) for part in plain], [words(given[part["name"]]) for part in plain])
    topic = bytes(event_abi_to_log_topic(entry))  # type: ignore[arg-type]
    topics = [topic, *(encode([part["type"]], [given[part["name"]]]) for part in indexed)]
    args = event_coders(CONTRACTS[name])[topic].args(topics, data)
    return Event(event, args, 1, b"", 0), taken


def zero(part: Mapping[str, Any]) -> Any:
    if part["type"] == "tuple":
        return tuple(map(zero, part["components"]))
    return {"address": "0x" + "00" * 20, "bool": False, "bytes32": bytes(32)}.get(part["type"], 0)


def told_events() -> Iterator[tuple[str, type[Fold], str]]:
    for name, cls in FOLDS:
        yield from ((name, cls, event) for event in cls.names)


@pytest.mark.parametrize(
    ("name", "cls", "event"), list(told_events()), ids=lambda part: getattr(part, "__name__", part)
)
def test_events_come_back(name: str, cls: type[Fold], event: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in SEEDS:
        happened, taken = logged(Maker(seed), name, cls, event)
        seen: dict[str, Any] = {}
        fields = cls._fields[event][1]
        monkeypatch.setitem(cls._fields, event, (lambda _, seen=seen, **given: seen.update(given), fields))
        cls.of([happened])
        assert seen == taken


# ---------------------------------------------------------------------- what no contract has


def test_an_event_that_no_contract_has_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(ConfigError, match="Referee has not one event Descend"):

        class _Wrong(Fold, contract="Referee"):
            def on_descend(self, node0: bytes) -> None: ...


@pytest.mark.parametrize("kind", [int, tuple[bytes, ...]])
def test_a_field_of_another_type_is_refused_when_its_class_is_made(kind: Any) -> None:
    def on_descended(self: object, node0: bytes) -> None: ...

    on_descended.__annotations__["node0"] = kind
    members = {"on_descended": on_descended}
    with pytest.raises(ConfigError, match="no node0"):
        new_class("_Wrong", (Fold,), {"contract": "Referee"}, lambda space: space.update(members))


def test_a_field_that_an_event_lacks_is_refused_when_its_class_is_made() -> None:
    with pytest.raises(ConfigError, match=r"event Referee\.Descended has no child"):

        class _Wrong(Fold, contract="Referee"):
            def on_descended(self, child: int) -> None: ...


@dataclass(frozen=True)
class _Late:
    function: ClassVar[str] = "late"


@dataclass(frozen=True)
class _Told:
    function: ClassVar[str] = "tell"


@dataclass(frozen=True)
class _Refine:
    function: ClassVar[str] = "refine"
    side: int
    root: bytes


def test_a_function_that_a_contract_lacks_or_that_takes_others_is_refused() -> None:
    Calls[Any]("Referee", {"matchId": int}, _Late)
    for kind, told in ((_Told, "not one function tell"), (_Refine, "does not take a _Refine")):
        with pytest.raises(ConfigError, match=told):
            Calls[Any]("Referee", {"matchId": int, "matchTerms": match.ShownTerms}, kind)
    with pytest.raises(ConfigError, match="does not take a _Late"):
        Calls[Any]("Referee", {"matchId": bytes}, _Late)


def test_a_field_that_a_view_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Referee\.getMatch has no root"):
        View(MatchState, "Referee", "getMatch", beside="node agreed clock")


# ---------------------------------------------------------------------- what no decoder gives


@pytest.mark.parametrize(
    ("kind", "raw", "told"),
    [
        (Record, (bytes(32), (), ()), "Record with 3 members"),
        (Record, (bytes(32), (), (bytes(32),) * 9, bytes(32)), "9 outputs"),
        (Stage, 99, "Stage 99 cannot be; the last one is 7"),
        (tuple[bytes, bytes], [bytes(32)], "with 1 members"),
        (tuple[bytes, ...], b"\1\2", "a struct or an array is due"),
        (int, True, "a value of type int is due"),
        (bytes, "a" * 10_000, "a value of type bytes is due"),
        (Terms, 5, "a struct or an array is due for Terms"),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, raw: Any, told: str) -> None:
    with pytest.raises(InvalidEncoding, match=told) as refused:
        value_of(kind, raw)
    assert len(str(refused.value)) < 200
    with pytest.raises(RpcCorrupt, match=f"here: .*{told}"):
        known(kind, raw, "here")


def test_a_struct_is_read_by_names_or_in_order() -> None:
    for raw in ((b"1", 2), [b"1", 2], {"x": b"1", "y": 2}):
        assert value_of(tuple[bytes, int], raw) == (b"1", 2)
    assert words(((1, Stage.DONE), b"")) == [[1, 7], b""]
