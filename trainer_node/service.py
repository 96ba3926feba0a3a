"""The frame of a daemon: its resources while it runs, and a loop that survives errors.

    with open_daemon(settings, "trainer") as node:      lock, log, database, store, server, chain, key
        Service(node, bot.tick).run()                 until SIGTERM or SIGINT; the current act is finished first

An error in a round is logged and shown by /readyz, and the round is retried after growing delays.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import structlog
from eth_account.signers.local import LocalAccount
from web3 import Web3

from referee_py.errors import AssayError, Unavailable

from .chain import ChainClient, Deployment, Releases, TransactionManager, connect
from .chain.agreement import Notes
from .chain.contracts import error_decoder
from .chain.endpoints import endpoints_of
from .chain.events import MIN_DEPTH, EventCache
from .config import Settings
from .db import Database
from .errors import ConfigError, RpcUnavailable
from .fetch import Fetcher
from .keys import load_account
from .logs import configure_logging
from .metrics import Metrics
from .process import exclusive, stop_on_signals
from .progress import Board
from .reserve import Reserve
from .server import ArtifactServer
from .store import Store

MAX_BACKOFF_S = 60.0
_PORT = "artifact server port"
T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass
class Daemon:
    """The resources of a daemon. ``transactions`` is None for a daemon without a key."""

    settings: Settings
    role: str
    metrics: Metrics
    database: Database
    store: Store
    fetcher: Fetcher
    server: ArtifactServer
    client: ChainClient
    transactions: TransactionManager | None
    stop: threading.Event = field(default_factory=threading.Event)
    problems: dict[str, str] = field(default_factory=dict)
    """Reasons why the daemon is not ready, by topic; /readyz shows them."""
    board: Board = field(default_factory=Board)
    """Reports about runs, which the server shows."""
    reserve: Reserve = field(init=False)
    """Wei that jobs on which we have staked may still take (`funds`)."""

    def __post_init__(self) -> None:
        self.reserve = Reserve(lambda: self.client.block().number, self._pending)

    def _pending(self) -> bool:
        return self.transactions is not None and bool(self.transactions.open())

    @property
    def web3(self) -> Web3:
        return self.client.web3

    @property
    def public_uri(self) -> str:
        """The address at which others find our artifacts."""
        return self.settings.public_uri or self.server.uri

    @property
    def address(self) -> str | None:
        """Our account; None without a key."""
        return self.transactions.address if self.transactions else None

    def spare(self, job: int = 0) -> int:
        """Return the wei of our account that no job other than this one may need; without a key we have none."""
        free = self.transactions.free() if self.transactions else 0
        return free - self.reserve.for_others(job)


@contextlib.contextmanager
def open_daemon(settings: Settings, role: str, *, key: bool = True) -> Iterator[Daemon]:
    """Open all resources of a daemon and release them at the end. Wait for an RPC endpoint that does not answer yet.

    Raises AlreadyRunning, ConfigError, KeystoreError, SchemaMismatch, WrongChain.
    """
    configure_logging(settings.log_format, settings.log_level)
    with contextlib.ExitStack() as stack:
        stack.enter_context(exclusive(settings.data_dir / "lock", f"data directory {settings.data_dir}"))
        account = None
        if key:
            account = load_account(settings)
            # SAFETY: two nodes with one key would use each other's nonces, even with separate data directories.
            stack.enter_context(exclusive(settings.keystore_path, f"key {settings.keystore_path}"))
        metrics = Metrics()
        database = Database(settings.data_dir / "node.sqlite3")
        stack.callback(database.close)
        limits = settings.limits
        store = Store(settings.data_dir / "artifacts", max_bytes=limits.artifact_bytes)
        stop = threading.Event()
        fetcher = Fetcher(
            store,
            timeout_s=limits.fetch_timeout_s,
            min_rate=limits.fetch_rate,
            budget_s=limits.fetch_budget_s,
            stop=stop,
        )
        problems: dict[str, str] = {"start": "still starting"}
        board = Board()
        server = _serve(settings, database, store, problems, metrics, board)
        stack.callback(server.stop)
        with stop_on_signals(stop):
            client = _patiently(stop, problems, lambda: open_client(settings, metrics))
            _patiently(stop, problems, lambda: database.bind(client.identity()))
            client.cache = EventCache(database, depth=max(limits.log_range // 2, MIN_DEPTH))
            transactions = None
            if account is not None:
                transactions = transaction_manager(
                    settings, client.web3, account, database, metrics=metrics, stop=stop
                )
            del problems["start"]
            node = Daemon(
                settings,
                role,
                metrics,
                database,
                store,
                fetcher,
                server,
                client,
                transactions,
                stop,
                problems,
                board,
            )
            _log.info(
                "node.open", role=role, address=node.address, artifacts=server.uri, chain=settings.chain_id
            )
            yield node
            _log.info("node.closed", role=role)


def _serve(
    settings: Settings,
    database: Database,
    store: Store,
    problems: dict[str, str],
    metrics: Metrics,
    board: Board,
) -> ArtifactServer:
    """Start the artifact server. NOTE: claims name its address on-chain, so a free port, once chosen, is kept."""
    remembered: int = database.get(_PORT, 0)
    ports = [settings.port] if settings.port else list(dict.fromkeys([remembered, 0]))
    for attempt, port in enumerate(ports, 1):
        server = ArtifactServer(
            store,
            settings.host,
            port,
            readiness=lambda: [f"{topic}: {reason}" for topic, reason in sorted(problems.items())],
            registry=metrics.registry,
            board=board,
        )
        try:
            server.start()
        except ConfigError as error:
            if attempt == len(ports):
                raise
            _log.warning("node.port_taken", port=port, reason=str(error))
            continue
        break
    database.put(_PORT, server.port)
    return server


class Service:
    """Calls ``tick`` every ``poll_s`` seconds until the node is told to stop."""

    def __init__(self, node: Daemon, tick: Callable[[], None]) -> None:
        self._node = node
        self._tick = tick
        self._failures = 0
        self._recovered = False

    def run(self) -> None:
        """Call rounds until SIGTERM, SIGINT or ``node.stop``. The act in progress is finished first."""
        while not self._node.stop.is_set():
            self._node.stop.wait(self.round())

    def round(self) -> float:
        """Do one round. Return the seconds to wait before the next one. Never raises an Exception."""
        problems, metrics = self._node.problems, self._node.metrics
        try:
            if not self._recovered and self._node.transactions is not None:
                self._node.transactions.confirm()
            self._recovered = True
            self._tick()
        except Unavailable as error:
            problems["chain" if isinstance(error, RpcUnavailable) else "data"] = str(error)
            metrics.set("rpc_up", not isinstance(error, RpcUnavailable))
            result = "unavailable"
            _log.warning("tick.unavailable", reason=str(error), failures=self._failures + 1)
        except AssayError as error:
            problems["tick"] = f"{type(error).__name__}: {error}"
            result = "error"
            _log.error("tick.error", error=type(error).__name__, reason=str(error))
        except Exception as error:
            # NOTE: a bug in one round must not stop a defence whose clock runs: it is logged, and the round is retried.
            problems["tick"] = f"{type(error).__name__}: {error}"
            result = "bug"
            _log.exception("tick.bug")
        else:
            for topic in ("chain", "data", "tick"):
                problems.pop(topic, None)
            metrics.set("rpc_up", 1)
            metrics.add("ticks", "ok")
            self._failures = 0
            return self._node.settings.poll_s
        metrics.add("ticks", result)
        self._failures += 1
        return min(self._node.settings.poll_s * 2.0 ** min(self._failures - 1, 10), MAX_BACKOFF_S)


def transaction_manager(
    settings: Settings, web3: Web3, account: LocalAccount, database: Database, **watched: Any
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
    return connect(
        settings.rpc_url,
        settings.chain_id,
        timeout_s=limits.rpc_timeout_s,
        max_bytes=limits.rpc_bytes,
        metrics=metrics,
    )


def open_client(settings: Settings, metrics: Metrics | None = None) -> ChainClient:
    """Return a client of the settings' deployment, which a file or a list of releases names. Its code is verified.

    Raises ConfigError, ReleaseRefused, RpcUnavailable, RpcCorrupt, WrongChain.
    """
    release = settings.release
    if (settings.releases is None) != (release is None):
        raise ConfigError("`releases` and `release` go together: the list's address, and a version in it")
    # NOTE: the wrong chain is said before a file that is missing: the file's name follows from the chain's id.
    web3 = open_web3(settings, metrics)
    constants = Notes()
    if settings.releases is None or release is None:
        deployment = Deployment.load(settings.deployment_file)
    else:
        with endpoints_of(web3).noting(constants.add):
            deployment = Releases(web3, settings.releases).deployment(release, settings.chain_id)
    client = ChainClient(web3, deployment, policy=settings.policy, log_range=settings.limits.log_range)
    client.constants.kept += constants.kept
    client.verify()
    return client


def _patiently(stop: threading.Event, problems: dict[str, str], act: Callable[[], T]) -> T:
    """Call ``act`` until the chain answers. Raises the last error if ``stop`` is set before."""
    wait = 0.5
    while True:
        try:
            return act()
        except RpcUnavailable as error:
            problems["start"] = str(error)
            _log.warning("node.waiting_for_chain", reason=str(error))
            if stop.wait(wait):
                raise
            wait = min(wait * 2, MAX_BACKOFF_S)
