"""The client's part: post a job for a bundle, and serve its artifacts."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from referee_py.commit.structs import hints_of
from referee_py.errors import AssayError, InvalidInput
from referee_py.jobs import Rules
from referee_py.program.terms import Terms

from ..chain import ChainClient, Receipt, TransactionManager
from ..chain.codec.job import JobTerms, post_call
from ..chain.fees import GWEI
from ..chain.outbox import Call
from ..errors import RpcCorrupt
from ..local.bundle import Bundle
from ..network.fetcher import Fetcher
from ..network.uri import check_uri
from ..run.package import check_size, package_names
from ..settings.sections import DAY_S
from ..settings.settings import LOCAL_CHAINS
from ..stake.admission import APPEALS, CLOCK, VERDICTS
from ..stake.occupation import POSTED_S
from ..storage.artifacts import Kind, Name
from ..storage.store import Store

SERVED_S = 3.0
"""Seconds in which whoever serves a job's artifacts answers its client."""
FETCHED_S = 30.0
"""Seconds for the whole of its program."""


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods and the clock of a job, in seconds."""

    reveal: int
    challenge: int
    clock: int
    verdict: int
    appeal: int


LOCAL = Periods(reveal=600, challenge=3600, clock=7200, verdict=1800, appeal=1800)
PUBLIC = Periods(
    reveal=POSTED_S[VERDICTS],  # as for a verdict, a trainer has moves of its other jobs to compute first
    challenge=DAY_S,
    clock=POSTED_S[CLOCK],
    verdict=POSTED_S[VERDICTS],
    appeal=POSTED_S[APPEALS],
)
"""Periods of a job on a development chain and elsewhere, if the client chooses no others. On public chains these are
those for which nodes keep themselves free (`stake.occupation`)."""


def default_periods(chain_id: int) -> Periods:
    """Return what a job is posted with on a chain, if the client chooses nothing else."""
    return LOCAL if chain_id in LOCAL_CHAINS else PUBLIC


@dataclass(frozen=True, slots=True)
class Offer:
    """The client's terms for a job, apart from the program. Wei and seconds."""

    reward: int
    stake: int
    low_fee: int = GWEI
    """Least price that a unit of gas counts for; `high_fee` is the most."""
    high_fee: int = 10**11
    slots: int = 1
    train_period: int = 3600
    watch_period: int = 0
    """Seconds after the last trainer's commitment in which nobody reveals."""
    reveal_period: int = LOCAL.reveal
    challenge_period: int = LOCAL.challenge
    clock: int = LOCAL.clock
    verdict_period: int = LOCAL.verdict
    appeal_period: int = LOCAL.appeal
    verifiers: tuple[str, ...] = ()
    """Addresses of the verifiers; with none, the court alone judges."""
    threshold: int = 0
    """Number of verifiers that make a verdict; 0 is a majority."""
    bounty: int = 0
    """Bounty for those who watch the job; `bounty_shares` is the number of shares."""
    bounty_shares: int = 4

    @property
    def rules(self) -> Rules:
        votes = (self.threshold or len(self.verifiers) // 2 + 1) if self.verifiers else 0
        return Rules(votes, self.verdict_period, self.appeal_period, self.clock)


def check_offer(bundle: Bundle, offer: Offer, uri: str) -> None:
    """Raise InvalidInput or InvalidProgram for an offer that nobody could take, without a look at the tensors."""
    check_uri(uri)
    check_size(bundle.terms)
    arithmetic = bundle.terms.arithmetic
    if offer.bounty and not arithmetic.watchable:
        raise InvalidInput(
            f"nobody can watch a job of {arithmetic.name}: nobody but the trainer knows the root before its logs are "
            "revealed"
        )


def post_job(
    client: ChainClient,
    transactions: TransactionManager,
    store: Store,
    bundle: Bundle,
    offer: Offer,
    uri: str,
) -> tuple[int, Receipt]:
    """Put the bundle into the store and the job on the chain. Returns the job's number and the receipt.

    The terms are computed again from the program and the tensors. Raises InvalidProgram or HashMismatch if the bundle
    disagrees with them, Reverted if the contract refuses the offer.
    """
    check_offer(bundle, offer, uri)
    bundle.terms.check(bundle.program)
    bundle.program.check_tensors(bundle.constants, bundle.initial)
    file_hash = bundle.put(store)
    names = package_names(bundle.program, file_hash)
    if file_hash != hashlib.sha256(bundle.program.to_bytes()).digest():
        raise InvalidInput("the program file changed while it was read; build the bundle again")
    jobs = client.contracts.jobs
    terms = job_terms(bundle.terms, file_hash, uri, client.deployment.referee, offer)
    function, given = post_call(terms)
    receipt = transactions.send(Call.of(jobs, function, *given, value=offer.reward))
    for log in receipt.logs:
        if str(log["address"]).lower() == str(jobs.address).lower():
            event = jobs.events["Posted"]()
            if bytes(log["topics"][0]) == bytes.fromhex(str(event.topic).removeprefix("0x")):
                job_id = int(event.process_log(log)["args"]["jobId"])
                store.held_by(job_id).hold(*names)
                if offer.bounty:
                    fund_bounty(client, transactions, job_id, offer)
                return job_id, receipt
    raise RpcCorrupt(
        f"the receipt of {receipt.tx_hash.hex()} has no Posted event; is it the right Jobs contract?"
    )


def not_served(program_file: bytes, uri: str) -> str | None:
    """Return why a job's program cannot be fetched at its address now; None if it can."""
    with tempfile.TemporaryDirectory() as folder:
        fetcher = Fetcher(Store(Path(folder), sync=False), timeout_s=SERVED_S, attempts=1, budget_s=FETCHED_S)
        try:
            fetcher.fetch(Name(Kind.BLOB, program_file), [uri])
        except AssayError as error:
            return str(error)
    return None


def fund_bounty(client: ChainClient, transactions: TransactionManager, job_id: int, offer: Offer) -> Receipt:
    """Fund the bounty of a job's watchers. Raises Reverted if the contract refuses it."""
    contracts = client.contracts
    given = client.deployment.jobs, job_id, offer.bounty_shares
    return transactions.send(Call.of(contracts.watch, "fund", *given, value=offer.bounty))


def job_terms(program: Terms, file_hash: bytes, uri: str, referee: str, offer: Offer) -> JobTerms:
    """Return the terms of a job that the client offers."""
    offered = {name: getattr(offer, name) for name in hints_of(JobTerms) if hasattr(offer, name)}
    return JobTerms(program, file_hash, uri, referee, **offered)
