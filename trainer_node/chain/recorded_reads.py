"""Data read for a decision: each request with a hash of its answer, so that others can be asked the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from web3.types import RPCEndpoint, RPCResponse

from ..errors import RpcCorrupt

MAX_NOTES = 10_000
"""Requests of a snapshot that are remembered; no decision reads more."""
BLOCK, CALL, LOGS = map(RPCEndpoint, ("eth_getBlockByNumber", "eth_call", "eth_getLogs"))


@dataclass(frozen=True, slots=True)
class Note:
    """A request, and the hash of what must be equal in every endpoint's answer. ``source``: the endpoint that gave this
    one; None: unknown."""

    method: RPCEndpoint
    params: Any
    digest: bytes
    source: Any = field(default=None, compare=False)

    @classmethod
    def of(cls, method: RPCEndpoint, params: Any, answer: RPCResponse, source: Any = None) -> Note:
        """Return the note of an answer."""
        digest = hashlib.sha256(repr(_canonical(method, answer)).encode()).digest()
        return cls(method, params, digest, source)

    def __str__(self) -> str:
        return f"{self.method} {str(self.params)[:120]}"


class Notes:
    """The requests that something has been decided on."""

    def __init__(self) -> None:
        self.kept: list[Note] = []

    def add(self, method: RPCEndpoint, params: Any, answer: RPCResponse, source: Any = None) -> None:
        """Add a request, its answer, and the endpoint that gave it. Raises RpcCorrupt if there are too many."""
        if len(self.kept) >= MAX_NOTES:
            raise RpcCorrupt(f"a look at the chain takes more than {MAX_NOTES} requests")
        self.kept.append(Note.of(method, params, answer, source))

    def extend(self, notes: Notes) -> None:
        """Add the requests of a reading that made sense. An answer that did not is read again, and decides nothing."""
        if len(self.kept) + len(notes.kept) > MAX_NOTES:
            raise RpcCorrupt(f"a look at the chain takes more than {MAX_NOTES} requests")
        self.kept += notes.kept


def _canonical(method: str, answer: Any) -> Any:
    """Return what must be equal in two endpoints' answers. NOTE: the order of logs, and fields that only some nodes
    know, say nothing."""
    result = answer.get("result")
    if "error" in answer:
        return "error", str((answer["error"].get("data")) or "")
    if method == BLOCK and isinstance(result, dict):
        return [result.get(name) for name in ("number", "hash", "timestamp", "baseFeePerGas")]
    if method == LOGS and isinstance(result, list):
        names = "blockNumber", "logIndex", "address", "data", "transactionHash", "topics"
        return sorted(
            str([log.get(name) for name in names]).lower() for log in result if isinstance(log, dict)
        )
    return result.lower() if isinstance(result, str) else result
