"""One RPC endpoint, and what is known of its health."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from web3.types import RPCEndpoint, RPCResponse

from ..errors import (
    ChainError,
    NobodyListens,
    RpcBusy,
    RpcCorrupt,
    RpcRefused,
    RpcTooLong,
    RpcUnavailable,
    WrongChain,
)
from ..observe.metrics import Metrics
from .block import quantity
from .refusals import (
    ESTIMATE,
    FINAL_TAGS,
    MAX_WORDS,
    PENDING,
    Meaning,
    is_refusal,
    meaning_of,
    refuses_pending,
    without_pending,
)
from .request_pace import Pace
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
SEND = "eth_sendRawTransaction"
ALONE_S, OTHERS_S = 3.0, 0.7
"""Seconds for which a request is sent again if its failure may pass: where there is one endpoint, and where others can
answer instead."""
BUSY_S = 15.0
"""Seconds that a request waits for its turn in the budget of the only endpoint; where there are others, as above."""
AGAIN_S = 0.1
"""Seconds before a request is sent again; twice as long each further time."""
AWAY_S = 30.0
"""Seconds without an answer after which an endpoint's requests are not sent again: rounds are."""
NO_PENDING_S = 600.0
"""Seconds until an endpoint is asked for the pending block again that knew none."""
TOLD_S = 60.0
"""Seconds for which it is said what an endpoint does not do."""
THREADS = Threads("rpc")

_log = structlog.get_logger(__name__)


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
        alone: bool = False,
        lost: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``clock``: seconds by which the endpoint's health is judged; ``sleep`` lets some of them pass; ``alone``:
        there is no other to ask; ``lost``: the folder in which no settings were found, if it is their default."""
        self.url, self.name = url, name
        self._provider = BoundedProvider(url, timeout_s=timeout_s, max_bytes=max_bytes, lost=lost)
        self._timeout_s = timeout_s
        self._chain_id = chain_id
        self._chain_is_right = False
        self._metrics = metrics
        self._clock, self._sleep = clock, sleep
        self._alone = alone
        self._pace = Pace(clock)
        self._failing_since: float | None = None
        self._no_pending_until = 0.0
        self._said: str | None = None
        self._said_at = self._told_at = 0.0
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
        """Send a request, again for a while if its failure may pass. Raises RpcUnavailable, RpcCorrupt, or WrongChain
        if it serves another chain."""
        self.check_chain()
        if PENDING not in params and not (method == ESTIMATE and len(params) > 1):
            return self._repeated(method, params)
        plain = without_pending(method, params)
        if self._clock() < self._no_pending_until:
            return self._repeated(method, plain)
        answer = self._repeated(method, params)
        if not refuses_pending(method, answer):
            return answer
        other = self._repeated(method, plain)
        if is_refusal(other):
            return answer
        self._no_pending_until = self._clock() + NO_PENDING_S
        self._tell(
            f"knows no pending block ({_words_of(answer)}); the newest one is asked instead, so what needs a "
            "transaction that waits is sent once that is mined"
        )
        return other

    def check_chain(self) -> None:
        """Ask for the chain's id, once. Raises WrongChain, RpcUnavailable or RpcCorrupt."""
        if self._chain_is_right:
            return
        answer = self._repeated("eth_chainId", [])
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

    def _repeated(self, method: str, params: Any) -> RPCResponse:
        """Send a request within the endpoint's budget, and again while its failure may pass, for `patience` seconds.

        NOTE: a time-out has taken all the time that there is; a refused request is refused again; and whether a
        transaction has arrived is for the outbox to find out.
        """
        patience_s, slept, tries = self._patience_s, 0.0, 0
        while True:
            paced = self._pace.wait_s(max(patience_s, BUSY_S * self._alone) - slept, urgent=method == SEND)
            if paced is None:
                raise self.failed(
                    RpcBusy(f"RPC {self.name}: {self._said or method}; it takes no more for now")
                )
            if paced:
                self._sleep(paced)
                slept += paced
            began = self._clock()
            try:
                answer = self._within(method, params)
            except RpcBusy as error:
                self._pace.refused(error.retry_s)
                failure: ChainError = error
            except (RpcRefused, RpcTooLong) as error:
                raise self._given_up(method, error, began) from error.__cause__
            except ChainError as error:
                if self._clock() - began > SLOW_S or method == SEND:
                    raise self._given_up(method, error, began) from error.__cause__
                failure = error
            else:
                self._took(self._clock() - began)
                words = _passing(method, params, answer)
                if words is None:
                    return answer
                if slept >= patience_s:
                    return answer
                failure = RpcRefused(words)
            self._again(failure)
            if isinstance(failure, RpcBusy):
                continue
            wait_s = min(AGAIN_S * 2.0**tries, patience_s - slept)
            if wait_s <= 0:
                raise self._given_up(method, failure, began) from failure.__cause__
            self._sleep(wait_s)
            slept, tries = slept + wait_s, tries + 1

    @property
    def _patience_s(self) -> float:
        """Seconds for which a request is sent again: more if there is nobody else to ask; none for one that has been
        away for long."""
        if self._failing_since is not None and self._clock() - self._failing_since > AWAY_S:
            return 0.0
        return ALONE_S if self._alone else OTHERS_S

    def _given_up(self, method: str, error: ChainError, began: float) -> ChainError:
        """Note a request that was not answered, and return why, with the endpoint's name."""
        named = type(error)(f"RPC {self.name}: {error}")
        if isinstance(error, RpcRefused | RpcTooLong) and method in LONG:
            # NOTE: a request that asks for too much says nothing about the endpoint.
            self._metrics.add("rpc_failures", self.name)
            return named
        took = self._clock() - began
        if took > SILENT * self._timeout_s:
            # INVARIANT: it is asked again within the back-off, and silent until that request has failed, too.
            self._silent_until = self._clock() + MAX_BACKOFF_S + 2 * self._timeout_s
        return self.hung(named) if took > SLOW_S else self.failed(named)

    def _took(self, seconds: float) -> None:
        """Note a request that was answered."""
        self._pace.answered()
        self._failing_since = None
        self.latency_s = 0.7 * self.latency_s + 0.3 * seconds if self.latency_s else seconds
        self.failures, self.trouble, self._retry_at = 0, None, 0.0
        self._metrics.set("rpc_latency_seconds", seconds, self.name)
        self._metrics.set("rpc_endpoint_up", 1, self.name)

    def _again(self, failure: ChainError) -> None:
        """Note a request that is sent again."""
        self._metrics.add("rpc_failures", self.name)
        if isinstance(failure, NobodyListens):
            # NOTE: what to do is told with the error, if it stays.
            told = str(failure).partition("; ")[0]
            self._tell(f"{told}; it is asked again", "rpc.nobody_listens")
            return
        rate = f" (at most {self._pace.rate:.3g} requests a second for now)" if self._pace.rate else ""
        self._tell(f"requests are sent again: {failure}{rate}")

    def _tell(self, words: str, event: str = "rpc.endpoint_limits") -> None:
        """Say what the endpoint does not do, in the log once a minute, and to /readyz as long as it lasts."""
        now = self._clock()
        if now - self._told_at > TOLD_S or self._said is None:
            _log.warning(event, endpoint=self.name, reason=words)
            self._told_at = now
        self._said, self._said_at = words, now

    @property
    def limits(self) -> str | None:
        """What the endpoint has not done lately that others do, in words; None if nothing."""
        return self._said if self._said is not None and self._clock() - self._said_at < TOLD_S else None

    def failed(self, error: ChainError) -> ChainError:
        """Note a request that was not answered: the endpoint is left alone for a while, longer each time."""
        self.failures, self.trouble = self.failures + 1, str(error)
        self._failing_since = self._clock() if self._failing_since is None else self._failing_since
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
        with self._lock:
            self._behind += 1
        try:
            return THREADS.begin(lambda: self._provider.request(client, RPCEndpoint(method), params)).result(
                2 * self._timeout_s
            )
        except TimeoutError:
            self._provider.reset(client)
            raise RpcUnavailable(
                f"{method}: not answered within {2 * self._timeout_s:.0f} s (limits.rpc_timeout_s)"
            ) from None
        finally:
            with self._lock:
                self._behind -= 1


def _passing(method: str, params: Any, answer: RPCResponse) -> str | None:
    """Return why the same request may have another answer in a moment, in the endpoint's words; None if it may not."""
    error: Any = answer.get("error")
    if error is not None:
        return _words_of(answer) if meaning_of(method, params, error) is Meaning.LATER else None
    if method == "eth_call" and answer["result"] == "0x" and _numbered(params):
        # NOTE: Erigon says so of a block ahead of its head. What is asked at a number is a view, which has a result.
        return f"{method}: it has no result at block {params[1]}"
    if method == "eth_getBlockByNumber" and answer["result"] is None and params[0] not in FINAL_TAGS:
        return f"{method}: it does not have block {params[0]}"
    return None


def _numbered(params: Any) -> bool:
    return len(params) > 1 and isinstance(params[1], str) and params[1].startswith("0x")


def _words_of(answer: RPCResponse) -> str:
    error: Any = answer["error"]
    return str(error.get("message", ""))[:MAX_WORDS]
