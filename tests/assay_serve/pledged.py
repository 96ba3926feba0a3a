"""A server with a pledge behind its receipts: its answers, its lies, and a chain on which they are challenged."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from eth_account import Account
from eth_account.signers.local import LocalAccount
from web3 import Web3

from assay_serve.answer import Answer, Parameters
from assay_serve.answer_run import AnswerRuns, backed_by, bundle_of
from assay_serve.backed import Backing
from assay_serve.engine import Capacity, Engine
from assay_serve.model import Model
from assay_serve.pledge_address import address_of, deploying
from assay_serve.pledges import Conditions, Pledges, commitment, written
from assay_serve.receipt import Signed
from assay_serve.store import receipt_of
from referee_py.jobs import Rules
from referee_py.jobs import commitment as claim_commitment
from trainer_node.chain import Call, ChainClient, Receipt, TransactionManager
from trainer_node.chain.contracts import error_decoder
from trainer_node.local.bundle import Bundle
from trainer_node.storage.database import Database

from . import tiny

ETHER = 10**18
BURNED = "0x000000000000000000000000000000000000dEaD"
FORFEIT, CHARGE, NOTICE, PERIOD = ETHER // 2, ETHER // 40, 100_000, 600
"""The most that a stake of an ether allows of a forfeit, and somewhat less of a charge."""
SECONDS = 50_000
COUNT = 12
SALT = bytes(31) + b"\5"
PARAMETERS = Parameters(0.5, 0, 1.0, 11)


def conditions(signer: str, stake: int, **other: Any) -> Conditions:
    usual = Conditions(
        signer=signer,
        forfeit=FORFEIT,
        charge=CHARGE,
        notice=NOTICE,
        stake=stake,
        low_fee=10**9,
        high_fee=10**11,
        train_period=PERIOD,
        reveal_period=PERIOD,
        challenge_period=PERIOD,
        rules=Rules(0, PERIOD, PERIOD, PERIOD),
    )
    return dataclasses.replace(usual, **other)


def answered(model: Model, backing: Backing, instant: int, text: str = "hi", count: int = COUNT) -> Signed:
    """Return the receipt of an honest answer."""
    prompt = tuple(model.prompt_of_messages([{"role": "user", "content": text}]))
    engine = Engine(model, Capacity(rows=1, chunk=8))
    answer = Answer(model, prompt, PARAMETERS, count, (), frozenset(), lambda _: None)
    engine.submit([answer])
    while answer.end is None:
        engine.turn()
    return receipt_of(model, answer, tiny.ACCOUNT, instant, (backing, AnswerRuns(model)))


def lying(model: Model, backing: Backing, signed: Signed, tokens: Sequence[int]) -> Signed:
    """Return the receipt in which the same server says that these are the tokens."""
    lists = dataclasses.replace(signed.lists, tokens=tuple(tokens))
    runs = AnswerRuns(model)
    told = Signed.by(
        tiny.ACCOUNT, signed.receipt.model_dump(), lists, lambda one: backed_by(backing, runs, one, lists)
    )
    return Signed.from_bytes(told.to_bytes())


def one_wrong(signed: Signed, number: int = 5) -> list[int]:
    """Return the tokens of an answer, one of them another."""
    tokens = list(signed.lists.tokens)
    tokens[number - 1] = (tokens[number - 1] + 1) % 261
    return tokens


@dataclass
class Ground:
    """A chain with the contracts and an empty Pledges. Accounts are made as they are needed."""

    web3: Web3
    client: ChainClient
    pledges: Pledges
    stake: int
    gas: dict[str, int] = field(default_factory=dict)
    """Gas of the last transaction of each name."""
    accounts: set[str] = field(default_factory=lambda: {BURNED})

    @classmethod
    def on(cls, web3: Web3, client: ChainClient, deployer: TransactionManager, stake: int) -> Ground:
        receipt = deployer.send(deploying(client))
        found = cls(web3, client, Pledges(client, address_of(client)), stake)
        found.gas["deploy"] = receipt.gas_used
        return found

    def account(self, key: LocalAccount | None = None) -> TransactionManager:
        """Return a new account with ether."""
        account = key or Account.create()
        self.accounts.add(account.address)
        self.web3.provider.make_request("anvil_setBalance", [account.address, hex(1000 * ETHER)])  # type: ignore[arg-type]
        return TransactionManager(
            self.web3,
            account,
            Database(None),
            chain_id=self.client.deployment.chain_id,
            decode=error_decoder(),
            poll_s=0.01,
        )

    def pledged(self, wei: int = 2 * FORFEIT, **other: Any) -> tuple[TransactionManager, Conditions, Backing]:
        """Let a new account pledge for the server's key."""
        owner, terms = self.account(), conditions(tiny.ACCOUNT.address, self.stake, **other)
        self.send(owner, self.pledges.pledging(terms, wei))
        chain = self.client.deployment.chain_id
        return owner, terms, Backing(chain, self.pledges.address, owner.address, SECONDS)

    @property
    def now(self) -> int:
        return int(self.web3.eth.get_block("latest")["timestamp"])

    def skip(self, seconds: int) -> None:
        for method, params in (("evm_increaseTime", [seconds]), ("evm_mine", [])):
            self.web3.provider.make_request(method, params)  # type: ignore[arg-type]

    def send(self, key: TransactionManager, call: Call) -> Receipt:
        receipt = key.send(call)
        self.gas[call.action] = receipt.gas_used
        return receipt

    def commit(self, who: TransactionManager, signed: Signed) -> None:
        assert signed.backed is not None
        self.send(who, self.pledges.commit(commitment(who.address, signed.backed.digest, SALT)))
        self.skip(2)

    def challenge(
        self, who: TransactionManager, terms: Conditions, signed: Signed, bundle: Bundle, least: int = 0
    ) -> int:
        """Commit to a challenge and make it; return the job's number."""
        self.commit(who, signed)
        uri = "http://127.0.0.1:9"
        self.send(who, self.pledges.challenge(terms, signed, bundle, uri, least, SALT))
        return int(self.client.contracts.jobs.functions.jobCount().call())

    def accept(self, bundle: Bundle, *numbers: int) -> None:
        """Let one trainer claim the run in these jobs, and nobody dispute it."""
        proof = written(bundle)
        self.accept_root(proof.root, proof.words[0], proof.words[1], numbers)

    def accept_root(self, root: bytes, last: bytes, path: Sequence[bytes], numbers: Sequence[int]) -> None:
        """Let one trainer claim a root in these jobs, and nobody dispute it."""
        jobs, trainer = self.client.contracts.jobs, self.account()
        for job in numbers:
            self.send(trainer, Call.of(jobs, "join", job, value=2 * self.stake))
            where = self.client.deployment.chain_id, str(jobs.address), job, trainer.address
            bound = claim_commitment(*where, root, last, bytes(32), SALT)
            self.send(trainer, Call.of(jobs, "commit", job, bound))
        self.skip(PERIOD)
        for job in numbers:
            claim = (root, last, list(path), "")
            self.send(trainer, Call.of(jobs, "reveal", job, claim, bytes(32), SALT))
        self.pass_over(*numbers)

    def pass_over(self, *numbers: int) -> None:
        """Let jobs end."""
        self.skip(3 * PERIOD)
        for job in numbers:
            self.send(self.account(), Call.of(self.client.contracts.jobs, "finalize", job))

    def check_money(self) -> None:
        """Check that the contract has exactly what it owes: credits, pledges, and charges of open challenges."""
        owed = sum(map(self.credit, self.accounts))
        for account in self.accounts:
            kept = self.pledges.pledge(account)
            owed += kept.amount + CHARGE * (kept.opened - kept.decided)
        assert self.web3.eth.get_balance(self.pledges.contract.address) == owed

    def credit(self, address: str) -> int:
        return int(self.pledges.contract.functions.credit(address).call())


def run_of(model: Model, signed: Signed) -> Bundle:
    return bundle_of(AnswerRuns(model), signed)
