"""One connection to the chain over one or several RPC endpoints.

    read         the endpoint that serves; if it fails, the next one, which serves from then on
    send         all endpoints: a transaction is sent if one of them takes it
    through(e)   this thread asks only `e`
    each(act)    all at once, each in a thread that asks only one

Nothing here decides whom to believe: see :mod:`trainer_node.chain.agreement`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any, TypeVar

import structlog
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3 import Web3
from web3.middleware import AttributeDictMiddleware
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from ..errors import ChainError, RpcCorrupt, RpcRefused, RpcTooLong, RpcUnavailable, WrongChain
from ..metrics import Metrics
from .abi import Codec
from .block import quantity
from .rpc import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, BoundedProvider, is_refusal, show_endpoint
from .threads import Threads

MAX_BACKOFF_S = 60.0
PATIENCE_S = 3.0
"""Seconds that an endpoint may take longer than the first one that answers, when all are asked."""
SLOW_S, SLOW_FACTOR = 1.0, 4.0
"""An endpoint is slow if its answers take longer than this, and this many times as long as those of the fastest."""
SEND = "eth_sendRawTransaction"
MAX_BEHIND = 8
"""Requests that an endpoint may owe an answer to, before it is left out where others will do."""
LONG = frozenset(("eth_call", "eth_getLogs", "eth_estimateGas"))
"""Methods that may ask for more than a good endpoint gives."""
T = TypeVar("T")

_log = structlog.get_logger(__name__)
_threads = Threads("rpc")


class Endpoint:
    """An RPC endpoint and what is known of its health. Safe for several threads."""

    def __init__(
        self, url: str, name: str, chain_id: int, metrics: Metrics, *, timeout_s: float, max_bytes: int
    ) -> None:
        self.url, self.name = url, name
        self._provider = BoundedProvider(url, timeout_s=timeout_s, max_bytes=max_bytes)
        self._timeout_s = timeout_s
        self._chain_id = chain_id
        self._chain_is_right = False
        self._metrics = metrics
        self._retry_at = 0.0
        self.latency_s = 0.0
        """Time of an answer of late; zero before the first."""
        self.failures = 0
        """Requests in a row that were not answered."""
        self.trouble: str | None = None
        """Why the last request was not answered; None if it was."""
        self._behind = 0
        self._lock = threading.Lock()
        self._hung_until = 0.0

    @property
    def waits(self) -> bool:
        """Whether it has failed and is left alone for a while."""
        return time.monotonic() < self._retry_at

    @property
    def hangs(self) -> bool:
        """Whether it has let somebody wait in vain of late."""
        return time.monotonic() < self._hung_until

    @property
    def ready(self) -> bool:
        """Whether it does not wait, has let nobody wait, and does not owe too many answers."""
        return not self.waits and not self.hangs and self._behind < MAX_BEHIND

    def request(self, method: str, params: Any) -> RPCResponse:
        """Send a request. Raises RpcUnavailable, RpcCorrupt, or WrongChain if it serves another chain."""
        self.check_chain()
        return self._timed(method, params)

    def check_chain(self) -> None:
        """Ask for the chain's id, once. Raises WrongChain, RpcUnavailable or RpcCorrupt."""
        if self._chain_is_right:
            return
        answer = self._timed("eth_chainId", [])
        try:
            found = quantity(answer["result"])
        except (KeyError, TypeError, ValueError) as error:
            raise self.failed(
                RpcCorrupt(f"RPC {self.name}: eth_chainId: {answer!s:.200} is no id")
            ) from error
        if found != self._chain_id:
            raise self.failed(
                WrongChain(
                    f"RPC {self.name} serves chain {found}, not {self._chain_id}; set rpc_url or chain_id"
                )
            )
        self._chain_is_right = True

    def _timed(self, method: str, params: Any) -> RPCResponse:
        began = time.monotonic()
        with self._lock:
            self._behind += 1
        try:
            answer = self._within(method, params)
        except ChainError as error:
            named = type(error)(f"RPC {self.name}: {error}")
            if isinstance(error, RpcRefused | RpcTooLong) and method in LONG:
                # NOTE: a request that asks for too much says nothing about the endpoint.
                self._metrics.add("rpc_failures", self.name)
                raise named from error.__cause__
            waited = time.monotonic() - began > SLOW_S
            raise (self.hung(named) if waited else self.failed(named)) from error.__cause__
        finally:
            with self._lock:
                self._behind -= 1
        took = time.monotonic() - began
        self.latency_s = 0.7 * self.latency_s + 0.3 * took if self.latency_s else took
        self.failures, self.trouble, self._retry_at = 0, None, 0.0
        self._metrics.set("rpc_latency_seconds", took, self.name)
        self._metrics.set("rpc_endpoint_up", 1, self.name)
        return answer

    def failed(self, error: ChainError) -> ChainError:
        """Note a request that was not answered: the endpoint is left alone for a while, longer each time."""
        self.failures, self.trouble = self.failures + 1, str(error)
        self._retry_at = time.monotonic() + min(2.0 ** min(self.failures - 1, 16), MAX_BACKOFF_S)
        self._metrics.add("rpc_failures", self.name)
        self._metrics.set("rpc_endpoint_up", 0, self.name)
        return error

    def hung(self, error: ChainError) -> ChainError:
        """Note a request that was waited for in vain: others are preferred for a minute, whatever it answers then."""
        self._hung_until = time.monotonic() + MAX_BACKOFF_S
        return self.failed(error)

    def _within(self, method: str, params: Any) -> RPCResponse:
        """SAFETY: no wait of the HTTP client bounds an answer whose header comes byte by byte."""
        client = self._provider.client
        try:
            return _threads.begin(lambda: self._provider.request(client, RPCEndpoint(method), params)).result(
                2 * self._timeout_s
            )
        except TimeoutError:
            self._provider.reset(client)
            raise RpcUnavailable(
                f"{method}: not answered within {2 * self._timeout_s:.0f} s (limits.rpc_timeout_s)"
            ) from None


class _Here(threading.local):
    """What concerns only one thread."""

    only: Endpoint | None = None
    source: Endpoint | None = None
    note: Callable[[RPCEndpoint, Any, RPCResponse], None] | None = None


class Endpoints(JSONBaseProvider):
    """A web3 provider over several endpoints, the preferred one first."""

    global_ccip_read_enabled = False  # SAFETY: no contract may send us to URLs of its choice

    def __init__(self, every: Sequence[Endpoint], metrics: Metrics) -> None:
        super().__init__()
        self.every = tuple(every)
        self.metrics = metrics
        self.serving = self.every[0]
        """The endpoint that reads go to."""
        self._here = _Here()

    @property
    def several(self) -> bool:
        return len(self.every) > 1

    @property
    def source(self) -> Endpoint | None:
        """The endpoint that gave this thread its last answer."""
        return self._here.source

    @contextlib.contextmanager
    def through(self, endpoint: Endpoint) -> Iterator[None]:
        """Let this thread ask only this endpoint."""
        before, self._here.only = self._here.only, endpoint
        try:
            yield
        finally:
            self._here.only = before

    @contextlib.contextmanager
    def noting(self, note: Callable[[RPCEndpoint, Any, RPCResponse], None]) -> Iterator[None]:
        """Call ``note`` with each request of this thread and its answer, if there are several endpoints."""
        before, self._here.note = self._here.note, note if self.several else None
        try:
            yield
        finally:
            self._here.note = before

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send a request. Raises RpcUnavailable or RpcCorrupt; an error from an endpoint is part of the answer."""
        only, note = self._here.only, self._here.note
        if only is not None:
            answer, self._here.source = only.request(method, params), only
        elif method == SEND and self.several:
            answer = self._broadcast(params)
        else:
            answer = self._first(method, params)
        if note is not None:
            note(method, params, answer)
        return answer

    def each(
        self,
        act: Callable[[Endpoint], T],
        among: Sequence[Endpoint] | None = None,
        patience_s: float = PATIENCE_S,
        enough: Callable[[Iterable[T | ChainError]], bool] = lambda _: False,
        alone_s: float = 0.0,
    ) -> dict[Endpoint, T | ChainError]:
        """Call ``act`` for each endpoint at once, in threads that ask only this one. Returns results or errors.

        Whoever answers ``patience_s`` after the first one, or later, has failed; ``alone_s`` after it, if that is later
        and only one has answered. Once those that have answered are ``enough``, the others are not waited for, and are
        left out.
        """
        asked = self.every if among is None else tuple(among)

        def one(endpoint: Endpoint) -> T | ChainError:
            with self.through(endpoint):
                try:
                    return act(endpoint)
                except ChainError as error:
                    return error
                except Exception as error:
                    # SAFETY: what one answer makes us stumble over must not keep us from hearing the other endpoints.
                    return endpoint.failed(RpcCorrupt(f"RPC {endpoint.name}: {type(error).__name__}"))

        if len(asked) == 1:
            return {asked[0]: one(asked[0])}
        begun = {_threads.begin(lambda endpoint=endpoint: one(endpoint)): endpoint for endpoint in asked}  # type: ignore[misc]
        found = dict[Endpoint, T | ChainError]()
        left, until = set(begun), float("inf")
        while left:
            timeout = None if until == float("inf") else max(until - time.monotonic(), 0.0)
            done, left = wait(left, timeout, FIRST_COMPLETED)
            if not done:
                break
            for future in done:
                found[begun[future]] = future.result()
                if not isinstance(found[begun[future]], ChainError):
                    more = patience_s if len(found) > 1 else max(patience_s, alone_s)
                    until = min(until, time.monotonic() + more)
            if enough(found.values()):
                return found
        for future in left:
            late = RpcUnavailable(f"RPC {begun[future].name}: {patience_s:g} s later than another endpoint")
            found[begun[future]] = begun[future].hung(late)
        return found

    def ranked(self, among: Sequence[Endpoint] | None = None) -> list[Endpoint]:
        """Return endpoints by preference: those that answer, then those that are not slow, then in the order of the
        settings."""
        asked = self.every if among is None else among

        def rank(endpoint: Endpoint) -> tuple[bool, bool, int]:
            return endpoint.failures > 0, self._slow(endpoint, asked), self.every.index(endpoint)

        return sorted(asked, key=rank)

    def _slow(self, endpoint: Endpoint, among: Sequence[Endpoint]) -> bool:
        fastest = min((e.latency_s for e in among if e.latency_s), default=0.0)
        return endpoint.hangs or endpoint.latency_s > max(SLOW_S, SLOW_FACTOR * fastest)

    def _first(self, method: str, params: Any) -> RPCResponse:
        """Return the first answer. Endpoints that were left alone are asked only if no other one answers at all.

        NOTE: an endpoint that serves and becomes slow serves no longer, or a round of many requests would take hours.
        """
        ranked = self.ranked()
        every = ranked if self._slow(self.serving, self.every) else [self.serving, *ranked]
        every = list(dict.fromkeys(every))
        order = [e for e in every if not e.waits]
        failed: ChainError | None = None
        refused: tuple[Endpoint, RPCResponse] | None = None
        for endpoint in [*order, *(e for e in every if e not in order)]:
            if refused is not None and endpoint not in order:
                break
            try:
                answer = endpoint.request(method, params)
            except ChainError as error:
                failed = failed or error
                continue
            if is_refusal(answer):
                refused = refused or (endpoint, answer)
                continue
            self._use(endpoint)
            return answer
        if refused is not None:
            self._here.source = refused[0]
            return refused[1]
        assert failed is not None
        raise failed

    def _use(self, endpoint: Endpoint) -> None:
        self._here.source = endpoint
        if endpoint is not self.serving:
            before, self.serving = self.serving, endpoint
            _log.warning("rpc.failover", to=endpoint.name, of=before.name, reason=before.trouble)

    def _broadcast(self, params: Any) -> RPCResponse:
        """Send a transaction to all endpoints. Returns as soon as one takes it; else a refusal of the kind that most
        give. SAFETY: one endpoint that swallows transactions, or is cut off from the network, does not stop them."""
        answers = {_threads.begin(lambda e=e: e.request(SEND, params)): e for e in self.every}  # type: ignore[misc]
        left, until, wanted = set(answers), float("inf"), "0x" + keccak(HexBytes(params[0])).hex()
        refusals, failed = dict[Endpoint, RPCResponse](), list[BaseException]()
        while left:
            timeout = None if until == float("inf") else max(until - time.monotonic(), 0.0)
            done, left = wait(left, timeout, FIRST_COMPLETED)
            if not done:
                break
            for future in done:
                endpoint, error = answers[future], future.exception()
                if error is not None:
                    failed.append(error)
                    continue
                answer: RPCResponse = future.result()
                if "error" not in answer and str(answer["result"]).lower() != wanted:
                    told = (
                        f"RPC {endpoint.name}: {SEND}: {answer['result']!s:.80} is not the transaction's hash"
                    )
                    failed.append(endpoint.failed(RpcCorrupt(told)))
                    continue
                if "error" not in answer:
                    self._here.source = endpoint
                    return answer
                refusals[endpoint] = answer
                until = time.monotonic() + PATIENCE_S
        if not refusals:
            raise failed[0]
        every = sorted(refusals, key=lambda endpoint: endpoint is not self.serving)
        about = {endpoint: "nonce" in str(refusals[endpoint]["error"]).lower() for endpoint in every}
        most = 2 * sum(about.values()) > len(every)
        endpoint = next((one for one in every if about[one] == most), every[0])
        used = any(about.values())
        if used and len(refusals) < len(self.every):
            # SAFETY: an endpoint whose answer was lost may have sent it: then it is this one that has used the nonce.
            # Whoever sent it again with the next nonce would do the act twice.
            raise RpcUnavailable(
                f"{SEND}: not every endpoint has answered; {refusals[endpoint]['error']!s:.200}"
            )
        self._here.source = endpoint
        return refusals[endpoint]


def connect(
    urls: str | Sequence[str],
    chain_id: int,
    *,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    max_bytes: int = DEFAULT_MAX_BYTES,
    metrics: Metrics | None = None,
) -> Web3:
    """Return a connection to the chain with that id, over one or several endpoints.

    Raises WrongChain if one of them serves another chain, RpcUnavailable or RpcCorrupt if none answers.
    """
    metrics = metrics or Metrics()
    listed = list(dict.fromkeys([urls] if isinstance(urls, str) else urls))
    shown = [show_endpoint(url) for url in listed]
    names = [
        name if shown.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(shown, 1)
    ]  # one host may serve several
    every = [
        Endpoint(url, name, chain_id, metrics, timeout_s=timeout_s, max_bytes=max_bytes)
        for url, name in zip(listed, names, strict=True)
    ]
    provider = Endpoints(every, metrics)
    # NOTE: only the middleware of web3 that shapes answers: no ENS, no implicit gas or fees.
    web3 = Web3(provider, middleware=[(AttributeDictMiddleware, "attrdict")])
    web3.codec = Codec()
    found = provider.each(Endpoint.check_chain)
    errors = [answer for answer in found.values() if isinstance(answer, ChainError)]
    wrong = [error for error in errors if isinstance(error, WrongChain)]
    # NOTE: of three, one may lie about its chain; it is left alone, and /readyz says so.
    if 2 * len(wrong) >= len(every) or len(errors) == len(every):
        raise (wrong or errors)[0]
    return web3


def endpoints_of(web3: Web3) -> Endpoints:
    """Return the endpoints of a connection that :func:`connect` has made."""
    assert isinstance(web3.provider, Endpoints)
    return web3.provider
