"""Why a move is refused: one class for each custom error of the contracts, by the same name.

Refusal
├── of a match      contracts/interfaces/IReferee.sol
├── of a proof      contracts/commit/
└── of a job        contracts/interfaces/IJobs.sol
"""

from __future__ import annotations

from ..errors import IllegalMove


class Refusal(IllegalMove):
    """Base of the refusals; the name of the class is the name of the contract's error."""


def require(holds: bool, refusal: type[Refusal], *values: object) -> None:
    """One guard a line. The values say what was found, and what was wanted."""
    if not holds:
        what = (refusal.__doc__ or refusal.__name__).strip().rstrip(".")
        raise refusal(f"{what}: {', '.join(map(show, values))}" if values else what)


def show(value: object) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


# --- of a match -------------------------------------------------------------------------------------------------


class WrongPhase(Refusal):
    """The match or job does not wait for a move of this kind (have, want)."""


class Late(Refusal):
    """A side has run out of time, only a timeout may follow (mask)."""


class NotLate(Refusal):
    """A timeout while nobody is late."""


class BadSide(Refusal):
    """A side other than 0 and 1."""


class AlreadyPosted(Refusal):
    """That side has published its half at this position."""


class WrongNode(Refusal):
    """Something that does not hash to the side's node (side, have, want)."""


class BadDescent(Refusal):
    """A descent goes down at least min(height, 4) levels and at most height (levels, height)."""


class PathsDiffer(Refusal):
    """The two paths of a descent differ in length."""


class ChildOutOfRange(Refusal):
    """No such descendant (child, levels)."""


class NoDifference(Refusal):
    """Both sides agree on the node, so it is not the difference."""


class EarlierDifference(Refusal):
    """The trees differ already to the left of this child (level)."""


class PreviousNotNeeded(Refusal):
    """A checkpoint before the interval where there is none to agree on."""


class NotSpokesman(Refusal):
    """Only the spokesman of a side may post a new root (sender, spokesman)."""


class WellFormed(Refusal):
    """Both records are well formed, so there is nothing to say about their structure."""


class Malformed(Refusal):
    """A record is not well formed, so only its structure may be judged (mask)."""


class InputsEqual(Refusal):
    """The records do not differ in that input."""


class InputsDiffer(Refusal):
    """The records differ in an input, so the operator is not in dispute (input)."""


class LogsEqual(Refusal):
    """The records do not differ in their logs."""


class LogsDiffer(Refusal):
    """The records differ in their logs, so the operator is not in dispute."""


class UnknownOperand(Refusal):
    """A structure names a kind of operand that does not exist."""


class ForwardReference(Refusal):
    """An input names a node that is not earlier, so it cannot be agreed (source, node)."""


# --- of a proof -------------------------------------------------------------------------------------------------


class WrongPathLength(Refusal):
    """A path must have exactly as many siblings as the tree is deep (have, want)."""


class IndexOutOfTree(Refusal):
    """No such leaf (index, depth)."""


class WrongChildCount(Refusal):
    """A level must have exactly as many nodes as asked for (have, want)."""


class PathMismatch(Refusal):
    """The path does not lead to the committed root (have, want)."""


class StructureTooLong(Refusal):
    """The encoding is longer than any structure may be."""


class StructureTruncated(Refusal):
    """The encoding ends before what its header announces."""


class NoSuchInput(Refusal):
    """The node has no such input (input, count)."""


# --- of a job ---------------------------------------------------------------------------------------------------


class WrongStake(Refusal):
    """The value is not the job's stake (have, want)."""


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
    """The sender has committed to nothing in this job."""


class TooSoon(Refusal):
    """What a challenge was committed to with is too young until that second."""


class WrongCommitment(Refusal):
    """The claim is not what the sender committed to (have, want)."""


class UnexpectedLogs(Refusal):
    """The mode of the job has no rounding logs."""


class NothingRevealed(Refusal):
    """No trainer has revealed a claim, so there is nothing to challenge."""


class AlreadyClaimed(Refusal):
    """The sender has a claim in this job."""


class RootClosed(Refusal):
    """The challenge phase is over, and no claim of this root was lost, or the time to claim it again is over, too."""


class ReclaimsOpen(Refusal):
    """The root of a dead group can still be claimed again (until)."""


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


class NothingToPay(Refusal):
    """The account has no credit."""
