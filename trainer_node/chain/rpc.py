"""JSON-RPC over HTTP with bounds on time, bytes and types. Every failure becomes one of our own errors.

NOTE: web3's own provider reads answers of any length, follows redirects and retries by itself; here the caller decides.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
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

from ..errors import ChainError, Reverted, RpcCorrupt, RpcRefused, RpcTooLong, RpcUnavailable

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
CONTENT_TOO_LARGE = 413
"""HTTP status of some endpoints for a request with too long an answer."""

Decoder = Callable[[bytes], tuple[str, dict[str, Any]]]
"""Returns name and arguments of the error in revert data."""


def show_endpoint(url: str) -> str:
    """Return an endpoint for logs and health pages. SAFETY: paths, queries and passwords may hold API keys."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


class BoundedProvider(JSONBaseProvider):
    """A web3 provider. ``timeout_s`` bounds each wait and, doubled, the whole answer; ``max_bytes`` bounds its size."""

    global_ccip_read_enabled = False  # SAFETY: no contract may send us to URLs of its choice

    def __init__(
        self, url: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, max_bytes: int = DEFAULT_MAX_BYTES
    ) -> None:
        super().__init__()
        # SAFETY: processes that share a connection by a fork take no answer that is to the other's request.
        self.request_counter = iter(lambda: secrets.randbits(48), -1)  # type: ignore[assignment]
        self.endpoint_uri = url
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self.client = self._new_client()
        """The connections that requests take now."""

    def _new_client(self) -> httpx.Client:
        # SAFETY: an endpoint could fill memory with cookies, and have every request longer than the one before.
        none = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return httpx.Client(timeout=self._timeout_s, follow_redirects=False, cookies=none)

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
                status = response.status_code
        # NOTE: a RuntimeError comes of a client that is closed meanwhile (`reset`).
        except (httpx.HTTPError, httpx.InvalidURL, RuntimeError) as error:
            raise RpcUnavailable(f"{method}: {type(error).__name__} {error}".strip()) from error
        if status == CONTENT_TOO_LARGE:
            raise RpcRefused(f"{method}: HTTP {status}, {bytes(answer[:300]).decode(errors='replace')}")
        if status != 200:
            raise RpcUnavailable(f"{method}: HTTP {status}")
        return _parse(method, bytes(answer), number)

    def reset(self, client: httpx.Client) -> None:
        """Drop the connections of a client, if requests still take it; a request that reads from one fails at its next
        bytes."""
        with self._lock:
            if self.client is not client:
                return
            self.client = self._new_client()
        client.close()


def _parse(method: str, answer: bytes, number: int) -> RPCResponse:
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on an answer of nothing but brackets.
        parsed = from_json(answer)
    except ValueError as error:
        raise RpcCorrupt(f"{method}: the answer is not JSON: {error}") from error
    # NOTE: in Python, False is 0.
    if not isinstance(parsed, dict) or type(parsed.get("id")) is not int or parsed["id"] != number:
        raise RpcCorrupt(f"{method}: the answer is not to this request")
    failure = parsed.get("error")
    if failure is not None:
        if not isinstance(failure, dict) or not isinstance(failure.get("message", ""), str):
            raise RpcCorrupt(f"{method}: the error in the answer is malformed")
        return {"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "", **failure}}  # type: ignore[typeddict-item]
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
        data = revert_data(error)
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


def is_refusal(answer: RPCResponse) -> bool:
    """Return whether the endpoint could not answer. NOTE: a revert is an answer, the contract's."""
    error: Any = answer.get("error")
    if error is None:
        return False
    data = error.get("data")
    nested = isinstance(data, dict) and ("data" in data or "result" in data)
    reverted = error.get("code") == 3 or "revert" in str(error.get("message", "")).lower()
    return not (reverted or nested or (isinstance(data, str) and data.startswith(("0x", "Reverted"))))


def result_of(answer: RPCResponse) -> Any:
    """Return what is in an answer. Raises ContractLogicError for a revert, Web3RPCError for any other error."""
    error: Any = answer.get("error")
    if error is None:
        return answer["result"]
    if is_refusal(answer):
        raise Web3RPCError(str(error.get("message", "")))
    raise ContractLogicError(str(error.get("message", "")), data=error.get("data"))


def revert_data(error: ContractLogicError) -> bytes:
    """Return the raw data of a revert; empty if the endpoint gives none."""
    data = error.data
    if isinstance(data, dict):  # some endpoints nest it
        data = data.get("data") or data.get("result")
    if not isinstance(data, str):
        return b""
    try:
        return bytes.fromhex(data.removeprefix("Reverted ").removeprefix("0x"))
    except ValueError:
        return b""
