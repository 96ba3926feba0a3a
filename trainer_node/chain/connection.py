"""The connection to one deployment: its contracts, and blocks by number."""

from __future__ import annotations

import math

from web3 import Web3

from ..errors import ChainError
from .agreement import Agreement
from .block import Block, block_of, block_request
from .codec.job import JobView
from .contracts import Contracts, Deployment
from .counted_blocks import ViewRule
from .endpoints import endpoints_of
from .events import EventCache
from .log_range import LogRange
from .majority import agreed, answers, low, most_of
from .opcodes import Needs
from .recorded_reads import BLOCK, Notes
from .rpc import guarded

DEFAULT_LOG_RANGE = 10_000
"""Blocks that one request for logs spans at most; public endpoints refuse more."""
ASKED_S = 60.0
"""Seconds after which a number that never changes is asked for again, if too few endpoints have given it."""


class Connection:
    """State that all snapshots of one deployment share. Cheap to keep; safe for several threads."""

    def __init__(
        self,
        web3: Web3,
        deployment: Deployment,
        *,
        policy: ViewRule | None = None,
        log_range: int = DEFAULT_LOG_RANGE,
        cache: EventCache | None = None,
    ) -> None:
        self.web3 = web3
        self.deployment = deployment
        self.contracts = Contracts(web3, deployment)
        self.endpoints = endpoints_of(web3)
        self.agreement = Agreement(self.endpoints, policy or ViewRule())
        self.constants = Notes()
        """Source of the deployment, until enough endpoints have confirmed it."""
        self.log_range = LogRange(log_range)
        self.cache = cache
        self.needs: Needs | None = None
        """Needs of the deployed code, once it was verified."""
        self.matches: dict[int, dict[int, None]] = {}
        """By job: the matches that any snapshot has seen open."""
        self._commit_age: int | None = None
        """The age that was given last."""
        self._ask_at = -math.inf
        """The instant from which on it is asked for."""
        self._first_blocks: dict[int, tuple[int, int]] = {}
        """By job: the instant of its posting, and a block that is no later than its first event."""

    def first_block(self, job: JobView, before: Block) -> int:
        """Return a block that is no later than the one with the job's first event, found by its time, once.

        NOTE: contracts are never ahead of the chain in time, so the block may be too early, but not too late.
        """
        posted, found = self._first_blocks.get(job.id, (None, 0))
        if posted != job.posted:
            # NOTE: after a reorganisation a number may stand for another job.
            low, high = self.deployment.block, before.number
            while low < high:
                middle = (low + high) // 2
                if self.agreed_block(middle).timestamp < job.posted:
                    low = middle + 1
                else:
                    high = middle
            self._first_blocks[job.id], found = (job.posted, low), low
        return found

    def forget(self, job_id: int) -> None:
        """Drop what is remembered of a job that is over. It can be read again."""
        self.matches.pop(job_id, None)
        self._first_blocks.pop(job_id, None)

    def verify(self) -> None:
        """Check the deployment (:meth:`Contracts.verify`). Call it once at the start."""
        self.needs = self.contracts.verify()

    def identity(self, pinned: str | None = None) -> str:
        """Return chain id, genesis hash and Jobs address: a daemon's database belongs to these. ``pinned``: to which it
        belongs already. Raises RpcUnavailable if endpoints disagree, unless some show the pinned one.

        NOTE: a daemon must come up in the middle of a match, though half of its endpoints have another first block. The
        known block (:mod:`.known`) tells them apart then.
        """
        found = [
            f"{self.deployment.chain_id}:{genesis.hash.hex()}:{self.deployment.jobs.lower()}"
            for genesis in answers(self.endpoints, lambda: self.block(0), for_good=True)
        ]
        if pinned is not None and 2 * found.count(pinned) >= len(found):
            return pinned
        return most_of(found, "the chain's first block")

    def agreed_block(self, number: int) -> Block:
        """Return the block of a number that most endpoints have."""
        return agreed(self.endpoints, lambda: self.block(number))

    def head(self) -> int:
        """Return the number of the newest block that most endpoints have; of two endpoints, the lower one's.

        SAFETY: what one endpoint says once must not keep a node from anything for as long as it runs.
        """
        return low(answers(self.endpoints, lambda: self.block().number, None))

    def commit_age(self) -> int:
        """Return the least age of a commitment for a challenge, in seconds of the chain: what most endpoints give; on a
        tie, what the serving one gives. Raises RpcUnavailable and RpcCorrupt until somebody has given it.

        SAFETY: it never changes, so it is kept. What too few of several endpoints have given counts for a while, or
        one lie would keep a node from every challenge.
        """
        if self.endpoints.clock() >= self._ask_at:

            def asked() -> int:
                with guarded("COMMIT_AGE"):
                    return int(self.contracts.jobs.functions.COMMIT_AGE().call())

            try:
                found = answers(self.endpoints, asked)
            except ChainError:
                if self._commit_age is None:
                    raise
                return self._commit_age
            self._commit_age = most_of(found)
            kept = 2 * found.count(self._commit_age) > len(self.endpoints.every)
            self._ask_at = math.inf if kept else self.endpoints.clock() + ASKED_S
        assert self._commit_age is not None
        return self._commit_age

    def block(self, number: int | None = None) -> Block:
        """Return a block by number, by default the latest. Raises RpcUnavailable if the endpoint does not have it."""
        at = "latest" if number is None else number
        return block_of(self.endpoints.make_request(BLOCK, block_request(at)), at)
