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
from functools import partial
from typing import TypeVar

import structlog
from web3 import Web3

from referee_py.errors import AssayError, Unavailable

from ..chain import ChainClient, JobView, TransactionManager
from ..chain.events import MIN_DEPTH, EventCache
from ..errors import ChainError, ConfigError, DiskFailed, KeystoreError, RpcUnavailable
from ..network.artifact_server import ArtifactServer
from ..network.fetcher import Fetcher
from ..network.peer_costs import Peers
from ..observe.build import Build
from ..observe.logs import configure_logging
from ..observe.metrics import Metrics
from ..observe.problems import Problems
from ..observe.run_reports import Board
from ..observe.systemd import Notifier
from ..settings.settings import Settings
from ..stake.admission import Means
from ..stake.duty_book import DutyBook
from ..stake.gas_patience import Market, gas_market
from ..stake.reserved_ether import Reserve
from ..storage.database import Database
from ..storage.disk import Ballast, free_bytes
from ..storage.disk_keeper import Keeper
from ..storage.process import exclusive, stop_on_signals
from ..storage.retention import Policy, usage
from ..storage.store import Store
from .access import open_client, transaction_manager
from .account_gauges import Gauges
from .chain_check import require_defensible
from .helping import GasBudget, max_gas_loss
from .keys import hold_account, require_key
from .notices import Notices
from .remembered import Remembered
from .remote_signer import RemoteAccount
from .single_use import alone

MAX_BACKOFF_S = 60.0
RESTORED_S = 3.0
"""Least seconds for which a node that was restored from a backup watches whether its key is in use elsewhere."""
IDLE_POLLS = 10
"""An idle node does one round in so many: providers count requests, and nothing of ours can be due."""
RECOVERY_S = 60.0
"""Seconds that a daemon that starts waits for the transactions of an earlier process."""
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
    peers: Peers
    server: ArtifactServer
    client: ChainClient
    transactions: TransactionManager | None
    stop: threading.Event = field(default_factory=threading.Event)
    problems: Problems = field(default_factory=Problems)
    """Present problems, by topic; /readyz shows them."""
    board: Board = field(default_factory=Board)
    """Reports about runs, which the server shows."""
    keeper: Keeper = field(kw_only=True)
    """Keeps room on the disk."""
    idle: bool = field(default=False, kw_only=True)
    """True if no job concerned us in the last round, and nothing of ours is computed or waits to be mined."""
    notifier: Notifier = field(kw_only=True)
    """Tells the service manager how we do."""
    remembered: Remembered = field(default_factory=Remembered, kw_only=True)
    """Facts about jobs, kept in memory until they are over."""
    notices: Notices = field(init=False)
    """Messages to the operator about disputes."""
    reserve: Reserve = field(init=False)
    """Wei that jobs on which we have staked may still take (`funds`)."""
    duties: DutyBook = field(init=False)
    """Duties in jobs on which we have staked, which may all be due at once (`admission`)."""
    gas: GasBudget = field(init=False)
    """Wei that may be spent on gas for other parties."""
    gauges: Gauges = field(init=False)
    """Jobs and money, as the metrics show them."""

    def __post_init__(self) -> None:
        self.gas = GasBudget(self.database, max_gas_loss(self.settings))
        self.gauges = Gauges(self.metrics, self.address)
        about = {"role": self.role, "account": self.address, "chain_id": self.settings.chain_id}
        self.notices = Notices(self.settings.notify, about, self.remembered.of_jobs(set), self.problems)
        staked = partial(self.keeper.stake, staked=True)
        self.reserve = Reserve(lambda: self.client.head(), self._pending, staked)
        self.duties = DutyBook(self.database, self.reserve.jobs, Means.of(self.settings))

    def _pending(self) -> list[int]:
        return [] if self.transactions is None else self.transactions.open()

    def market(self, base_fee: int) -> Market:
        """Return the price of gas in a block with this base fee in wei, and how long we wait for cheaper gas."""
        return gas_market(self.settings, base_fee)

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

    def look_at_signer(self) -> None:
        """Ask a remote signer that has failed whether it is back."""
        account = self.transactions.account if self.transactions else None
        if isinstance(account, RemoteAccount) and "signer" in self.problems:
            with contextlib.suppress(KeystoreError):
                account.look()

    def job_over(self, job: JobView) -> None:
        """Let go of a job that is over and no longer concerns us."""
        self.keeper.over(job.id)
        self.duties.over(job.id)
        self.problems.forget_job(job.id)
        self.gauges.over(job)
        self.peers.forget(job.id)
        self.remembered.over(job.id)
        self.client.forget(job.id)

    def spare(self, job: int = 0) -> int:
        """Return the wei of our account that no job other than this one may need; without a key we have none."""
        free = self.transactions.means.free() if self.transactions else 0
        return free - self.reserve.for_others(job)


@contextlib.contextmanager
def open_daemon(settings: Settings, role: str, *, key: bool = True) -> Iterator[Daemon]:
    """Open all resources of a daemon and release them at the end. Wait for an RPC endpoint that does not answer yet.

    Raises AlreadyRunning, ConfigError, KeystoreError, SchemaMismatch, UnfitChain, WrongChain.
    """
    configure_logging(settings.log_format, settings.log_level)
    if key:  # before anything is written into a folder that may be the wrong one
        require_key(settings)
    with contextlib.ExitStack() as stack:
        stack.enter_context(exclusive(settings.data_dir / "lock", f"data directory {settings.data_dir}"))
        metrics = Metrics()
        build = Build.this()
        metrics.set("build_info", 1, build.version, build.source, build.contracts)
        problems = Problems(metrics)
        problems["start"] = "still starting"
        tell = partial(_tell_of_signer, metrics, problems)
        account = stack.enter_context(hold_account(settings, tell)) if key else None
        ballast = Ballast(settings.data_dir)
        # SAFETY: a node that was killed on a full disk must come up again to defend its claims.
        if free_bytes(settings.data_dir) < ballast.size // 2:
            ballast.release()
        database = Database(settings.data_dir / "node.sqlite3")
        stack.callback(database.close)
        limits = settings.limits
        store = Store(settings.data_dir / "artifacts", max_bytes=limits.artifact_bytes)
        stop = threading.Event()
        peers = Peers(database, metrics, problems, max_bytes=limits.peer_bytes, max_s=limits.peer_s)
        fetcher = Fetcher(
            store,
            timeout_s=limits.fetch_timeout_s,
            min_rate=limits.fetch_rate,
            budget_s=limits.fetch_budget_s,
            stop=stop,
            peers=peers,
        )
        board = Board()
        keeper = open_keeper(settings, store, database, metrics, problems, ballast)
        stack.callback(keeper.close)
        server = _serve(settings, database, store, problems, metrics, board)
        stack.callback(server.stop)
        notifier = Notifier()
        with stop_on_signals(stop):
            # NOTE: the manager must not give up a daemon that waits for its chain: it serves its artifacts meanwhile.
            notifier.ready()
            patiently = partial(_patiently, stop, problems, metrics, notifier)
            client = patiently(lambda: open_client(settings, metrics, database))
            patiently(lambda: database.bind(client.identity(database.deployment)))
            patiently(lambda: require_defensible(settings, client, database, stakes=key))
            client.agreement.keep_in(database)
            client.cache = EventCache(database, depth=max(limits.log_range // 2, MIN_DEPTH))
            transactions = None
            if account is not None:
                transactions = transaction_manager(
                    settings, client.web3, account, database, metrics=metrics, stop=stop
                )
                alone(
                    settings.data_dir,
                    transactions.nonce,
                    max(3 * settings.block_time_s, RESTORED_S),
                    stop.wait,
                )
            problems.clear("start")
            node = Daemon(
                settings,
                role,
                metrics,
                database,
                store,
                fetcher,
                peers,
                server,
                client,
                transactions,
                stop,
                problems,
                board,
                keeper=keeper,
                notifier=notifier,
            )
            _log.info(
                "node.open", role=role, address=node.address, artifacts=server.uri, chain=settings.chain_id
            )
            stack.callback(node.notices.close)
            yield node
            _log.info("node.closed", role=role)


def _tell_of_signer(metrics: Metrics, problems: Problems, reason: str | None) -> None:
    """Note whether the remote signer signs."""
    metrics.set("signer_up", reason is None)
    if reason is None:
        problems.clear("signer")
        return
    metrics.add("failures", "signer")
    problems["signer"] = reason


def _serve(
    settings: Settings, database: Database, store: Store, problems: Problems, metrics: Metrics, board: Board
) -> ArtifactServer:
    """Start the artifact server. NOTE: claims name its address on-chain, so a free port, once chosen, is kept."""
    remembered: int = database.get(_PORT, 0)
    ports = [settings.port] if settings.port else list(dict.fromkeys([remembered, 0]))
    for attempt, port in enumerate(ports, 1):
        server = ArtifactServer(
            store, settings.host, port, problems=problems, registry=metrics.registry, board=board
        )
        try:
            server.start()
        except ConfigError as error:
            if attempt == len(ports):
                raise
            _log.warning("node.port_taken", port=port, reason=str(error))
            continue
        break
    if server.port != remembered:
        database.put(_PORT, server.port)
    return server


def open_keeper(
    settings: Settings,
    store: Store,
    database: Database,
    metrics: Metrics,
    problems: Problems,
    ballast: Ballast,
) -> Keeper:
    """Return the keeper of a data directory. It counts the store once."""
    store.usage = usage(store.root)
    return Keeper(
        store,
        database,
        ballast,
        policy=policy(settings),
        store_bytes=settings.limits.store_bytes,
        every_s=settings.keep.every_s,
        metrics=metrics,
        problems=problems,
    )


def policy(settings: Settings) -> Policy:
    """Return what the settings say about artifacts of jobs that are over."""
    return Policy(settings.keep.work_s, settings.keep.result_s)


class Service:
    """Calls ``tick`` every ``poll_s`` seconds until the node is asked to stop."""

    def __init__(self, node: Daemon, tick: Callable[[], None]) -> None:
        self._node = node
        self._tick = tick
        self._failures = 0
        self._recovered = False

    def run(self) -> None:
        """Call rounds until SIGTERM, SIGINT or ``node.stop``. The act in progress is finished first."""
        node = self._node
        while not node.stop.is_set():
            wait_s = self.round()
            node.notifier.alive(_status(node.problems))
            node.stop.wait(wait_s)
        node.notifier.stopping()

    def _recover(self, transactions: TransactionManager) -> None:
        """Wait for transactions of an earlier process, that this one does not act twice.

        SAFETY: one that is never mined, or about which nobody answers, must not keep us from all else. An act that is
        open is not sent again.
        """
        try:
            transactions.confirm(timeout_s=RECOVERY_S)
        except ChainError as error:
            _log.warning("transaction.still_open", reason=str(error))

    def round(self) -> float:
        """Do one round. Return the seconds to wait before the next one. Never raises an Exception."""
        problems, metrics = self._node.problems, self._node.metrics
        self._node.keeper.round()
        try:
            if not self._recovered and self._node.transactions is not None:
                self._recover(self._node.transactions)
            self._recovered = True
            self._tick()
        except Unavailable as error:
            problems["chain" if isinstance(error, RpcUnavailable) else "data"] = str(error)
            metrics.set("rpc_up", not isinstance(error, RpcUnavailable))
            result = "unavailable"
            _log.warning("tick.unavailable", reason=str(error), failures=self._failures + 1)
        except DiskFailed as error:
            problems["tick"] = f"{type(error).__name__}: {error}"
            metrics.add("failures", "disk")
            result = "error"
            _log.error("tick.disk", error=type(error).__name__, reason=str(error))
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
            problems.clear("chain", "data", "tick")
            metrics.set("rpc_up", 1)
            metrics.add("ticks", "ok")
            self._failures = 0
            return self._node.settings.poll_s * (IDLE_POLLS if self._node.idle else 1)
        metrics.add("ticks", result)
        self._failures += 1
        return min(self._node.settings.poll_s * 2.0 ** min(self._failures - 1, 10), MAX_BACKOFF_S)


def _status(problems: Problems) -> str:
    """Return what a service manager shows."""
    return "; ".join(problems.shown().reasons) or "ready"


def _patiently(
    stop: threading.Event,
    problems: Problems,
    metrics: Metrics,
    notifier: Notifier,
    act: Callable[[], T],
) -> T:
    """Call ``act`` until the chain answers. Raises the last error if ``stop`` is set before."""
    wait = 0.5
    while True:
        try:
            return act()
        except RpcUnavailable as error:
            problems["start"] = str(error)
            metrics.set("rpc_up", 0)
            notifier.alive(_status(problems))
            _log.warning("node.waiting_for_chain", reason=str(error))
            if stop.wait(wait):
                raise
            wait = min(wait * 2, MAX_BACKOFF_S)
