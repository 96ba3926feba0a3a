"""Plays a match once more, in the pure Python game, from the transactions that made it.

What the contract decided and what the rules decide must be the same; anybody with an RPC endpoint can check it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hexbytes import HexBytes
from web3.contract import Contract

from referee_py.commit import Record
from referee_py.game.rules import apply, opened
from referee_py.game.state import (
    Attest,
    CallVerifiers,
    Descend,
    Evidence,
    Exhibit,
    Expire,
    JudgeInput,
    JudgeLog,
    JudgeStructure,
    LogProof,
    MatchState,
    Move,
    OpenRecord,
    Refine,
    Reveal,
    Timeout,
)

from .client import Snapshot
from .rpc import guarded
from .views import Job, MatchInfo

MAX_NESTING = 4
"""Of multicalls in multicalls."""

_MOVES: dict[str, type[Move]] = {
    move.function: move
    for move in (
        Reveal,
        Descend,
        Refine,
        OpenRecord,
        JudgeStructure,
        JudgeInput,
        JudgeLog,
        CallVerifiers,
        Attest,
        Timeout,
        Expire,
    )
}


def retrace(snapshot: Snapshot, job: Job, match_id: int) -> MatchState:
    """The state that the Python rules reach with the match's own moves, senders and instants.

    Raises IllegalMove if they refuse a move that the contract has accepted, RpcUnavailable or RpcCorrupt.
    NOTE: moves that another contract has sent are in no transaction's input, so such a match cannot be retraced.
    """
    match = snapshot.match(job, match_id)
    events = snapshot.events(match_id)
    roots = next(event.args["roots"] for event in events if event.name == "Opened")
    began = next(event.block for event in events if event.name == "Opened")
    state = opened(match.terms, (bytes(roots[0]), bytes(roots[1])), snapshot.instant(began))
    seen = dict.fromkeys(event.tx_hash for event in events if event.name != "Opened")
    for tx_hash in seen:
        state = _replay(snapshot, match, state, tx_hash)
    return state


def _replay(snapshot: Snapshot, match: MatchInfo, state: MatchState, tx_hash: bytes) -> MatchState:
    """The state after one transaction. NOTE: one that opened the match may hold no move of it."""
    referee = snapshot.referee
    with guarded("eth_getTransactionByHash"):
        transaction: Any = snapshot.web3.eth.get_transaction(HexBytes(tx_hash))
        calls = []
        if str(transaction["to"]).lower() == str(referee.address).lower():
            calls = list(_calls(referee, bytes(transaction["input"]), 0))
    for name, (match_id, *arguments) in calls:
        if match_id == match.id and name in _MOVES:
            move = _move(name, arguments)
            now = snapshot.instant(transaction["blockNumber"])
            state = apply(state, match.terms, move, str(transaction["from"]), now)
    return state


def _calls(referee: Contract, data: bytes, nesting: int) -> Iterator[tuple[str, list[Any]]]:
    """Functions and arguments in calldata, multicalls taken apart."""
    function, arguments = referee.decode_function_input(HexBytes(data))
    if function.fn_name == "multicall" and nesting < MAX_NESTING:
        for inner in arguments["data"]:
            yield from _calls(referee, bytes(inner), nesting + 1)
    else:
        yield function.fn_name, list(arguments.values())


def _move(name: str, arguments: list[Any]) -> Move:
    """The game's move of a call."""
    kind = _MOVES[name]
    if kind is OpenRecord:
        return OpenRecord(arguments[0], _record(arguments[1]))
    if kind in (JudgeStructure, CallVerifiers):
        return kind(_exhibit(arguments[0]))  # type: ignore[call-arg]
    if kind is JudgeInput:
        return JudgeInput(_exhibit(arguments[0]), _evidence(arguments[1]))
    if kind is JudgeLog:
        return JudgeLog(_exhibit(arguments[0]), _log_proof(arguments[1]))
    return kind(
        *(tuple(map(bytes, value)) if isinstance(value, list | tuple) else value for value in arguments)
    )


def _record(raw: Any) -> Record:
    structure, inputs, outputs, log = _values(raw)
    return Record(bytes(structure), tuple(map(bytes, inputs)), tuple(map(bytes, outputs)), bytes(log))


def _exhibit(raw: Any) -> Exhibit:
    first, second, structure, path = _values(raw)
    return Exhibit(_record(first), _record(second), bytes(structure), tuple(map(bytes, path)))


def _evidence(raw: Any) -> Evidence:
    k, source, source_path, node, output, slot_path, tensor = _values(raw)
    paths = tuple(map(bytes, source_path)), tuple(map(bytes, slot_path))
    return Evidence(k, _record(source), paths[0], node, output, paths[1], bytes(tensor))


def _log_proof(raw: Any) -> LogProof:
    log, step_root, step_path, node_path = _values(raw)
    paths = tuple(map(bytes, step_path)), tuple(map(bytes, node_path))
    return LogProof(bytes(log), bytes(step_root), *paths)


def _values(raw: Any) -> list[Any]:
    """A struct's fields, as the decoder gives them: by name or in order."""
    return list(raw.values()) if isinstance(raw, dict) else list(raw)
