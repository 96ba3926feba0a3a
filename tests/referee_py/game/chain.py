"""The real contracts on a local anvil, over raw JSON-RPC batches: fast enough for thousands of games.

Blocks are mined by hand. In one block many games make a move each, all at one instant. The games share only the clock
and the burned ether, so their order in the block does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

import referee_py
from trainer_node.chain.contracts import RULES, TABLES

NAMES = (
    *("Timekeeper", "VerifierRegistry", "Opset1", "Examiner", "Court", "Panel"),
    *("Judge", "Referee", "DataAvailability", "Notary", "Jobs"),
)
COMMIT_AGE = 2
DEPLOYER, GUARDIAN = "0x" + "d0" * 20, "0x" + "60" * 20
ABI_DIR = Path(referee_py.__file__).parent / "abi"
GAS, GAS_PRICE = hex(15_000_000), hex(1_000)
"""NOTE: base fees here are a few wei, and stakes a few hundred wei."""
ANVIL_OPTIONS = (
    "--no-mining",
    "--auto-impersonate",
    "--gas-limit",
    "100000000000",
    "--gas-price",
    "0",
    "--block-base-fee-per-gas",
    "0",
    "--prune-history",
)

Request = tuple[str, list[Any]]


def available() -> bool:
    return all((ABI_DIR / f"{name}.json").exists() for name in (*RULES, *NAMES))


def _type(item: dict[str, Any]) -> str:
    if not item["type"].startswith("tuple"):
        return str(item["type"])
    inner = ",".join(_type(part) for part in item["components"])
    return f"({inner}){item['type'].removeprefix('tuple')}"


class Contract:
    """Encodes calls of a contract from its ABI, and knows the names of its errors."""

    def __init__(self, name: str) -> None:
        artifact = json.loads((ABI_DIR / f"{name}.json").read_text())
        self.bytecode = artifact["bytecode"].removeprefix("0x")
        self.runtime = artifact["deployedBytecode"]
        self.address = ""
        self.functions: dict[str, tuple[bytes, list[str], list[str]]] = {}
        self.errors: dict[str, str] = {}
        self.topics: dict[str, bytes] = {}
        self.constructor: list[str] = []
        self.structs: dict[str, list[str]] = {}
        """Names of the fields of the struct that each function returns."""
        for item in artifact["abi"]:
            inputs = [_type(part) for part in item.get("inputs", ())]
            selector = keccak(text=f"{item.get('name')}({','.join(inputs)})")
            match item["type"]:
                case "function":
                    outputs = [_type(part) for part in item["outputs"]]
                    self.functions[item["name"]] = (selector[:4], inputs, outputs)
                    parts = item["outputs"][0].get("components", ()) if outputs else ()
                    self.structs[item["name"]] = [part["name"] for part in parts]
                case "event":
                    self.topics[item["name"]] = selector
                case "error":
                    self.errors["0x" + selector[:4].hex()] = item["name"]
                case "constructor":
                    self.constructor = inputs

    def calldata(self, function: str, *arguments: object) -> bytes:
        selector, inputs, _ = self.functions[function]
        return selector + encode(inputs, arguments)

    def decode(self, function: str, data: str) -> Any:
        values = decode(self.functions[function][2], bytes.fromhex(data[2:]))
        return values[0] if len(values) == 1 else values

    def named(self, function: str, data: str) -> dict[str, Any]:
        """Return the struct that a function returned, by field names."""
        return dict(zip(self.structs[function], self.decode(function, data), strict=True))


@dataclass
class Transaction:
    """One call to be mined. ``hash`` is set once it is sent."""

    sender: str
    to: str
    data: bytes
    value: int = 0
    hash: str = ""

    def wire(self) -> dict[str, str]:
        call = {"from": self.sender, "data": "0x" + self.data.hex(), "value": hex(self.value), "gas": GAS}
        call["gasPrice"] = GAS_PRICE
        return {**call, "to": self.to} if self.to else call


class Chain:
    """anvil with all contracts deployed."""

    base_fee = 0
    """Base fee of the next block, in wei for a unit of gas."""

    def __init__(self, url: str, min_stake: int, leave_delay: int, pause_budget: int = 0) -> None:
        """Deploy the contracts. A stake is worth at least ``min_stake`` units of gas, at a wei or more each."""
        self._http = httpx.Client(base_url=url, timeout=60)
        self.timekeeper, self.registry, opset, examiner, self.court, self.panel, *rest = map(Contract, NAMES)
        self.judge, self.referee, self.data_availability, self.notary, self.jobs = rest
        contracts = (*map(Contract, RULES), self.registry, examiner, self.court, self.panel, self.referee)
        contracts += self.judge, self.data_availability, self.notary, self.jobs, self.timekeeper
        self.errors = {selector: name for c in contracts for selector, name in c.errors.items()}
        self.now = int(self.batch([("eth_getBlockByNumber", ["latest", False])])[0]["timestamp"], 16)
        self.fund([DEPLOYER, GUARDIAN])
        rules = {name: f"0x{0xE1E0 + k:040x}" for k, name in enumerate(RULES)}
        self.batch([("anvil_setCode", [rules[name], Contract(name).runtime]) for name in RULES])
        self._deploy(DEPLOYER, self.timekeeper, GUARDIAN, pause_budget)
        self._deploy(DEPLOYER, self.registry, 1, leave_delay, self.timekeeper.address)
        self._deploy(DEPLOYER, opset, *([rules[name] for name in names] for names in TABLES))
        self._deploy(DEPLOYER, examiner, opset.address)
        self._deploy(DEPLOYER, self.court, examiner.address, self.timekeeper.address)
        self._deploy(DEPLOYER, self.panel, self.court.address, self.registry.address)
        self._deploy(DEPLOYER, self.judge)
        self._deploy(DEPLOYER, self.referee, self.judge.address, self.panel.address)
        self._deploy(DEPLOYER, self.data_availability, self.timekeeper.address)
        self._deploy(DEPLOYER, self.notary, self.registry.address, min_stake, 1, COMMIT_AGE + 1)
        self._deploy(DEPLOYER, self.jobs, self.notary.address, self.data_availability.address, COMMIT_AGE)

    def batch(self, requests: Sequence[Request]) -> list[Any]:
        """Return results in the order of the requests; an error is returned as the JSON-RPC error object."""
        if not requests:
            return []
        body = [
            {"jsonrpc": "2.0", "id": k, "method": method, "params": params}
            for k, (method, params) in enumerate(requests)
        ]
        answers = sorted(self._http.post("/", json=body).json(), key=lambda answer: answer["id"])
        return [answer.get("result", answer.get("error")) for answer in answers]

    def request(self, method: str, given: list[Any]) -> Any:
        """Return one result, or the JSON-RPC error object."""
        return self.batch([(method, given)])[0]

    def fund(self, accounts: Sequence[str]) -> None:
        self.batch([("anvil_setBalance", [account, hex(10**24)]) for account in accounts])

    def mine(self, transactions: Sequence[Transaction], now: int) -> list[bool]:
        """Mine one block at ``now``; return for each transaction whether it was accepted."""
        self.batch([("anvil_setNextBlockBaseFeePerGas", [hex(self.base_fee)])])
        hashes = self.batch([("eth_sendTransaction", [t.wire()]) for t in transactions])
        self.batch([("evm_mine", [{"timestamp": now}])])
        self.now = now
        receipts = self.batch([("eth_getBlockReceipts", ["latest"])])[0]
        status = {receipt["transactionHash"]: receipt["status"] == "0x1" for receipt in receipts}
        self.receipts = {receipt["transactionHash"]: receipt for receipt in receipts}
        for transaction, tx_hash in zip(transactions, hashes, strict=True):
            assert isinstance(tx_hash, str), tx_hash
            transaction.hash = tx_hash
        return [status[transaction.hash] for transaction in transactions]

    def refusals(self, transactions: Sequence[Transaction], now: int) -> list[str | None]:
        """Return for each transaction the name of its error in a block at ``now``, or None if it is accepted."""
        requests: list[Request] = [
            ("eth_call", [t.wire(), "latest", {}, {"time": hex(now), "baseFee": hex(self.base_fee)}])
            for t in transactions
        ]
        return [self._error(answer) for answer in self.batch(requests)]

    def _error(self, answer: Any) -> str | None:
        if isinstance(answer, str):
            return None
        data = answer.get("data") or ""
        name = self.errors.get(data[:10], f"unknown {data[:10]} {answer.get('message')}")
        return "ECDSAInvalidSignature" if name.startswith("ECDSAInvalidSignature") else name

    def read(self, contract: Contract, calls: Sequence[tuple[str, tuple[object, ...]]]) -> list[str]:
        """Return raw results of views at the latest block."""
        requests: list[Request] = []
        for function, arguments in calls:
            data = "0x" + contract.calldata(function, *arguments).hex()
            requests.append(("eth_call", [{"to": contract.address, "data": data}, "latest"]))
        return self.batch(requests)

    def _deploy(self, sender: str, contract: Contract, *arguments: object) -> None:
        code = bytes.fromhex(contract.bytecode) + encode(contract.constructor, arguments)
        transaction = Transaction(sender, "", code)
        (accepted,) = self.mine([transaction], self.now + 1)
        assert accepted, "the contract cannot be deployed"
        contract.address = self.receipts[transaction.hash]["contractAddress"]


def words(data: str) -> list[int]:
    """Return the 32-byte words of a static result."""
    return [int(data[i : i + 64], 16) for i in range(2, len(data), 64)]
