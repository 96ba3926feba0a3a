"""Downloads an artifact from one server, which may lie, stall or send without end.

SAFETY: every byte is counted and checked while it arrives (`storage.artifacts`); only the right bytes reach the store.
URIs on the chain are untrusted: http and https only, no redirect, no proxy or password from the environment, no
compressed answers. One deadline bounds the whole download, so a server that drips bytes cannot hold us up. What a
server costs without delivering is counted against it (`peer_costs`).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from referee_py.errors import Unavailable

from ..errors import Corrupt
from ..storage.artifacts import Name
from ..storage.store import Store
from . import places
from .budget import Budget
from .peer_costs import Peers, host_of
from .uri import check_uri


class _TryAgain(Exception):
    """A failure that another attempt at the same server may fix."""


@dataclass
class Call:
    """Progress of one call of a fetcher."""

    of: int
    """Number of artifacts that are asked for."""
    done: int = 0
    arrived: int = 0
    """Bytes that have come, right or wrong."""
    late: bool = False
    """True once its budget is spent: what is cut off then is the servers' fault."""
    cut: bool = False
    """True once it has to give way to others, which is nobody's fault."""

    @property
    def came(self) -> str:
        return f"{self.done} of {self.of} artifacts came"


@dataclass(frozen=True)
class Bounds:
    """Limits of one download: ``timeout_s`` for each wait for bytes, and after ``n`` bytes at most ``timeout_s +
    n / min_rate`` seconds in all (``min_rate``: bytes per second); ``attempts`` at one server, ``backoff_s`` apart."""

    timeout_s: float
    min_rate: float
    attempts: int
    backoff_s: float


def connect(bounds: Bounds) -> httpx.AsyncClient:
    """Return what the requests go through, to be closed after the last."""
    return httpx.AsyncClient(
        # NOTE: connecting may take less than everything, so that it fails for what it is.
        timeout=httpx.Timeout(bounds.timeout_s, connect=0.8 * bounds.timeout_s),
        follow_redirects=False,
        trust_env=False,
        headers={"Accept-Encoding": "identity", "User-Agent": "assay"},
        limits=httpx.Limits(max_keepalive_connections=4, keepalive_expiry=2.0),
        verify=_tls(),
    )


@dataclass(frozen=True)
class Downloads:
    """The downloads of one call of a fetcher, each from one server.

    ``peers`` counts what servers cost in a ``job``; None counts nothing. ``budgets`` note the time that each has taken.
    """

    client: httpx.AsyncClient
    call: Call
    store: Store
    bounds: Bounds
    job: int | None
    peers: Peers | None
    budgets: tuple[Budget, ...]
    clock: Callable[[], float]
    """Seconds, for both."""

    async def fetch(self, uri: str, name: Name, limit: int) -> None:
        """Bring the artifact, of at most ``limit`` bytes, into the store, with retries after network failures.

        Raises Unavailable, Corrupt, and InvalidInput for an invalid URI.
        """
        uri = check_uri(uri)
        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.bounds.attempts),
            wait=wait_random_exponential(self.bounds.backoff_s, max=5),
            retry=retry_if_exception_type(_TryAgain),
            reraise=True,
        )
        try:
            async for attempt in retrying:
                with attempt:
                    async with places.OF_PROCESS.one(self.job):
                        await self._counted(uri, name, limit)
        except _TryAgain as error:
            raise Unavailable(str(error)) from error

    async def _counted(self, uri: str, name: Name, limit: int) -> None:
        """Download, and count bytes and time against the server, or in its favour."""
        host, clock, call = host_of(uri), self.clock, self.call
        job, peers = self.job or 0, self.peers if self.job is not None else None
        if peers is not None and (refusal := peers.refusal(job, host)) is not None:
            raise Unavailable(refusal)
        began, ours = clock(), Call(1)
        try:
            await self._download(ours, uri, name, limit)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if peers is not None:
                peers.failed(job, host, 0, 0.0)
            raise _TryAgain(f"{type(error).__name__} {error}".strip()) from error
        except (Unavailable, _TryAgain, asyncio.CancelledError) as error:
            # NOTE: the loser of a race is not at fault, and neither is a server that is cut off because the node stops.
            if peers is not None and (call.late or not isinstance(error, asyncio.CancelledError)):
                peers.failed(job, host, ours.arrived, clock() - began)
            elif call.cut:
                self._took(host, clock() - began)
            raise
        else:
            self._took(host, clock() - began)
            if peers is not None:
                peers.delivered(job, host, ours.arrived, clock() - began)
        finally:
            call.arrived += ours.arrived

    def _took(self, host: str, seconds: float) -> None:
        for budget in self.budgets:
            if budget.blames:
                budget.took(host, seconds)

    async def _download(self, call: Call, uri: str, name: Name, limit: int) -> None:
        bounds = self.bounds
        start = asyncio.get_running_loop().time()
        try:
            async with (
                asyncio.timeout(bounds.timeout_s) as deadline,
                self.client.stream("GET", uri + name.url_path) as response,
            ):
                self._check_head(response, name, limit)
                with self.store.incoming(name, limit) as incoming:
                    async for chunk in response.aiter_raw(1 << 16):
                        call.arrived += len(chunk)
                        incoming.write(chunk)
                        # SAFETY: only bytes extend the deadline, at the minimum rate, so dripping them gains no time.
                        deadline.reschedule(start + bounds.timeout_s + call.arrived / bounds.min_rate)
                    _check_length(response, incoming.size, name)
        except TimeoutError:
            took = asyncio.get_running_loop().time() - start
            raise Unavailable(
                f"slower than {bounds.min_rate:.0f} bytes/s after {bounds.timeout_s:g} s: {call.arrived} bytes came in "
                f"{took:.1f} s; lower limits.fetch_rate if the connection is that slow"
            ) from None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise  # it costs nothing
        except httpx.TransportError as error:
            raise _TryAgain(f"{type(error).__name__} {error}".strip()) from error
        except (httpx.InvalidURL, httpx.HTTPError, UnicodeError) as error:
            raise Unavailable(f"{type(error).__name__} {error}".strip()) from error

    def _check_head(self, response: httpx.Response, name: Name, limit: int) -> None:
        if response.status_code >= 500 or response.status_code == 429:
            raise _TryAgain(f"the server answers {response.status_code}")
        if response.status_code != 200:
            raise Unavailable(f"the server answers {response.status_code}")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise Corrupt(f"{name} came compressed; artifacts are served as they are")
        length = response.headers.get("Content-Length", "")
        if length.isdecimal() and int(length[:20]) > limit:
            raise Corrupt(f"{name} is announced with {length[:20]} bytes; {self.store.why_limited(limit)}")


def _check_length(response: httpx.Response, size: int, name: Name) -> None:
    """Raise _TryAgain for a broken download. NOTE: that is not a lie; the transport misses it if there is no length."""
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length[:20]) != size:
        raise _TryAgain(f"{name} broke off after {size} of {length[:20]} bytes")


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS context, made once: reading the certificates takes longer than a small download."""
    return httpx.create_ssl_context(trust_env=False)
