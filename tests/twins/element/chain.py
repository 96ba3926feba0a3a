"""The rules of contracts/element on a local chain, called over JSON-RPC with many cases at once.

`make setup` builds the rules; RuleBatch, which takes whole chains, is compiled here.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx
import pytest
from eth_abi import abi
from eth_utils.crypto import keccak
from repops.opset import lookup

from referee_py.element import Case
from referee_py.program.attributes import encode_attributes
from tests.support.solidity import compiled
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.contracts import RULES, TABLES

ANVIL_OPTIONS = ("--disable-block-gas-limit", "--memory-limit", str(1 << 30))
RULE_BATCH = "tests/contracts/element/RuleBatch.sol"
NOWHERE = "0x" + "00" * 20
REPOPS_F32 = 1
MAX_BATCH_BYTES, MAX_BATCH_CALLS = 900_000, 250  # anvil takes requests of 2 MiB, and a byte is two digits

CASE = "(uint16,uint8,uint8,uint64,bytes,bytes,bytes)"
OPENED = "(uint8,uint64,uint64)[]"
ENTRY = "(uint8,uint32)"
NO_ENTRY = (1, 0)

Tensor = tuple[int, Sequence[int]]
Opened = tuple[int, int, int]
"""Input, element, bits."""


@dataclass(frozen=True)
class Given:
    """A case as it is passed to a contract; it may be unsound."""

    op: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: bytes = b""
    output: int = 0
    element: int = 0
    mode: int = REPOPS_F32

    @classmethod
    def of(cls, case: Case) -> Given:
        op = lookup(case.name)
        inputs, outputs = (
            tuple((int(t.dtype), t.shape) for t in types) for types in (case.inputs, case.outputs)
        )
        attributes = encode_attributes(op, case.attrs)
        return cls(op.id, inputs, outputs, attributes, case.output, case.element, case.mode)

    @property
    def words(self) -> tuple[Any, ...]:
        return (
            *(self.op, self.mode, self.output, self.element),
            *(packed(self.inputs), packed(self.outputs), self.attributes),
        )


def packed(types: Iterable[Tensor]) -> bytes:
    """Return dtype u8 ‖ rank u8 ‖ dims u64be each, one after the other."""
    return b"".join(struct.pack(f">BB{len(dims)}Q", dtype, len(dims), *dims) for dtype, dims in types)


@dataclass(frozen=True)
class Refusal:
    """The error that reverted a call, and its values. The name is empty if the call's bytes are not arguments."""

    name: str
    values: tuple[Any, ...] = ()


class Revert(Exception):
    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.name}{refusal.values}")
        self.refusal = refusal


def refused(call: Callable[[], object], name: str, *values: Any) -> None:
    """Check that the call is reverted with this error."""
    with pytest.raises(Revert) as caught:
        call()
    assert caught.value.refusal == Refusal(name, values)


class Rules:
    """Every family at an address of its own, an Opset1 of them, and RuleBatch."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=280)
        self.addresses = {name: f"0x{0xE1E0 + i:040x}" for i, name in enumerate((*RULES, "RuleBatch"))}
        for name, address in self.addresses.items():
            batch = name == "RuleBatch"
            code = compiled(RULE_BATCH, name).runtime if batch else load_artifact(name).runtime
            self._rpc("anvil_setCode", [address, "0x" + code.hex()])
        self.opset = self.deploy(*([self.addresses[name] for name in names] for names in TABLES))
        self.of_operator: dict[tuple[int, int], str] = {}
        """The rule of an operator in a mode, once it was looked up; a test may set another one."""

    def deploy(
        self,
        repops_f32: Sequence[str],
        exact: Sequence[str] = (NOWHERE,) * 10,
        rounded: Sequence[str] = (NOWHERE,) * 10,
        tc16: Sequence[str] = (NOWHERE,) * 10,
    ) -> str:
        """Return the address of an Opset1 of these rules."""
        (sender, *_) = self._rpc("eth_accounts", [])
        code = load_artifact("Opset1").bytecode + abi.encode(
            ["address[10]"] * 4, [repops_f32, exact, rounded, tc16]
        )
        sent = self._rpc(
            "eth_sendTransaction", [{"from": sender, "data": "0x" + code.hex(), "gas": hex(10**7)}]
        )
        # NOTE: a block is mined immediately, but the answer with the transaction's hash does not wait for it.
        while (receipt := self._rpc("eth_getTransactionReceipt", [sent])) is None:
            time.sleep(0.01)
        assert receipt["status"] == "0x1"
        return str(receipt["contractAddress"])

    def rule(self, op: int, mode: int = REPOPS_F32, opset: str | None = None) -> str:
        """Return the address of the rule that the opset names."""
        data = encode_call("rule", ["uint16", "uint8"], [op, mode])
        (found,) = self.calls([(opset or self.opset, data)])
        return str(decode(["address"], found)[0])

    # ------------------------------------------------------------------------------------- one call of a rule

    def begin(self, given: Given) -> tuple[int, bytes]:
        return self._of_rule("begin", [CASE], [given.words], ["uint64", "bytes"], given)

    def step(self, given: Given, t: int, state: bytes, opened: Sequence[Opened]) -> bytes:
        arguments = [given.words, t, state, opened]
        types = [CASE, "uint64", "bytes", OPENED]
        return bytes(self._of_rule("step", types, arguments, ["bytes"], given)[0])

    def finish(self, given: Given, state: bytes, entry: tuple[int, int] = NO_ENTRY) -> int:
        arguments = [given.words, state, entry]
        return int(self._of_rule("finish", [CASE, "bytes", ENTRY], arguments, ["uint64"], given)[0])

    def _of_rule(
        self, function: str, types: list[str], values: list[Any], returns: list[str], given: Given
    ) -> tuple[Any, ...]:
        (found,) = self.calls([(self.rule_of(given), encode_call(function, types, values))])
        return decode(returns, found)

    # ---------------------------------------------------------------------------------------- many calls

    def steps_call(
        self, given: Given, start: int, states: Sequence[bytes], opened: Sequence[Sequence[Opened]]
    ) -> tuple[str, bytes]:
        """Call RuleBatch.steps; `opened` are the operands of each step from `start` on."""
        packed = b"".join(
            bytes([len(one)]) + b"".join(struct.pack(">BQQ", *element) for element in one) for one in opened
        )
        types = ["address", CASE, "uint64", "bytes", "bytes"]
        values = [self.rule_of(given), given.words, start, b"".join(states), packed]
        return self.addresses["RuleBatch"], encode_call("steps", types, values)

    def ends_call(self, given: Given, last: bytes) -> tuple[str, bytes]:
        """Call RuleBatch.ends."""
        values = [self.rule_of(given), given.words, last]
        return self.addresses["RuleBatch"], encode_call("ends", ["address", CASE, "bytes"], values)

    def elements_call(
        self, given: Given, last: bytes, entries: Sequence[tuple[int, int]]
    ) -> tuple[str, bytes]:
        """Call RuleBatch.elements."""
        values = [self.rule_of(given), given.words, last, entries]
        return self.addresses["RuleBatch"], encode_call(
            "elements", ["address", CASE, "bytes", f"{ENTRY}[]"], values
        )

    def rule_of(self, given: Given) -> str:
        """Return the address of the rule of a case."""
        key = given.op, given.mode
        if key not in self.of_operator:
            self.of_operator[key] = self.rule(*key)
        return self.of_operator[key]

    def calls(self, calls: Sequence[tuple[str, bytes]]) -> list[bytes | Refusal]:
        """Return the result of each call. Several calls are one request."""
        answers: list[bytes | Refusal] = []
        for few in _batches(calls):
            bodies = [
                {
                    "jsonrpc": "2.0",
                    "id": i,
                    "method": "eth_call",
                    "params": [{"to": to, "data": "0x" + data.hex(), "gas": hex(1 << 50)}, "latest"],
                }
                for i, (to, data) in enumerate(few)
            ]
            found = sorted(self._http.post("/", json=bodies).json(), key=lambda answer: int(answer["id"]))
            assert len(found) == len(few)
            answers += [_answer(one) for one in found]
        return answers

    def _rpc(self, method: str, parameters: list[Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        answer = self._http.post("/", json=body).json()
        assert "error" not in answer, answer["error"]
        return answer["result"]


def decode(types: list[str], found: bytes | Refusal) -> tuple[Any, ...]:
    """Decode the result of a call. Raises Revert for a refusal."""
    if isinstance(found, Refusal):
        raise Revert(found)
    return tuple(abi.decode(types, found))


def encode_call(function: str, types: list[str], values: list[Any]) -> bytes:
    return keccak(text=f"{function}({','.join(types)})")[:4] + abi.encode(types, values)


def _batches(calls: Sequence[tuple[str, bytes]]) -> Iterable[list[tuple[str, bytes]]]:
    few, size = list[tuple[str, bytes]](), 0
    for call in calls:
        if few and (size + len(call[1]) > MAX_BATCH_BYTES or len(few) == MAX_BATCH_CALLS):
            yield few
            few, size = [], 0
        few.append(call)
        size += len(call[1])
    if few:
        yield few


def _answer(body: dict[str, Any]) -> bytes | Refusal:
    if "error" not in body:
        return bytes.fromhex(body["result"][2:])
    data = body["error"].get("data")
    assert isinstance(data, str), body["error"]
    raw = bytes.fromhex(data[2:])
    if not raw:
        return Refusal("")
    name, types = errors()[raw[:4]]
    return Refusal(name, tuple(abi.decode(types, raw[4:])))


@cache
def errors() -> dict[bytes, tuple[str, list[str]]]:
    """Return the errors of all rules and of other contracts by their selectors, and the compiler's own."""
    found = {keccak(text="Panic(uint256)")[:4]: ("Panic", ["uint256"])}
    found[keccak(text="Error(string)")[:4]] = ("Error", ["string"])
    for name in (*RULES, "Opset1", "Examiner", "Court", "Jobs", "Notary", "Referee", "Judge"):
        for item in load_artifact(name).abi:
            if item["type"] == "error":
                types = [one["type"] for one in item["inputs"]]
                found[keccak(text=f"{item['name']}({','.join(types)})")[:4]] = (item["name"], types)
    return found
