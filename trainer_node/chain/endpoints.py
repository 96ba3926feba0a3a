"""One connection to the chain over one or several RPC endpoints.

    read         the endpoint that serves; if it fails, the next one of our chain, which serves from then on
    send         all endpoints: a transaction is sent if one of them takes it
    through(e)   this thread asks only `e`
    each(act)    all at once, each in a thread that asks only one

Nothing here decides whom to believe: see :mod:`trainer_node.chain.agreement` and :mod:`trainer_node.chain.majority`.
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

from ..errors import ChainError, RpcCorrupt, RpcUnavailable, WrongChain
from ..observe.metrics import Metrics
from .abi import CODEC
from .endpoint import SEND, SLOW_S, THREADS, Endpoint
from .refusals import is_refusal
from .rpc import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S, show_endpoint

PATIENCE_S = 3.0
"""Seconds that an endpoint may take longer than the first one that answers, when all are asked."""
SLOW_FACTOR = 4.0
"""An endpoint is slow if its answers take longer than `SLOW_S`, and so many times as long as those of the fastest."""
T = TypeVar("T")

_log = structlog.get_logger(__name__)


class _Here(threading.local):
    """State of one thread only."""

    only: Endpoint | None = None
    source: Endpoint | None = None
    note: Callable[[RPCEndpoint, Any, RPCResponse, Endpoint | None], None] | None = None


class Endpoints(JSONBaseProvider):
    """A web3 provider over several endpoints, the preferred one first."""

    global_ccip_read_enabled = False  # SAFETY: no contract may send us to URLs of its choice

    def __init__(
        self,
        every: Sequence[Endpoint],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[..., Any] = wait,
    ) -> None:
        """``wait`` waits for futures as that of `concurrent.futures` does, by ``clock``."""
        super().__init__()
        self.every = tuple(every)
        self.metrics = metrics
        self.clock = clock
        self._wait = wait
        self.serving = self.every[0]
        """The endpoint that reads go to."""
        self.apart: frozenset[Endpoint] = frozenset()
        """Endpoints that show another block than the one that is read, or than one that we know: no alternative to slow
        ones, however quick they are. The one that serves is never among them."""
        self._here = _Here()

    @property
    def several(self) -> bool:
        return len(self.every) > 1

    @property
    def ours(self) -> list[Endpoint]:
        """The endpoints that are not known to be apart; at least the one that serves."""
        return [endpoint for endpoint in self.every if endpoint not in self.apart]

    @property
    def source(self) -> Endpoint | None:
        """The endpoint that gave this thread its last answer."""
        return self._here.source

    @property
    def asked(self) -> Endpoint:
        """The endpoint that this thread asks first."""
        return self._here.only or self.serving

    def leave(self, endpoint: Endpoint) -> None:
        """Read from others until it shows the block that they show, if there are others of our chain."""
        if rest := self.ranked([one for one in self.ours if one is not endpoint]):
            self.serving, self.apart = rest[0], self.apart | {endpoint}

    @contextlib.contextmanager
    def through(self, endpoint: Endpoint) -> Iterator[None]:
        """Let this thread ask only this endpoint."""
        before, self._here.only = self._here.only, endpoint
        try:
            yield
        finally:
            self._here.only = before

    @contextlib.contextmanager
    def noting(
        self, note: Callable[[RPCEndpoint, Any, RPCResponse, Endpoint | None], None]
    ) -> Iterator[None]:
        """Call ``note`` with each request of this thread, its answer, and who gave it, if there are several."""
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
            note(method, params, answer, self._here.source)
        return answer

    def each(
        self,
        act: Callable[[Endpoint], T],
        among: Sequence[Endpoint] | None = None,
        patience_s: float = PATIENCE_S,
        enough: Callable[[Iterable[T | ChainError]], bool] = lambda _: False,
        hurries: Callable[[Iterable[T | ChainError]], bool] | None = None,
    ) -> dict[Endpoint, T | ChainError]:
        """Call ``act`` for each endpoint at once, in threads that ask only this one. Returns results or errors.

        Whoever answers ``patience_s`` after the first one, or later, has failed. Once those that have answered are
        ``enough``, the others are not waited for, and are left out. With ``hurries`` it is not the first answer that
        hurries the others, but those for which that holds: until then all are waited for as long as their requests may
        take, except silent ones (`Endpoint.silent`) and those that are apart; from then on those that hang are left
        out.

        SAFETY: an answer from another chain hurries nobody, or who is quick and wrong would decide.
        """
        asked = self.every if among is None else tuple(among)

        def one(endpoint: Endpoint) -> T | ChainError:
            with self.through(endpoint):
                try:
                    return act(endpoint)
                except ChainError as error:
                    return error
                except Exception as error:
                    # SAFETY: an answer that raises here must not keep us from hearing the other endpoints.
                    return endpoint.failed(RpcCorrupt(f"RPC {endpoint.name}: {type(error).__name__}"))

        if len(asked) == 1:
            return {asked[0]: one(asked[0])}
        begun = {THREADS.begin(lambda endpoint=endpoint: one(endpoint)): endpoint for endpoint in asked}  # type: ignore[misc]
        found = dict[Endpoint, T | ChainError]()
        left, until, hurried = set(begun), float("inf"), False
        while left:
            timeout = None if until == float("inf") else max(until - self.clock(), 0.0)
            done, left = self._wait(left, timeout, FIRST_COMPLETED)
            if not done:
                break
            found |= {begun[future]: future.result() for future in done}
            if enough(found.values()):
                return found
            agreed = hurries is not None and hurries(found.values())
            if agreed and all(begun[future].hangs for future in left):
                return found
            worth = any(begun[future] not in self.apart and not begun[future].silent for future in left)
            ours = any(not isinstance(found[e], ChainError) for e in found.keys() - self.apart)
            if not hurried and ours and (hurries is None or agreed or not worth):
                hurried, until = True, self.clock() + patience_s
        for future in left:
            late = RpcUnavailable(f"RPC {begun[future].name}: {patience_s:g} s later than another endpoint")
            found[begun[future]] = begun[future].hung(late)
        return found

    def ranked(self, among: Sequence[Endpoint] | None = None) -> list[Endpoint]:
        """Return endpoints, by default those of our chain, by preference: those that answer, then those that are not
        slow, then in the order of the settings."""
        asked = self.ours if among is None else among

        def rank(endpoint: Endpoint) -> tuple[bool, bool, int]:
            return endpoint.failures > 0, self._slow(endpoint, asked), self.every.index(endpoint)

        return sorted(asked, key=rank)

    def _slow(self, endpoint: Endpoint, among: Sequence[Endpoint]) -> bool:
        fastest = min((e.latency_s for e in among if e.latency_s), default=0.0)
        return endpoint.hangs or endpoint.latency_s > max(SLOW_S, SLOW_FACTOR * fastest)

    def _first(self, method: str, params: Any) -> RPCResponse:
        """Return the first answer. Endpoints that were left alone are asked only if no other one answers at all.

        NOTE: an endpoint that serves and becomes slow serves no longer, or a round of many requests would take hours.
        SAFETY: only those of our chain are a choice; nobody can mix what another chain shows with what was read.
        """
        ranked = self.ranked()
        every = ranked if self._slow(self.serving, ranked) else [self.serving, *ranked]
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
        answers = {THREADS.begin(lambda e=e: e.request(SEND, params)): e for e in self.every}  # type: ignore[misc]
        left, until, wanted = set(answers), float("inf"), "0x" + keccak(HexBytes(params[0])).hex()
        refusals, failed = dict[Endpoint, RPCResponse](), list[BaseException]()
        ours = frozenset(self.ours)
        while left:
            timeout = None if until == float("inf") else max(until - self.clock(), 0.0)
            done, left = self._wait(left, timeout, FIRST_COMPLETED)
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
                if endpoint in ours:  # what another chain refuses says nothing about ours
                    refusals[endpoint] = answer
                    until = self.clock() + PATIENCE_S
        if not refusals:
            raise failed[0]
        every = sorted(refusals, key=lambda endpoint: endpoint is not self.serving)
        about = {endpoint: "nonce" in str(refusals[endpoint]["error"]).lower() for endpoint in every}
        most = 2 * sum(about.values()) > len(every)
        endpoint = next((one for one in every if about[one] == most), every[0])
        used = any(about.values())
        if used and len(refusals) < len(ours):
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
    lost: str | None = None,
    clock: Callable[[], float] = time.monotonic,
    wait: Callable[..., Any] = wait,
    sleep: Callable[[float], None] = time.sleep,
) -> Web3:
    """Return a connection to the chain with that id, over one or several endpoints. ``lost``: the folder in which no
    settings were found, if they are a default. ``clock`` counts seconds, for what is known of their health; ``wait``
    waits for futures by it, and ``sleep`` lets some of them pass.

    One that names another chain is left alone, and /readyz says so. Raises WrongChain if all do; RpcUnavailable or
    RpcCorrupt if no other one answers.
    """
    metrics = metrics or Metrics()
    listed = list(dict.fromkeys([urls] if isinstance(urls, str) else urls))
    shown = [show_endpoint(url) for url in listed]
    names = [
        name if shown.count(name) == 1 else f"{name} ({at})" for at, name in enumerate(shown, 1)
    ]  # one host may serve several
    every = [
        Endpoint(
            url,
            name,
            chain_id,
            metrics,
            timeout_s=timeout_s,
            max_bytes=max_bytes,
            alone=len(listed) == 1,
            lost=lost,
            clock=clock,
            sleep=sleep,
        )
        for url, name in zip(listed, names, strict=True)
    ]
    provider = Endpoints(every, metrics, clock, wait)
    # NOTE: only the middleware of web3 that shapes answers: no ENS, no implicit gas or fees.
    web3 = Web3(provider, middleware=[(AttributeDictMiddleware, "attrdict")])
    web3.codec = CODEC
    found = provider.each(Endpoint.check_chain)
    wrong = {e: error for e, error in found.items() if isinstance(error, WrongChain)}
    silent = [e for e in found.values() if isinstance(e, ChainError) and not isinstance(e, WrongChain)]
    for endpoint, error in wrong.items():
        _log.warning("rpc.other_chain", endpoint=endpoint.name, reason=str(error))
    if len(wrong) == len(every):
        raise next(iter(wrong.values()))
    if len(wrong) + len(silent) == len(every):
        # NOTE: one that does not answer yet may be the right one, so this is no reason to end.
        raise type(silent[0])("; ".join(map(str, (*silent, *wrong.values()))))
    if wrong:
        # SAFETY: who starts again while a clock runs needs one endpoint of its chain, whatever the others name. The id
        # is that of the settings, and of the deployment, which is compared with it.
        right = [endpoint for endpoint in every if endpoint not in wrong]
        provider.serving, provider.apart = provider.ranked(right)[0], frozenset(wrong)
    return web3


def endpoints_of(web3: Web3) -> Endpoints:
    """Return the endpoints of a connection that :func:`connect` has made."""
    assert isinstance(web3.provider, Endpoints)
    return web3.provider
