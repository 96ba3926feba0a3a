"""One RPC endpoint, and what is known of its health."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from web3.types import RPCEndpoint, RPCResponse

from ..errors import ChainError, RpcCorrupt, RpcRefused, RpcTooLong, RpcUnavailable, WrongChain
from ..observe.metrics import Metrics
from .block import quantity
from .rpc import BoundedProvider
from .threads import Threads

MAX_BACKOFF_S = 60.0
SLOW_S = 1.0
"""Seconds that an answer may take, or a failure, before its endpoint counts as slow."""
SILENT = 0.9
"""An endpoint is silent if a request has failed after this share of the shortest time-out, or later."""
MAX_BEHIND = 8
"""Requests that an endpoint may owe an answer to, before it is left out where others will do."""
LONG = frozenset(("eth_call", "eth_getLogs", "eth_estimateGas"))
"""Methods that may ask for more than a good endpoint gives."""
THREADS = Threads("rpc")


class Endpoint:
    """An RPC endpoint and what is known of its health. Safe for several threads."""

    def __init__(
        self,
        url: str,
        name: str,
        chain_id: int,
        metrics: Metrics,
        *,
        timeout_s: float,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock``: seconds by which the endpoint's health is judged."""
        self.url, self.name = url, name
        self._provider = BoundedProvider(url, timeout_s=timeout_s, max_bytes=max_bytes)
        self._timeout_s = timeout_s
        self._chain_id = chain_id
        self._chain_is_right = False
        self._metrics = metrics
        self._clock = clock
        self._retry_at = 0.0
        self.latency_s = 0.0
        """Recent response time in seconds; zero before the first response."""
        self.failures = 0
        """Requests in a row that were not answered."""
        self.trouble: str | None = None
        """Why the last request was not answered; None if it was."""
        self._behind = 0
        self._lock = threading.Lock()
        self._hung_until = 0.0
        self._silent_until = 0.0

    @property
    def waits(self) -> bool:
        """True if it has failed and is left alone for a while."""
        return self._clock() < self._retry_at

    @property
    def hangs(self) -> bool:
        """True if a recent request to it timed out."""
        return self._clock() < self._hung_until

    @property
    def silent(self) -> bool:
        """True if a recent request stayed without an answer for as long as any request may take."""
        return self._clock() < self._silent_until

    @property
    def owes(self) -> bool:
        """True if it has a request that it has neither answered nor failed to answer yet."""
        return self._behind > 0

    @property
    def ready(self) -> bool:
        """True if it does not wait, no recent request timed out, and it does not owe too many answers."""
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
                RpcCorrupt(f"RPC {self.name}: eth_chainId: {answer!s:.200} is not an id")
            ) from error
        if found != self._chain_id:
            raise self.failed(
                WrongChain(
                    f"RPC {self.name} serves chain {found}, not {self._chain_id}; set rpc_url or chain_id"
                )
            )
        self._chain_is_right = True

    def _timed(self, method: str, params: Any) -> RPCResponse:
        began = self._clock()
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
            took = self._clock() - began
            if took > SILENT * self._timeout_s:
                # INVARIANT: it is asked again within the back-off, and silent until that request has failed, too.
                self._silent_until = self._clock() + MAX_BACKOFF_S + 2 * self._timeout_s
            raise (self.hung(named) if took > SLOW_S else self.failed(named)) from error.__cause__
        finally:
            with self._lock:
                self._behind -= 1
        took = self._clock() - began
        self.latency_s = 0.7 * self.latency_s + 0.3 * took if self.latency_s else took
        self.failures, self.trouble, self._retry_at = 0, None, 0.0
        self._metrics.set("rpc_latency_seconds", took, self.name)
        self._metrics.set("rpc_endpoint_up", 1, self.name)
        return answer

    def failed(self, error: ChainError) -> ChainError:
        """Note a request that was not answered: the endpoint is left alone for a while, longer each time."""
        self.failures, self.trouble = self.failures + 1, str(error)
        self._retry_at = self._clock() + min(2.0 ** min(self.failures - 1, 16), MAX_BACKOFF_S)
        self._metrics.add("rpc_failures", self.name)
        self._metrics.set("rpc_endpoint_up", 0, self.name)
        return error

    def hung(self, error: ChainError) -> ChainError:
        """Note a request that timed out: others are preferred for a minute, whatever it answers then."""
        self._hung_until = self._clock() + MAX_BACKOFF_S
        return self.failed(error)

    def _within(self, method: str, params: Any) -> RPCResponse:
        """SAFETY: no wait of the HTTP client bounds an answer whose header comes byte by byte."""
        client = self._provider.client
        try:
            return THREADS.begin(lambda: self._provider.request(client, RPCEndpoint(method), params)).result(
                2 * self._timeout_s
            )
        except TimeoutError:
            self._provider.reset(client)
            raise RpcUnavailable(
                f"{method}: not answered within {2 * self._timeout_s:.0f} s (limits.rpc_timeout_s)"
            ) from None
