"""The chain as a daemon sees it: pinned reads, one transaction manager per key, and no trust in the RPC endpoint."""

from referee_py.jobs import JobPhase

from .client import ChainClient, Snapshot
from .codec.hearing import HearingInfo
from .codec.job import ClaimView, Group, JobView, Trainer
from .codec.match import MatchInfo, Seat
from .codec.trial import TrialInfo
from .contracts import Contracts, Deployment
from .endpoints import connect
from .fees import FeeRule
from .outbox import Call, Receipt
from .releases import Releases
from .retrace import MatchTrace, recorded, retrace, retraced, transactions_of
from .rpc import guarded
from .transactions import TransactionManager
from .view import Finality, ViewRule

__all__ = [
    "Call",
    "ChainClient",
    "ClaimView",
    "Contracts",
    "Deployment",
    "FeeRule",
    "Finality",
    "Group",
    "HearingInfo",
    "JobPhase",
    "JobView",
    "MatchInfo",
    "MatchTrace",
    "Receipt",
    "Releases",
    "Seat",
    "Snapshot",
    "Trainer",
    "TransactionManager",
    "TrialInfo",
    "ViewRule",
    "connect",
    "guarded",
    "recorded",
    "retrace",
    "retraced",
    "transactions_of",
]
