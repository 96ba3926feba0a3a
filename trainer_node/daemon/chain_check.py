"""The check of the chain at a daemon's start: could a stake there be defended?"""

from __future__ import annotations

import structlog

from ..chain import ChainClient
from ..chain.abi import Build
from ..chain.contracts import needs_of
from ..chain.fitness import NEEDED, check_chain, logged
from ..errors import ChainError, RpcUnavailable, UnfitChain
from ..observe.findings import State
from ..settings.settings import Settings
from ..stake.duty_book import has_duties
from ..stake.min_stake import schedule_of
from ..storage.database import Database

_log = structlog.get_logger(__name__)


def require_defensible(settings: Settings, client: ChainClient, database: Database, *, stakes: bool) -> None:
    """Log what the chain lacks. Raises RpcUnavailable, and UnfitChain if a node that ``stakes`` could not defend that.

    SAFETY: a node that has something at stake comes up all the same, whatever its endpoints say of the chain: what can
    still be done there, it must do.
    """
    needs, lacks = client.needs or needs_of(Build.STANDARD), []
    try:
        stated = schedule_of(client.at_head().stake_gas)
        for finding in logged(check_chain(client.web3, needs, settings.chain_rule, stated)):
            if finding.state is State.FAIL and finding.name in NEEDED:
                lacks.append(str(finding))
    except RpcUnavailable:
        raise
    except ChainError as error:
        _log.warning("chain.not_checked", reason=str(error))
    if lacks and stakes and not has_duties(database):
        raise UnfitChain("; ".join(lacks))
