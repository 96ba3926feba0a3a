"""The contract Pledges, as a client or a server uses it: what is pledged, challenges, and how they are decided."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from web3 import Web3
from web3.contract import Contract

from referee_py.errors import InvalidInput
from referee_py.execute import Run, State, StepTrace
from referee_py.jobs import Rules
from referee_py.program.modes import USUAL
from trainer_node.chain import Call, ChainClient, JobView, Receipt
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.codec.base import View
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.chain.events import Event, Query, read_events
from trainer_node.chain.majority import agreed
from trainer_node.chain.rpc import guarded
from trainer_node.errors import Reverted, RpcCorrupt, WrongChain
from trainer_node.local.bundle import Bundle
from trainer_node.run.modes import backend_of

from .pledge_address import CONTRACT, address_of, is_deployed
from .receipt import Signed

T = TypeVar("T")
SLOTS = 16
"""Slots of each challenge's job."""
NEWEST = 64
"""Open challenges that are searched for one's own."""
RESIGNING = 32
"""The part of its stake that Jobs takes of who gives a slot back."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of a pledge, in the order of the contract's struct. Wei and seconds."""

    signer: str
    forfeit: int
    charge: int
    notice: int
    stake: int
    low_fee: int
    high_fee: int
    train_period: int
    reveal_period: int
    challenge_period: int
    rules: Rules

    @property
    def words(self) -> tuple[Any, ...]:
        """The contract's struct."""
        return (
            *(getattr(self, one.name) for one in dataclasses.fields(self)[:-1]),
            dataclasses.astuple(self.rules),
        )


@dataclass(frozen=True, slots=True)
class Pledge:
    """A pledge. ``leaves_at``: the instant from which no receipt can be challenged; 0 while it stays. ``opened`` and
    ``decided`` count its challenges."""

    conditions: bytes
    amount: int
    leaves_at: int
    opened: int
    decided: int

    def left(self, conditions: Conditions) -> int:
        """Return the wei that no open challenge may take."""
        return max(0, self.amount - conditions.forfeit * (self.opened - self.decided))


@dataclass(frozen=True, slots=True)
class Open:
    """A challenge that is not decided; ``digest`` is that of the receipt's typed data, ``closes_at`` the instant until
    which what its job has accepted can be shown, once that is asked for."""

    challenger: str
    job_id: int
    closes_at: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Challenged:
    """A challenge as its event tells of it: whose pledge, its number there, and the id of the receipt in hex."""

    owner: str
    number: int
    answer: str


@dataclass(frozen=True)
class Written:
    """Slot 0 after a run, under its run root, as `decide` takes it."""

    root: bytes
    value: bytes
    words: tuple[Any, ...]


NOTHING_WRITTEN: tuple[Any, ...] = (bytes(32), [], 0, 0, [], (bytes(32), [], [], bytes(32)), [])
"""The same of a job that accepted nothing."""

_PLEDGE = View(Pledge, CONTRACT, "pledgeOf")
_OPEN = View(Open, CONTRACT, "challengeOf")


def written(bundle: Bundle) -> Written:
    """Compute the run of a receipt, and return what it writes, with the proof."""
    run = Run.of(bundle, backend_of("cpu"))
    traces: list[StepTrace] = []

    def keep(_: State, trace: StepTrace | None) -> None:
        if trace is not None:
            traces[:] = [trace]

    claim, source = run.commit_run(keep).claim(), bundle.program.slots[0]
    (trace,) = traces
    record = trace.records[source.node]
    proof = (
        claim.last,
        list(claim.path),
        source.node,
        source.output,
        bundle.program.slot_path(0),
        (record.structure, list(record.inputs), list(record.outputs), record.log),
        trace.tree.path(source.node),
    )
    return Written(claim.root, record.outputs[source.output], proof)


class Pledges:
    """The contract at an address. Every method raises RpcUnavailable or RpcCorrupt.

    SAFETY: what it shows of pledges and challenges is what most endpoints show: one alone could hide a challenge from
    the node that has to answer it, or make up a pledge.
    """

    def __init__(self, client: ChainClient, address: str) -> None:
        """Raises WrongChain if this is not the address of the deployment's contract, or nothing is there."""
        self._client, self.address = client, Web3.to_checksum_address(address)
        if self.address != (right := address_of(client)):
            raise WrongChain(
                f"{self.address} is not the contract {CONTRACT} of this deployment, which is at {right} only"
            )
        if not is_deployed(client):
            raise WrongChain(
                f"there is no contract {CONTRACT} at {right} yet; deploy it: assay pledge deploy"
            )
        self.contract: Contract = client.web3.eth.contract(
            address=self.address, abi=load_artifact(CONTRACT).abi, decode_tuples=True
        )

    # ------------------------------------------------------------------ views

    def conditions(self, owner: str) -> Conditions:
        """Return the conditions of a pledge, which never change, from its first event. Raises InvalidInput for none."""
        known, last = self.pledge(owner).conditions, self._newest()

        def read() -> Conditions | None:
            every = (
                _conditions(one.args["conditions"]) for one in self._events(last, "Pledged", int(owner, 16))
            )
            return next((one for one in every if hash_of(one) == known), None)

        if (found := self._most(read)) is not None:
            return found
        raise InvalidInput(f"{owner} has pledged nothing at {self.address}")

    def pledge(self, owner: str) -> Pledge:
        return self._most(lambda: _PLEDGE.read("a pledge", self._view("pledgeOf", owner)))

    def open(self, owner: str, number: int) -> Open:
        """Return a challenge that is not decided."""
        return self._most(lambda: _OPEN.read("a challenge", self._view("challengeOf", owner, number)))

    def open_of(self, owner: str, challenger: str) -> Open | None:
        """Return an open challenge by an account, if it is among the `NEWEST` ones of a pledge."""
        kept = self.pledge(owner)
        for number in reversed(range(max(kept.decided, kept.opened - NEWEST), kept.opened)):
            if (found := self.open(owner, number)).challenger == challenger:
                return found
        return None

    def challenged(self, job: JobView) -> Challenged | None:
        """Return which challenge has posted a job, from its event, if there is one. Raises RpcUnavailable on a tie: the
        answer is kept."""
        head = self._client.snapshot().block
        first = self._client.first_block(job, head)

        def read() -> Challenged | None:
            for event in self._events(head.number, "Challenged", None, None, job.id, first=first):
                args = event.args
                return Challenged(str(args["owner"]), int(args["number"]), bytes(args["backed"].answer).hex())
            return None

        what = f"the challenge of job {job.id}"
        return agreed(endpoints_of(self._client.web3), read, what=what, alone=True)

    def number_of(self, receipt: Receipt) -> tuple[int, int]:
        """Return numbers of a challenge and of its job from the receipt of its transaction. Raises RpcCorrupt."""
        event = self.contract.events["Challenged"]()
        for log in receipt.logs:
            if bytes(log["topics"][0]) == bytes.fromhex(str(event.topic).removeprefix("0x")):
                args = event.process_log(log)["args"]
                return int(args["number"]), int(args["jobId"])
        raise RpcCorrupt(f"the receipt of {receipt.tx_hash.hex()} has no event of a challenge")

    def is_wrong(self, digest: bytes) -> bool:
        """Return whether a receipt was shown wrong."""
        return self._most(lambda: bool(self._view("isWrong", digest)))

    def committed_at(self, commitment: bytes) -> int:
        """Return the second of the chain in which a commitment was made; 0 if it was not."""
        return self._most(lambda: int(self._view("committedAt", commitment)))

    def refuses(self, conditions: Conditions) -> str | None:
        """Return why Jobs would take no job of these conditions, whatever the program; None if it would."""
        contracts = self._client.contracts
        program = (1, USUAL.byte, 1, 1, 0, 1, *(bytes(32),) * 4, [1])
        periods = (conditions.train_period, 0, conditions.reveal_period, conditions.challenge_period)
        offered = (SLOTS, conditions.stake, conditions.low_fee, conditions.high_fee, *periods)
        referee = self._client.deployment.referee
        terms: tuple[Any, ...] = (
            program,
            bytes(32),
            "",
            referee,
            *offered,
            dataclasses.astuple(conditions.rules),
            [],
        )
        try:
            with guarded("check", contracts.decode_error):
                contracts.notary.functions.check(terms).call()
        except Reverted as error:
            return str(error)
        return None

    # ------------------------------------------------------------------ calls

    def pledging(self, conditions: Conditions, wei: int) -> Call:
        return Call.of(self.contract, "pledge", conditions.words, value=wei)

    def notice(self, conditions: Conditions) -> Call:
        return Call.of(self.contract, "giveNotice", conditions.words)

    def reclaim(self) -> Call:
        return Call.of(self.contract, "reclaim")

    def withdraw(self) -> Call:
        return Call.of(self.contract, "withdraw")

    def commit(self, commitment: bytes) -> Call:
        return Call.of(self.contract, "commit", commitment)

    def challenge(
        self, conditions: Conditions, signed: Signed, bundle: Bundle, uri: str, least: int, salt: bytes
    ) -> Call:
        """Return the call that challenges a receipt with a pledge behind it."""
        assert signed.backed is not None
        program = dataclasses.astuple(bundle.terms)
        given = (conditions.words, signed.backed.words, signed.backed_signature, program, uri, least, salt)
        return Call.of(self.contract, "challenge", *given, value=conditions.charge)

    def decide(self, conditions: Conditions, signed: Signed, proof: tuple[Any, ...]) -> Call:
        """Return the call that decides the first challenge that is not decided, which must be of this receipt."""
        assert signed.backed is not None
        return Call.of(self.contract, "decide", conditions.words, signed.backed.words, proof)

    def close(self, conditions: Conditions, signed: Signed) -> Call:
        """Return the call that closes that challenge because nobody shows what its job has accepted."""
        assert signed.backed is not None
        return Call.of(self.contract, "close", conditions.words, signed.backed.words)

    def _newest(self) -> int:
        return self._client.snapshot().block.number

    def _events(self, last: int, name: str, *words: int | None, first: int | None = None) -> Iterator[Event]:
        client, query = self._client, Query(self.contract, words, (name,))
        first = client.deployment.block if first is None else first
        return read_events(client.web3, query, first, last, client.log_range)

    def _most(self, read: Callable[[], T]) -> T:
        return agreed(endpoints_of(self._client.web3), read)

    def _view(self, function: str, *given: Any) -> Any:
        with guarded(function):
            return self.contract.functions[function](*given).call()


def commitment(sender: str, digest: bytes, salt: bytes) -> bytes:
    """Return what a challenger commits to."""
    return keccak(encode(["address", "bytes32", "bytes32"], [sender, digest, salt]))


def new_salt() -> bytes:
    return secrets.token_bytes(32)


def least_stake(forfeit: int, charge: int) -> int:
    """Return the least stake, in wei, that the contract takes with these: to take all slots of a challenge's job and
    give them back costs a forfeit at least, and one of them a charge."""
    return RESIGNING * max(-(-forfeit // SLOTS), charge)


def hash_of(conditions: Conditions) -> bytes:
    """Return the hash by which the contract knows conditions."""
    plain = "address,uint96,uint96,uint32,uint256,uint64,uint64,uint32,uint32,uint32"
    return keccak(encode([f"({plain},(uint8,uint32,uint32,uint32))"], [conditions.words]))


def _conditions(raw: Any) -> Conditions:
    names = (one.name for one in dataclasses.fields(Conditions))
    values = zip(names, (*raw[:-1], Rules(*raw[-1])), strict=True)
    return Conditions(**dict(values))
