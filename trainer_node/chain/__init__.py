"""The chain as a daemon sees it: pinned reads, one transaction manager per key, and no trust in the RPC endpoint."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from referee_py.jobs import JobPhase

    from .client import ChainClient
    from .codec.hearing import HearingInfo
    from .codec.job import ClaimView, Group, JobView, Trainer
    from .codec.match import MatchInfo, Seat
    from .codec.trial import TrialInfo
    from .contracts import Contracts, Deployment
    from .counted_blocks import Finality, ViewRule
    from .endpoints import connect
    from .fees import FeeRule
    from .outbox import Call, Receipt
    from .releases import Releases
    from .retrace import MatchTrace, recorded, retraced, transactions_of
    from .rpc import guarded
    from .snapshot import Snapshot
    from .transactions import TransactionManager

_PLACES = {
    "JobPhase": "referee_py.jobs",
    "ChainClient": ".client",
    "Snapshot": ".snapshot",
    "HearingInfo": ".codec.hearing",
    "ClaimView": ".codec.job",
    "Group": ".codec.job",
    "JobView": ".codec.job",
    "Trainer": ".codec.job",
    "MatchInfo": ".codec.match",
    "Seat": ".codec.match",
    "TrialInfo": ".codec.trial",
    "Contracts": ".contracts",
    "Deployment": ".contracts",
    "connect": ".endpoints",
    "FeeRule": ".fees",
    "Call": ".outbox",
    "Receipt": ".outbox",
    "Releases": ".releases",
    "MatchTrace": ".retrace",
    "recorded": ".retrace",
    "retraced": ".retrace",
    "transactions_of": ".retrace",
    "guarded": ".rpc",
    "TransactionManager": ".transactions",
    "Finality": ".counted_blocks",
    "ViewRule": ".counted_blocks",
}


def __getattr__(name: str) -> Any:
    """Load a name of this package when it is first asked for. INVARIANT: no name is that of a module in here.

    NOTE: settings and local runs use what is light in here; web3 alone takes a second to load.
    """
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_PLACES[name], __name__), name)
    globals()[name] = value
    return value


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
    "retraced",
    "transactions_of",
]
