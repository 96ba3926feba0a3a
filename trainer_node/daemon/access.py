"""From a node's settings to the chain: its endpoints, its deployment, whose code is checked, and its account."""

from __future__ import annotations

import contextlib
from typing import Any

from eth_account.signers.base import BaseAccount
from web3 import Web3

from referee_py.errors import AssayError

from ..chain import ChainClient, Deployment, Releases, TransactionManager, connect
from ..chain.contracts import error_decoder
from ..chain.endpoints import endpoints_of
from ..chain.recorded_reads import Notes
from ..errors import ChainError, ConfigError, DiskFailed, ReleaseRefused
from ..observe.metrics import Metrics
from ..settings.settings import Settings
from ..storage.database import Database

_VERIFIED = "verified deployment"


def transaction_manager(
    settings: Settings, web3: Web3, account: BaseAccount, database: Database, **watched: Any
) -> TransactionManager:
    """Return a transaction manager with the settings' prices; ``watched`` are its metrics and its ``stop``."""
    return TransactionManager(
        web3,
        account,
        database,
        chain_id=settings.chain_id,
        decode=error_decoder(),
        fees=settings.fees.policy(),
        poll_s=min(settings.poll_s, 0.5),
        replace_after_s=settings.fees.replace_after_s,
        **watched,
    )


def open_web3(settings: Settings, metrics: Metrics | None = None) -> Web3:
    """Return a connection to the settings' chain, within the limits of this node."""
    limits = settings.limits
    web3 = connect(
        settings.rpc_url,
        settings.chain_id,
        timeout_s=limits.rpc_timeout_s,
        max_bytes=limits.rpc_bytes,
        metrics=metrics,
        lost=None if "rpc_url" in settings.model_fields_set else settings.lost,
    )
    endpoints = endpoints_of(web3)
    for endpoint in endpoints.every:
        for name in ("rpc_failures", "rpc_disagreements"):
            endpoints.metrics.start(name, endpoint.name)
    return web3


def open_client(
    settings: Settings, metrics: Metrics | None = None, database: Database | None = None
) -> ChainClient:
    """Return a client of the settings' deployment, which a file or a list of releases names. Its code is verified, once
    for each ``database``: no contract of ours can change, and a restart in a dispute must not wait for forty requests.

    Raises ConfigError, ReleaseRefused, RpcUnavailable, RpcCorrupt, WrongChain.
    """
    release = settings.release
    if (settings.releases is None) != (release is None):
        raise ConfigError("`releases` and `release` go together: the list's address, and a version in it")
    # NOTE: the wrong chain is said before a file that is missing: the file's name follows from the chain's id.
    web3 = open_web3(settings, metrics)
    if settings.releases is None or release is None:
        file, lost = settings.deployment_file, settings.lost
        if settings.deployment is None and lost is not None and not file.exists():
            raise ConfigError(f"{file} is missing, and {lost}, or set deployment")
        return _client(settings, web3, Deployment.load(file), database)
    return _client_of_release(settings, web3, Releases(web3, settings.releases), release, database)


def _client_of_release(
    settings: Settings, web3: Web3, releases: Releases, release: str, database: Database | None
) -> ChainClient:
    """SAFETY: an endpoint that tells another release, or none, is passed over; and the others must confirm what is
    taken before anything is staked."""
    failed: AssayError | None = None
    for endpoint in endpoints_of(web3).ranked():
        notes = Notes()
        try:
            with endpoints_of(web3).through(endpoint), endpoints_of(web3).noting(notes.add):
                deployment = releases.deployment(release, settings.chain_id)
            client = _client(settings, web3, deployment, database)
        except (ReleaseRefused, ChainError) as error:
            failed = failed or error
        else:
            client.constants.extend(notes)
            return client
    assert failed is not None
    raise failed


def _client(settings: Settings, web3: Web3, deployment: Deployment, database: Database | None) -> ChainClient:
    client = ChainClient(web3, deployment, policy=settings.view_policy, log_range=settings.limits.log_range)
    # NOTE: a database belongs to one chain, by its first block (`Connection.identity`), so a new development chain with
    # the same addresses is no way around this.
    if database is None or database.get(_VERIFIED, "") != deployment.digest:
        client.verify()
        with contextlib.suppress(DiskFailed):  # a full disk must not keep a node from its disputes
            if database is not None:
                database.put(_VERIFIED, deployment.digest)
    return client
