"""The chain as a daemon sees it: pinned reads, one transaction manager per key, and no trust in the RPC endpoint."""

from referee_py.jobs import JobPhase

from .client import ChainClient, Snapshot
from .contracts import Contracts, Deployment, deployment_path, load_artifact
from .fees import FeePolicy
from .hearings import HearingInfo, TrialInfo
from .matches import MatchInfo
from .outbox import Call, Receipt
from .releases import Release, Releases
from .retrace import recorded, retrace, transactions_of
from .rpc import connect, guarded
from .transactions import TransactionManager
from .views import ClaimView, Group, JobView, Trainer

__all__ = [
    "Call",
    "ChainClient",
    "ClaimView",
    "Contracts",
    "Deployment",
    "FeePolicy",
    "Group",
    "HearingInfo",
    "JobPhase",
    "JobView",
    "MatchInfo",
    "Receipt",
    "Release",
    "Releases",
    "Snapshot",
    "Trainer",
    "TransactionManager",
    "TrialInfo",
    "connect",
    "deployment_path",
    "guarded",
    "load_artifact",
    "recorded",
    "retrace",
    "transactions_of",
]
