"""The Court on a local chain, and trials that two parties play on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eth_typing import ChecksumAddress
from web3 import HTTPProvider, Web3

from referee_py.commit.structs import words
from referee_py.errors import AssayError
from referee_py.gas_schedule import Counts
from referee_py.trial import Move, NodesReveal, ShowLeaf, Stage, TrialState, apply, open_trial
from referee_py.trial.calldata import position_hash
from referee_py.trial.solver import plan
from referee_py.walk.dispute import Dispute, TrialTerms, dispute_hash
from tests.conftest import Anvil
from tests.referee_py.trial.parties import Known, Setting
from tests.support.counts import counts_of
from tests.support.planned import moves_of, planned
from tests.support.solidity import compiled
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.codec.trial import trial_call
from trainer_node.chain.contracts import RULES, TABLES


@dataclass
class Played:
    losers: int
    late: bool
    names: list[str]
    """The functions that each transaction calls."""
    gas: list[int]
    counts: list[Counts]
    """What each transaction leaves behind."""
    state: TrialState


class Stand:
    """A court with all rules, and a trial client that opens trials."""

    def __init__(self, anvil: Anvil) -> None:
        self.web3 = Web3(HTTPProvider(anvil.url))
        accounts = self.web3.eth.accounts[:3]
        self.deployer = accounts[0]
        self.players: list[ChecksumAddress] = list(accounts[1:])
        rules = {name: self._deploy(name) for name in RULES}
        opset = self._deploy("Opset1", *([rules[name] for name in names] for names in TABLES))
        artifact = load_artifact("Court")
        keeper = self._deploy("Timekeeper", self.deployer, 0)
        self.court = self.web3.eth.contract(
            self._deploy("Court", self._deploy("Examiner", opset), keeper), abi=artifact.abi
        )
        client = compiled("tests/contracts/court/TrialClient.sol", "TrialClient")
        address = self._create(client.abi, client.bytecode, self.court.address)
        self.client = self.web3.eth.contract(address, abi=client.abi)
        self.trials, self.last = 0, ""
        """Number of trials so far, and hash of the last transaction."""

    def _deploy(self, name: str, *arguments: Any) -> ChecksumAddress:
        artifact = load_artifact(name)
        return self._create(artifact.abi, artifact.bytecode, *arguments)

    def _create(self, abi: Any, bytecode: bytes, *arguments: Any) -> ChecksumAddress:
        made = self.web3.eth.contract(abi=abi, bytecode=bytecode)
        sent = made.constructor(*arguments).transact({"from": self.deployer})
        address = self.web3.eth.wait_for_transaction_receipt(sent, poll_latency=0.005)["contractAddress"]
        assert address is not None
        return address

    def open(self, setting: Setting, clock: int = 1000) -> TrialTerms:
        self.trials += 1
        call = self.client.functions.open(self.trials, self.players, clock, words(setting.dispute))
        self._send(call, self.deployer)
        players = self.players[0], self.players[1]
        return TrialTerms(self.client.address, self.trials, players, dispute_hash(setting.dispute))

    def play(self, setting: Setting, served: bool, clock: int = 1000, *, one_by_one: bool = False) -> Played:
        """Play to the end, or move by move. After every transaction the contract's trial equals the Python rules'."""
        trial = self.open(setting, clock)
        state = open_trial(setting.dispute, (self.players[0], self.players[1]), (clock, clock), self.now())
        known = [Known(setting.sides[1 - side].outputs if served else None) for side in (0, 1)]
        names, gas, counts = list[str](), list[int](), list[Counts]()
        while state.stage is not Stage.DONE:
            before = state
            for side in (0, 1):
                moves = moves_of(
                    plan(state, setting.dispute, side, setting.sides[side], known[side], self.now())
                )
                if not moves:
                    continue
                moves = moves[:1] if one_by_one else moves
                names.append("+".join(trial_call(m, trial, setting.dispute, state)[0] for m in moves))
                gas.append(self.send(trial, setting.dispute, state, moves, side))
                counts.append(counts_of(self._request, self.last))
                for move in moves:
                    state = apply(state, setting.dispute, move, self.players[side], self.now())
                    if isinstance(move, NodesReveal):
                        known[1 - side].revealed = move.children
                    if isinstance(move, ShowLeaf):
                        known[1 - side].shown = move.leaf
                self.same(trial, state)
            assert state != before, "somebody can always move"
        losers, late = self.client.functions.results(self.trials).call()
        return Played(losers, late, names, gas, counts, state)

    def send(
        self, trial: TrialTerms, dispute: Dispute, state: TrialState, moves: list[Move], side: int
    ) -> int:
        """Send these moves in one transaction, and return its gas."""
        now, by = self.now(), self.players[side]
        made = planned(state, moves, lambda at, move: apply(at, dispute, move, by, now))
        calls = [self.court.encode_abi(*trial_call(move, trial, dispute, before)) for move, before in made]
        return self._send(self.court.functions.multicall(calls), self.players[side])

    def same(self, trial: TrialTerms, state: TrialState) -> None:
        found = self.court.functions.getTrial(trial.trial()).call()
        named = dict(zip((item["name"] for item in self._fields()), found, strict=True))
        assert Stage(named["stage"]) is state.stage
        assert named["losers"] == state.losers
        assert (named["clock0"], named["clock1"]) == state.clock
        if state.stage is not Stage.DONE:
            assert named["posted"] == state.posted
            assert (named["height"], named["index"]) == (state.height, state.index)
            assert named["position"] == position_hash(state)
        if state.steps:
            assert named["element"] == state.element
            assert (named["kind"], named["written"]) == (state.entry.kind, state.entry.written)
            assert (named["lo"], named["hi"], named["steps"]) == (state.lo, state.hi, state.steps)
            assert named["stateBytes"] == state.state_bytes

    def errors(self) -> list[Any]:
        """Return the errors of the court, of its libraries and of the rules."""
        abis = (load_artifact(name).abi for name in ("Court", "Examiner", *RULES))
        return [item for abi in abis for item in abi if item["type"] == "error"]

    def wait(self, seconds: int) -> None:
        for method, given in (("evm_increaseTime", [seconds]), ("evm_mine", [])):
            self.web3.provider.make_request(method, given)  # type: ignore[arg-type]

    def now(self) -> int:
        return int(self.web3.eth.get_block("latest")["timestamp"])

    def _fields(self) -> Any:
        found: Any
        (found,) = [item for item in self.court.abi if item.get("name") == "getTrial"]
        return found["outputs"][0]["components"]

    def _request(self, method: str, given: list[Any]) -> Any:
        return self.web3.provider.make_request(method, given)["result"]  # type: ignore[arg-type]

    def _send(self, call: Any, sender: str) -> int:
        sent = call.transact({"from": sender})
        receipt = self.web3.eth.wait_for_transaction_receipt(sent, poll_latency=0.005)
        self.last = sent.to_0x_hex()
        if receipt["status"] != 1:
            raise AssayError(f"reverted: {call.fn_name}")
        return int(receipt["gasUsed"])
