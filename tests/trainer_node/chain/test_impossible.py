"""An endpoint whose answers are well formed but describe impossible states: each becomes one of our errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from eth_abi.abi import encode
from eth_typing import ABIEvent, ABIFunction
from eth_utils.abi import collapse_if_tuple, event_abi_to_log_topic, function_abi_to_4byte_selector

from referee_py.commit.structs import words
from referee_py.game.calldata import match_id, match_terms, position_hash
from referee_py.game.rules import opened
from referee_py.game.state import MatchTerms, Phase
from referee_py.jobs import JobPhase
from referee_py.panel.state import HearingPhase, Submission, hearing_id
from referee_py.program.terms import Terms
from referee_py.trial import Stage, open_trial
from referee_py.trial.calldata import position_hash as trial_position_hash
from referee_py.walk.dispute import TrialTerms, dispute_hash
from referee_py.walk.reason import Reason
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.codec.hearing import HearingInfo
from trainer_node.chain.codec.match import History, MatchInfo
from trainer_node.chain.codec.trial import TrialInfo
from trainer_node.chain.snapshot import Snapshot
from trainer_node.errors import RpcCorrupt

from .endpoint import ADDRESS, Endpoint, result
from .test_hearings import PLAYERS, RECORDS, SETTING

JOB, ZERO = 3, bytes(32)
PROGRAM = Terms(0, 0, 0, 0, 0, 0, ZERO, ZERO, ZERO, ZERO, (1,))
TERMS = MatchTerms(PROGRAM, 9, PLAYERS, match_id=0)
MATCH = match_id(ADDRESS, JOB, TERMS)
HEARING = hearing_id(ADDRESS, MATCH)
DISPUTE = SETTING.dispute
TRIAL_TERMS = TrialTerms(ADDRESS, HEARING | 1, PLAYERS, dispute_hash(DISPUTE))
SUBMISSION = Submission(MATCH, ADDRESS, JOB, 5, 3, PLAYERS, RECORDS, dispute_hash(DISPUTE))
SOUND: dict[str, dict[str, Any]] = {
    "STAKE_GAS": {"": 1},
    "viewOf": {"phase": JobPhase.CHALLENGE, "strides": [1], "clock": 9, "threshold": 1},
    "getMatch": {
        "phase": Phase.HEARING,
        "jobs": ADDRESS,
        "jobId": JOB,
        "position": position_hash(opened(TERMS, 0)),
    },
    "getHearing": {"phase": HearingPhase.TRIAL, "trials": 1, "file": SUBMISSION.hash()},
    "getTrial": {
        "stage": Stage.OUTPUTS,
        "position": trial_position_hash(open_trial(DISPUTE, PLAYERS, (9, 9), 0)),
    },
}
"""The answer of each view; fields that are not named are zero."""
EVENTS: dict[str, dict[str, Any]] = {
    "Submitted": {"submission": words(SUBMISSION), "dispute": words(DISPUTE)},
    "Opened": {"matchTerms": match_terms(TERMS)},
    "Tried": {"trialId": TRIAL_TERMS.trial(), "players": PLAYERS},
}


class Liar:
    """Answers for all contracts at once: `answers` are the results of views, `events` the log of every subject."""

    def __init__(self, endpoint: Endpoint) -> None:
        abis = [
            item
            for name in ("Jobs", "Notary", "Referee", "Panel", "Court")
            for item in load_artifact(name).abi
        ]
        functions = [item for item in abis if item["type"] == "function"]
        self._functions = {
            "0x" + function_abi_to_4byte_selector(cast(ABIFunction, item)).hex(): item for item in functions
        }
        self._events = {item["name"]: item for item in abis if item["type"] == "event"}
        self.answers = {name: dict(given) for name, given in SOUND.items()}
        self.events = list(EVENTS.items())
        endpoint.answer = lambda request: (200, result(request, self._answer(request)))
        self.client = endpoint.client()

    def snapshot(self) -> Snapshot:
        return self.client.snapshot()

    def _answer(self, request: dict[str, Any]) -> object:
        match request["method"]:
            case "eth_call":
                return self._called(request["params"][0]["data"])
            case "eth_getLogs":
                return self._logs(request["params"][0]["topics"])
        return {"number": "0x5", "hash": "0x" + "11" * 32, "timestamp": "0x1"}

    def _called(self, data: str) -> str:
        item = self._functions[data[:10]]
        given = self.answers.get(item["name"], {})
        types = [collapse_if_tuple(part) for part in item["outputs"]]
        return "0x" + encode(types, [_value(part, given) for part in item["outputs"]]).hex()

    def _logs(self, topics: list[Any]) -> list[dict[str, object]]:
        wanted, subject = topics[0], topics[1]
        found = [(self._events[name], given) for name, given in self.events]
        named = [
            (item, given, "0x" + event_abi_to_log_topic(cast(ABIEvent, item)).hex()) for item, given in found
        ]
        asked = [one for one in named if one[2] in wanted]
        return [_log(k, item, given, [topic, subject]) for k, (item, given, topic) in enumerate(asked)]


def _log(place: int, item: Any, given: dict[str, Any], topics: list[str]) -> dict[str, object]:
    indexed = [part for part in item["inputs"] if part["indexed"]][1:]
    plain = [part for part in item["inputs"] if not part["indexed"]]
    data = encode([collapse_if_tuple(part) for part in plain], [_value(part, given) for part in plain])
    words = [encode([part["type"]], [_value(part, given)]).hex() for part in indexed]
    return {
        "address": ADDRESS,
        "topics": [*topics, *("0x" + word for word in words)],
        "data": "0x" + data.hex(),
        "blockNumber": "0x1",
        "blockHash": "0x" + "11" * 32,
        "transactionHash": "0x" + "33" * 32,
        "transactionIndex": "0x0",
        "logIndex": hex(place),
        "removed": False,
    }


def _value(item: Any, given: dict[str, Any]) -> Any:
    """Return the value of one part of an answer: the one given for its name, else zero."""
    kind = item["type"]
    if item["name"] in given:
        return given[item["name"]]
    if kind.endswith("[]"):
        return []
    if kind.endswith("]"):
        inner, count = kind[:-1].rsplit("[", 1)
        return [_value({**item, "type": inner}, given) for _ in range(int(count))]
    if kind == "tuple":
        return tuple(_value(part, given) for part in item["components"])
    zeros = {"address": "0x" + "00" * 20, "bool": False, "string": "", "bytes": b"", "bytes32": bytes(32)}
    return zeros.get(kind, 0)


@pytest.fixture
def liar() -> Iterator[Liar]:
    endpoint = Endpoint()
    yield Liar(endpoint)
    endpoint.close()


def read_job(snapshot: Snapshot) -> object:
    return snapshot.job(JOB)


def read_match(snapshot: Snapshot) -> MatchInfo:
    return snapshot.match(snapshot.job(JOB), MATCH)


def read_hearing(snapshot: Snapshot) -> HearingInfo:
    found = snapshot.hearing(snapshot.job(JOB), MATCH)
    assert found is not None
    return found


def read_trial(snapshot: Snapshot) -> TrialInfo:
    found = snapshot.hearing(snapshot.job(JOB), MATCH)
    assert found is not None
    return snapshot.trial(found)


READS: list[Callable[[Snapshot], object]] = [read_job, read_match, read_hearing, read_trial]


@pytest.mark.parametrize("read", READS)
def test_what_can_be_is_read(liar: Liar, read: Callable[[Snapshot], object]) -> None:
    assert read(liar.snapshot()) is not None


@pytest.mark.parametrize(
    ("read", "view", "name", "number"),
    [
        (read_job, "viewOf", "phase", max(JobPhase) + 1),
        (read_match, "getMatch", "phase", max(Phase) + 1),
        (read_match, "getMatch", "reason", max(Reason) + 1),
        (read_hearing, "getHearing", "phase", max(HearingPhase) + 1),
        (read_trial, "getTrial", "stage", max(Stage) + 1),
        (read_trial, "getTrial", "kind", 4),
    ],
)
def test_a_number_that_no_contract_gives_is_refused(
    liar: Liar, read: Callable[[Snapshot], object], view: str, name: str, number: int
) -> None:
    liar.answers[view][name] = number
    with pytest.raises(RpcCorrupt, match=rf"\b{number}\b"):
        read(liar.snapshot())


def test_a_half_that_was_posted_and_is_hidden_is_noticed(liar: Liar) -> None:
    liar.answers["getMatch"] |= {"phase": Phase.WALK, "posted": 0b10, "clock0": 9, "clock1": 9}
    told = str(read_match(liar.snapshot()).hidden)
    assert "side 1 has posted, but the endpoint has no event of it" in told
    liar.events.append(("Revealed", {"side": 1, "children": [ZERO]}))
    found = read_match(liar.snapshot())
    assert (found.log.children, found.hidden) == ([None, (ZERO,)], None)


@pytest.mark.parametrize(
    ("stage", "name", "shown"),
    [(Stage.WALK, "NodesRevealed", {"children": [ZERO] * 16}), (Stage.LEAF, "LeafShown", {"leaf": ZERO})],
)
def test_a_half_of_a_trial_that_is_hidden_is_noticed(
    liar: Liar, stage: Stage, name: str, shown: dict[str, Any]
) -> None:
    state = replace(open_trial(DISPUTE, PLAYERS, (9, 9), 0), stage=stage)
    place = trial_position_hash(state)
    liar.answers["getTrial"] |= {"stage": stage, "posted": 0b11, "position": place, "clock0": 9, "clock1": 9}
    liar.events.append((name, {"side": 0, **shown}))
    assert "side 1 has posted" in str(read_trial(liar.snapshot()).hidden)
    liar.events.append((name, {"side": 1, **shown}))
    assert read_trial(liar.snapshot()).hidden is None


def test_a_vote_for_the_verdict_that_is_hidden_is_noticed(liar: Liar) -> None:
    """A signer that did not know of its own vote would not stand by it."""
    liar.answers["getHearing"] |= {"phase": HearingPhase.DEFENCE, "verdict": RECORDS[0]}
    liar.answers["votes"] = {"": [PLAYERS[0], PLAYERS[1]]}
    vote = {"record": RECORDS[0], "votes": 1}
    liar.events.append(("Attested", {"verifier": PLAYERS[1], **vote}))
    assert "not all events of hearing" in str(read_hearing(liar.snapshot()).hidden)
    liar.events.append(("Attested", {"verifier": PLAYERS[0], **vote}))
    assert read_hearing(liar.snapshot()).hidden is None


@pytest.mark.parametrize("phase", [HearingPhase.VOTING, HearingPhase.RULED, HearingPhase.TRIAL])
def test_a_vote_for_the_record_zero_is_a_vote_like_others(liar: Liar, phase: HearingPhase) -> None:
    """The panel takes any record. One that lies must not make a hearing unreadable for everybody."""
    liar.answers["getHearing"] |= {"phase": phase, "verdict": ZERO}
    liar.answers["votes"] = {"": [PLAYERS[0]]}
    liar.events.append(("Attested", {"verifier": PLAYERS[0], "record": ZERO, "votes": 1}))
    assert read_hearing(liar.snapshot()).hidden is None


def test_hearings_that_cannot_be_read_are_told_apart(liar: Liar) -> None:
    liar.events = [event for event in liar.events if event[0] != "Submitted"]
    snapshot = liar.snapshot()
    job = snapshot.job(JOB)
    snapshot._client.matches[JOB] = {MATCH: None}
    found, failed = snapshot.hearings(job)
    assert found == []
    assert isinstance(failed[MATCH], RpcCorrupt)


def test_a_match_and_its_hearing_stand_as_views_alone_show_them(liar: Liar) -> None:
    liar.events = []
    assert liar.snapshot().standing(MATCH) == (Phase.HEARING, HearingPhase.TRIAL)
    for view, kind in (("getMatch", Phase), ("getHearing", HearingPhase)):
        sound = liar.answers[view]["phase"]
        liar.answers[view]["phase"] = max(kind) + 1
        with pytest.raises(RpcCorrupt):
            liar.snapshot().standing(MATCH)
        liar.answers[view]["phase"] = sound


def test_a_decision_for_no_reason_is_refused(liar: Liar) -> None:
    liar.events = [("Decided", {"losers": 1, "reason": max(Reason)})]
    assert History.of(liar.snapshot().events(MATCH)).reason is max(Reason)
    liar.events = [("Decided", {"losers": 1, "reason": max(Reason) + 1})]
    with pytest.raises(RpcCorrupt, match="Reason"):
        History.of(liar.snapshot().events(MATCH))


def test_who_has_not_voted_cannot_be_slashed(liar: Liar) -> None:
    liar.events.append(("Slashed", {"verifier": ADDRESS, "bond": 1}))
    with pytest.raises(RpcCorrupt, match="no vote that stands"):
        read_hearing(liar.snapshot())


@pytest.mark.parametrize(
    "changes",
    [
        {"stateBytes": 0, "hi": 8, "steps": 8},
        {"stateBytes": 8, "hi": 0, "steps": 8},
        {"stateBytes": 8, "hi": 9, "steps": 8},
        {"stateBytes": 8, "lo": 8, "hi": 8, "steps": 8},
    ],
    ids=str,
)
def test_a_chain_without_steps_is_not_open(liar: Liar, changes: dict[str, int]) -> None:
    liar.answers["getTrial"] |= {"stage": Stage.POST, **changes}
    with pytest.raises(RpcCorrupt, match="cannot be open"):
        read_trial(liar.snapshot())


def test_an_answer_about_steps_that_nobody_has_told_of_is_refused(liar: Liar) -> None:
    liar.events.append(("StateAnswered", {"lo": 0, "hi": 1, "own": b"\1" * 8}))
    with pytest.raises(RpcCorrupt, match="no event before it has states"):
        read_trial(liar.snapshot())
