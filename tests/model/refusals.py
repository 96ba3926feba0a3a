"""Refusals of moves in a job: one class for each custom error of `IJobs`, with the same name."""

from __future__ import annotations

from referee_py.walk.refusals import Refusal


class NoFreeSlot(Refusal):
    """Every slot of the job is taken."""


class AlreadyJoined(Refusal):
    """The sender holds a slot of this job."""


class NotTrainer(Refusal):
    """The sender holds no slot of this job."""


class AlreadyCommitted(Refusal):
    """The sender has committed in this job."""


class EmptyCommitment(Refusal):
    """A commitment of zero."""


class NothingCommitted(Refusal):
    """The sender has not committed to this, or to nothing at all."""


class TooSoon(Refusal):
    """What a challenge was committed to with is too young until that second."""


class WrongCommitment(Refusal):
    """What a slot holder reveals is not what it committed to (have, want)."""


class UnexpectedLogs(Refusal):
    """The mode of the job has no rounding logs."""


class NothingRevealed(Refusal):
    """No trainer has revealed a claim, so there is nothing to challenge."""


class AlreadyClaimed(Refusal):
    """The sender has a claim in this job."""


class RootClosed(Refusal):
    """The challenge phase is over, and no claim of this root was lost, or the time to claim it again or to refute it is
    over, too."""


class NothingToRefute(Refusal):
    """No claim of this root lives, or the job's logs are withheld (job, root)."""


class NoSuchInterval(Refusal):
    """The run tree has fewer leaves (interval, count)."""


class SameCheckpoint(Refusal):
    """A refutation that does not differ from what it refutes."""


class ReclaimsOpen(Refusal):
    """A root can still be claimed again, or refuted because a refutation of it has lost (until)."""


class JobRuns(Refusal):
    """What claims get is known when the job is over."""


class NoSuchClaim(Refusal):
    """The job has no claim of that number (job, claim)."""


class LostClaim(Refusal):
    """A lost claim gets nothing (job, claim)."""


class AlreadyCollected(Refusal):
    """What the claim gets has been credited (job, claim)."""


class MatchesOpen(Refusal):
    """A job is closed when all its matches have ended (job, count)."""


class RequestsOpen(Refusal):
    """Something is requested of what would be accepted (job, count)."""


class GroupPlays(Refusal):
    """What is requested of a root is lost when its match is over (job, root)."""
