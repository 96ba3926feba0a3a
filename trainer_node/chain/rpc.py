"""JSON-RPC over HTTP with bounds on time, bytes and types. Every failure becomes one of our own errors.

NOTE: web3's own provider reads answers of any length, follows redirects and retries by itself; here the caller decides.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import re
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx
from eth_abi.exceptions import DecodingError, EncodingError
from pydantic_core import from_json
from web3.exceptions import (
    BadFunctionCallOutput,
    ContractLogicError,
    Web3Exception,
    Web3RPCError,
)
from web3.providers.base import JSONBaseProvider
from web3.types import RPCEndpoint, RPCResponse

from ..errors import ChainError, NobodyListens, Reverted, RpcCorrupt, RpcRefused, RpcTooLong, RpcUnavailable
from .refusals import MAX_WORDS, TOO_MANY_REQUESTS, Meaning, as_geth, busy, meaning_of

DEFAULT_TIMEOUT_S = 10.0
DEFAULT_MAX_BYTES = 32 << 20
QUANTITIES = frozenset(
    ("eth_getTransactionCount", "eth_getBalance", "eth_estimateGas", "eth_gasPrice", "eth_blockNumber")
)
"""Methods whose results are numbers, in hexadecimal digits after 0x (Ethereum JSON-RPC specification)."""
BLOCK_BYTES = 2 << 20
"""Bytes of a block with the hashes of its transactions, or of the receipt of one of ours, at most."""
MAX_BYTES = {
    "eth_chainId": 4 << 10,
    "eth_sendRawTransaction": 64 << 10,
    "eth_getCode": 1 << 20,
    **dict.fromkeys(QUANTITIES, 4 << 10),
    **dict.fromkeys(("eth_getBlockByNumber", "eth_getTransactionReceipt"), BLOCK_BYTES),
}
"""By method: bytes of an answer that are read, with an error in it. Others may have all that the settings allow.
SAFETY: a number of 32 MB would take a gigabyte while it is parsed. But a stranger's transaction may be as long as a
block allows, and must be read."""
LOGS = "eth_getLogs"
MAX_QUOTED = 80
"""Characters of an answer that is none, as they are told."""
CONTENT_TOO_LARGE, GATEWAY_TIMEOUT = 413, 504
"""HTTP statuses of some endpoints for a request with too long an answer."""

Decoder = Callable[[bytes], tuple[str, dict[str, Any]]]
"""Returns name and arguments of the error in revert data."""


@functools.cache
def _tls() -> ssl.SSLContext:
    """Return what checks certificates. NOTE: reading the authorities takes 17 ms for each client."""
    return httpx.create_ssl_context()


def show_endpoint(url: str) -> str:
    """Return an endpoint for logs and health pages. SAFETY: paths, queries and passwords may hold API keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def development_chain(port: int) -> str:
    """Return the command that starts a chain of this machine, on which the contracts run."""
    return f"anvil --block-time 1 --hardfork osaka --silent --port {port}"


class BoundedProvider(JSONBaseProvider):
    """A web3 provider. ``timeout_s`` bounds each wait and, doubled, the whole answer; ``max_bytes`` bounds its size."""

    global_ccip_read_enabled = False  # SAFETY: no contract may send us to URLs of its choice

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        lost: str | None = None,
    ) -> None:
        """``lost``: words and remedy where no settings were found, if the endpoint is their default."""
        super().__init__()
        # SAFETY: processes that share a connection by a fork take no answer that is to the other's request.
        self.request_counter = iter(lambda: secrets.randbits(48), -1)  # type: ignore[assignment]
        self.endpoint_uri = url
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._lost = lost
        self._lock = threading.Lock()
        self.client = self._new_client()
        """The connections that requests take now."""

    def _new_client(self) -> httpx.Client:
        # SAFETY: an endpoint could fill memory with cookies, and have every request longer than the one before.
        none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx.Client(timeout=self._timeout_s, follow_redirects=False, cookies=none, verify=_tls())

    def make_request(self, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request. Raises RpcUnavailable or RpcCorrupt; an error from the endpoint is part of the answer."""
        return self.request(self.client, method, params)

    def request(self, client: httpx.Client, method: RPCEndpoint, params: Any) -> RPCResponse:
        """Send one request by this client."""
        request = self.encode_rpc_request(method, params)
        number = json.loads(request)["id"]
        deadline = time.monotonic() + 2 * self._timeout_s
        answer, most = bytearray(), min(self._max_bytes, MAX_BYTES.get(method, self._max_bytes))
        # SAFETY: a compressed answer may grow a thousandfold before its size is looked at, so none is taken.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        try:
            with client.stream("POST", self.endpoint_uri, content=request, headers=headers) as response:
                packed = response.headers.get("Content-Encoding", "identity")
                if packed.lower() != "identity":
                    raise RpcCorrupt(
                        f"{method}: the answer is packed ({packed[:40]}), which was not asked for"
                    )
                for chunk in response.iter_bytes():
                    answer += chunk
                    if len(answer) > most:
                        raised = " (limits.rpc_bytes)" if most == self._max_bytes else ""
                        raise RpcTooLong(f"{method}: the answer exceeds {most} bytes{raised}")
                    if time.monotonic() > deadline:
                        raise RpcRefused(f"{method}: not answered within {2 * self._timeout_s:.0f} s")
                status, told = response.status_code, response.headers
        # NOTE: a RuntimeError comes of a client that is closed meanwhile (`reset`).
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            if _is_refused(error):
                _nobody_listens(self.endpoint_uri, self._lost, error)
            raise RpcUnavailable(f"{method}: {type(error).__name__} {error}".strip()) from error
        if status == 200:
            found = _parse(method, bytes(answer), number)
        else:
            found = _failed(method, status, told, bytes(answer), number)
        failure: Any = found.get("error")
        if failure is not None and meaning_of(method, params, failure) is Meaning.BUSY:
            raise busy(failure, told, f"{method}: {_words(failure['message'])}", time.time())
        return found

    def reset(self, client: httpx.Client) -> None:
        """Drop the connections of a client, if requests still take it; a request that reads from one fails at its next
        bytes."""
        with self._lock:
            if self.client is not client:
                return
            self.client = self._new_client()
        client.close()


def _is_refused(error: BaseException | None) -> bool:
    """Return whether the system has refused a connection. NOTE: two libraries wrap its error."""
    while error is not None and not isinstance(error, ConnectionRefusedError):
        error = error.__cause__ or error.__context__
    return error is not None


def _nobody_listens(url: str, lost: str | None, error: Exception) -> NoReturn:
    """Raise NobodyListens for an endpoint; ``lost`` is that of `BoundedProvider`."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = f"{parts.hostname}:{port}"
    start = f"(one of this machine: `{development_chain(port)}`)"
    if lost is not None:
        raise NobodyListens(
            f"nothing listens at {address}, and {lost}, start the chain {start}, or name its endpoint in rpc_url"
        ) from error
    if not _is_local(parts.hostname or ""):
        raise NobodyListens(
            f"nothing listens at {address}; start the node of the chain there, or name another endpoint in rpc_url"
        ) from error
    raise NobodyListens(
        f"nothing listens at {address}; start the chain {start}, or name another endpoint in rpc_url"
    ) from error


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _failed(method: str, status: int, headers: httpx.Headers, answer: bytes, number: int) -> RPCResponse:
    """Return the error that comes with a status other than 200, as some endpoints send refusals, and even reverts.

    Raises RpcBusy, RpcRefused or RpcUnavailable with the provider's words if the body is no JSON-RPC error.
    """
    # NOTE: who refuses a request before it is read may not know its number.
    with contextlib.suppress(RpcCorrupt, ValueError):
        body = from_json(answer)
        body = {**body, "id": number} if isinstance(body, dict) and body.get("id") is None else body
        found = _parse(method, json.dumps(body).encode(), number)
        failure: Any = found.get("error")
        if failure is not None and status != TOO_MANY_REQUESTS:
            return found
        if failure is not None:
            raise busy(
                failure, headers, f"{method}: HTTP {status}, {_words(failure['message'])}", time.time()
            )
    words = f"{method}: HTTP {status}"
    if text := _words(answer.decode(errors="replace")):
        words += f", {text}"
    if status == TOO_MANY_REQUESTS:
        raise busy({}, headers, words, time.time())
    if 300 <= status < 400:
        # SAFETY: an endpoint must not choose where our transactions go.
        to = (
            show_endpoint(headers.get("Location", ""))
            if "://" in headers.get("Location", "")
            else "elsewhere"
        )
        raise RpcUnavailable(f"{words}; it sends us to {_words(to)}: name the right address in rpc_url")
    smaller = status == CONTENT_TOO_LARGE or (method == LOGS and (status < 500 or status == GATEWAY_TIMEOUT))
    raise (RpcRefused if smaller else RpcUnavailable)(words)


def _words(text: str) -> str:
    """Return a provider's words on one line, without markup, and not many of them."""
    plain = re.sub(
        r"<(?:style|script).*?</(?:style|script)>|<[^>]{0,400}>", " ", text[: 20 * MAX_WORDS], flags=re.DOTALL
    )
    return " ".join("".join(c if c.isprintable() else " " for c in plain).split())[:MAX_WORDS]


def _parse(method: str, answer: bytes, number: int) -> RPCResponse:
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on an answer of nothing but brackets.
        parsed = from_json(answer)
    except ValueError as error:
        words = _words(answer[: 20 * MAX_WORDS].decode(errors="replace"))[:MAX_QUOTED]
        told = f"is not JSON, but {words!r}" if words else "is empty"
        raise RpcCorrupt(f"{method}: the answer {told}") from error
    # NOTE: in Python, False is 0.
    if not isinstance(parsed, dict) or type(parsed.get("id")) is not int or parsed["id"] != number:
        raise RpcCorrupt(f"{method}: the answer is not to this request")
    failure = parsed.get("error")
    if failure is not None:
        if not isinstance(failure, dict) or not isinstance(failure.get("message", ""), str):
            raise RpcCorrupt(f"{method}: the error in the answer is malformed")
        refusal: Any = as_geth({"code": -32000, "message": "", **failure})
        return {"jsonrpc": "2.0", "id": number, "error": refusal}
    if "result" not in parsed:
        raise RpcCorrupt(f"{method}: the answer has neither result nor error")
    result = parsed["result"]
    if method in QUANTITIES and not (isinstance(result, str) and result.startswith("0x")):
        # SAFETY: web3 takes a JSON number for one, and a nonce that is none would block the account.
        raise RpcCorrupt(f"{method}: {result!s:.80} is not a quantity")
    return {"jsonrpc": "2.0", "id": number, "result": result}


@contextlib.contextmanager
def guarded(action: str, decode: Decoder | None = None) -> Iterator[None]:
    """Turn every error of web3 in the block into RpcRefused, RpcCorrupt or Reverted."""
    try:
        yield
    except (ChainError, AssertionError):
        raise
    except ContractLogicError as error:
        data = _bytes_of(error.data)
        name, values = decode(data) if decode else ("revert", {"message": str(error.message)})
        raise Reverted(action, name, values, data) from error
    except Web3RPCError as error:
        raise RpcRefused(f"{action}: the RPC endpoint answers: {str(error.message)[:300]}") from error
    except (
        BadFunctionCallOutput,
        DecodingError,
        EncodingError,
        Web3Exception,
        AttributeError,
        LookupError,
        OverflowError,
        TypeError,
        ValueError,
    ) as error:
        detail = f"{type(error).__name__}: {error}"
        raise RpcCorrupt(f"{action}: the answer makes no sense ({detail[:300]})") from error


def _bytes_of(data: Any) -> bytes:
    """Return the raw data of a revert; empty if the endpoint gives none."""
    try:
        return bytes.fromhex(data.removeprefix("0x")) if isinstance(data, str) else b""
    except ValueError:
        return b""
