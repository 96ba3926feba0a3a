"""Time to send all that may be requested of a claimant at once, estimated before a stake is given.

The protocol gives seconds for each open piece (docs/protocol.md, section 8), and a node sends one transaction of
answers after the other. What it takes to compute them is `CostEstimate.answer_s`.
"""

from __future__ import annotations

from referee_py.params import LOG_SECONDS, MAX_OPEN, RECORD_SECONDS, RESPONSE_BYTES

from ..chain import JobView
from ..reason import Reason
from ..run.cost_estimate import MARGIN, CostEstimate

MAX_BATCH_BYTES, MAX_BATCH_GAS = 100_000, 12_000_000
"""Limits of one transaction: public nodes relay 131,072 bytes; a transaction may have 16.7 million gas (EIP-7825)."""
ENTRY_BYTES = 128
"""Upper bound on the bytes that a batch adds to a response: its offset, its length, padding, the batch's head."""
LEAST_BATCH = MAX_BATCH_BYTES // (RESPONSE_BYTES + ENTRY_BYTES)
"""Records and leaves that one transaction takes at least, however long they are; of pages of logs it takes one."""


class TooManyPieces(Reason):
    text = (
        "to send {pieces} pieces that may be requested at once, in {batches} transactions, may take us "
        "{takes_s:.0f} s; they have {limit} s (block_s)"
    )
    pieces: int
    batches: int
    takes_s: float
    limit: int


class LogsTooSlow(Reason):
    text = (
        "{pages} pages of logs that may be requested at once have {limit} s each; to read a step's logs may take us "
        "{takes_s:.0f} s"
    )
    pages: int
    limit: int
    takes_s: float


def too_many_pieces(job: JobView, estimate: CostEstimate, mined_s: float) -> Reason | None:
    """Return why not to stake on a job, or None: all the pieces that may be open at once would not be sent in time.

    The protocol gives `RECORD_SECONDS` for each record or leaf, `LOG_SECONDS` for each page of logs; one transaction
    takes `LEAST_BATCH` of the former, or one page. In a mode with logs both may be asked for at once.
    """
    batches, logs = -(-MAX_OPEN // LEAST_BATCH), job.program.arithmetic.follows_logs
    sending = MARGIN * mined_s * batches
    if logs:
        # NOTE: while the pages are sent, which have more time, records and leaves take their share of the blocks.
        share = LOG_SECONDS / (RECORD_SECONDS * LEAST_BATCH)
        batches, sending = MAX_OPEN, MARGIN * mined_s * MAX_OPEN * (1 + share)
    limit = MAX_OPEN * (LOG_SECONDS if logs else RECORD_SECONDS)
    if sending > limit:
        return TooManyPieces(MAX_OPEN, batches, sending, limit)
    reading = MARGIN * estimate.commit_s
    return LogsTooSlow(MAX_OPEN, LOG_SECONDS, reading) if logs and reading > LOG_SECONDS else None
