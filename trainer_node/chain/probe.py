"""Calls that change nothing and show what a chain executes.

One eth_call without a recipient: its code creates a contract for each opcode (:mod:`.opcodes`), calls it, and returns
whether the call went well and with which word; so an opcode that the chain lacks is an answer and no error of the
endpoint. Behind these it returns what the contracts see of the block, and whether code as long as ours can be created.
How much gas a transaction may take is asked by estimates of code that reverts if it has less, and what a new word of
storage costs by estimates of code that writes one and of code that writes more.

    words      NUMBER, TIMESTAMP, GASLIMIT, CHAINID, address of the long contract, then (success, word) of each opcode
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexbytes import HexBytes
from web3 import Web3
from web3.types import TxParams

from ..errors import Reverted, RpcCorrupt, RpcRefused
from .opcodes import TRIALS
from .rpc import guarded

TRIAL_GAS = 200_000
"""Gas that a trial gets: an opcode that does not exist takes all of it."""
CONTROL_GAS = 100_000
"""Gas that any chain gives a transaction: an endpoint that refuses this estimate estimates nothing of this kind."""
WORDS = 8
"""Words that are written to find what one costs: an endpoint's estimate may be some percent too high."""
_SCRATCH, _WORD = 0x2000, 32
"""Place in memory of the words that are returned, behind the code of each contract."""
_SEEN = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """View of a contract on its block: number, time in unix seconds, gas limit, and the chain's id."""

    number: int
    time: int
    gas_limit: int
    chain_id: int


@dataclass(frozen=True, slots=True)
class Executed:
    """``lacking``: the opcodes that are not there or mean something else; ``holds_code``: code of the asked length can
    be created."""

    seen: Seen
    lacking: tuple[int, ...]
    holds_code: bool


def execute(web3: Web3, opcodes: Sequence[int], code_bytes: int) -> Executed:
    """Try ``opcodes`` and code of this length in the newest block.

    Raises RpcUnavailable or RpcCorrupt; Reverted or RpcCorrupt, too, if the chain does not execute code of this kind.
    """
    program = assembled(opcodes, code_bytes)
    words = _words(_call(web3, program), _SEEN + 2 * len(opcodes))
    number, time, gas_limit, chain_id, holds = words[:_SEEN]
    results = zip(opcodes, words[_SEEN::2], words[_SEEN + 1 :: 2], strict=True)
    lacking = tuple(
        opcode
        for opcode, passed, word in results
        if not passed or opcode not in TRIALS or word != TRIALS[opcode].want
    )
    return Executed(Seen(number, time, gas_limit, chain_id), lacking, bool(holds))


def gives_gas(web3: Web3, gas: int) -> bool | None:
    """Return whether a transaction may take this much gas; None if the endpoint does not estimate such code.

    Raises RpcUnavailable or RpcCorrupt.
    """
    if _estimates(web3, gas):
        return True
    return False if _estimates(web3, CONTROL_GAS) else None


def word_price(web3: Web3) -> int | None:
    """Return the gas of a new word of storage; None if the endpoint does not estimate such code.

    Raises RpcUnavailable or RpcCorrupt.
    """
    one, more = (_estimate(web3, _writes(count)) for count in (1, WORDS))
    if one is None or more is None or more <= one:
        return None
    return (more - one) // (WORDS - 1)


def assembled(opcodes: Sequence[int], code_bytes: int) -> bytes:
    """Return the code of the call."""
    contracts = [TRIALS[opcode].contract if opcode in TRIALS else bytes([opcode]) for opcode in opcodes]
    created = [_creation(contract) for contract in contracts]
    # NOTE: every push has a fixed width, so the head's length does not depend on the places in it.
    length = len(_head([(0, len(code)) for code in created], code_bytes))
    places, at = [], length
    for code in created:
        places.append((at, len(code)))
        at += len(code)
    return _head(places, code_bytes) + b"".join(created)


def _head(places: Sequence[tuple[int, int]], code_bytes: int) -> bytes:
    out = bytearray()
    for place, opcode in enumerate((0x43, 0x42, 0x45)):
        out += bytes([opcode]) + _store(place)
    # NOTE: a chain without CHAINID must not fail here, so it is the word of a trial's contract.
    seen = _creation(bytes.fromhex("4660005260206000f3"))
    out += _push(int.from_bytes(seen), len(seen)) + _push(0) + b"\x52" + _create(_WORD - len(seen), len(seen))
    out += _call_code(_place(3)) + b"\x50\x50"
    for number, (at, length) in enumerate(places):
        out += _push(length) + _push(at) + _push(0) + b"\x39" + _create(0, length)
        out += _call_code(_place(_SEEN + 2 * number + 1)) + _store(_SEEN + 2 * number) + b"\x50"
    # A contract of zeros: PUSH3 length, PUSH1 0, RETURN. NOTE: last, because all gas is lost if it is too long.
    long = b"\x62" + code_bytes.to_bytes(3) + b"\x60\x00\xf3"
    out += _push(int.from_bytes(long), len(long)) + _push(0) + b"\x52" + _create(_WORD - len(long), len(long))
    out += _store(4)
    return bytes(out + _push(_WORD * (_SEEN + 2 * len(places))) + _push(_SCRATCH) + b"\xf3")


def _creation(contract: bytes) -> bytes:
    """Return code that creates this contract."""
    # PUSH1 length, PUSH1 12, PUSH1 0, CODECOPY, PUSH1 length, PUSH1 0, RETURN
    length = len(contract)
    return bytes([0x60, length, 0x60, 12, 0x60, 0, 0x39, 0x60, length, 0x60, 0, 0xF3]) + contract


def _push(value: int, width: int = 2) -> bytes:
    return bytes([0x5F + width]) + value.to_bytes(width)


def _place(word: int) -> int:
    return _SCRATCH + _WORD * word


def _store(word: int) -> bytes:
    return _push(_place(word)) + b"\x52"


def _create(at: int, length: int) -> bytes:
    """Leaves the address of a contract whose creation code is in memory."""
    return _push(length) + _push(at) + _push(0) + b"\xf0"


def _call_code(place: int) -> bytes:
    """Leaves address and success of a call to the address on the stack; its word goes to this place in memory."""
    # retLength, retOffset, argsLength, argsOffset, value, address (DUP6), gas
    return _push(_WORD) + _push(place) + _push(0) * 3 + b"\x85" + _push(TRIAL_GAS, 3) + b"\xf1"


def _call(web3: Web3, program: bytes) -> bytes:
    with guarded("a call that tries the chain"):
        return bytes(web3.eth.call({"data": HexBytes(program)}, "latest"))


def _words(answer: bytes, count: int) -> list[int]:
    if len(answer) != _WORD * count:
        raise RpcCorrupt(f"a call that tries the chain gave {len(answer)} bytes, not {_WORD * count}")
    return [int.from_bytes(answer[at : at + _WORD]) for at in range(0, len(answer), _WORD)]


def _writes(count: int) -> bytes:
    """Return code that writes this many new words. NOTE: it is as long for every count, with as many bytes of zero."""
    # For each word: PUSH1 1, PUSH1 place, SSTORE. Then STOP, and what is never executed.
    written = b"".join(bytes([0x60, 1, 0x60, place, 0x55]) for place in range(1, count + 1))
    return written + b"\x00" + b"\x5b" * (5 * (WORDS - count))


def _estimates(web3: Web3, gas: int) -> bool:
    # PUSH4 gas, GAS, LT, PUSH1 11, JUMPI, STOP, JUMPDEST, PUSH1 0, PUSH1 0, REVERT
    program = b"\x63" + gas.to_bytes(4) + bytes.fromhex("5a10600b57005b60006000fd")
    estimate = _estimate(web3, program)
    return estimate is not None and estimate >= gas


def _estimate(web3: Web3, program: bytes) -> int | None:
    request: TxParams = {"data": HexBytes(program)}
    try:
        with guarded("an estimate that tries the chain"):
            return int(web3.eth.estimate_gas(request))
    except (Reverted, RpcRefused):
        return None
