"""What a transaction has left in the state of a chain, as a schedule of gas counts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from referee_py.gas_schedule import Counts

TRACER = {"tracer": "prestateTracer", "tracerConfig": {"diffMode": True}}
"""Gives the accounts and words that differ, before and after; a word that is zero is left out."""


def counts_of(request: Callable[[str, list[Any]], Any], transaction: str) -> Counts:
    """Return the counts of a mined transaction, by its hash. ``request``: sends a method to a node that traces."""
    sent = request("eth_getTransactionByHash", [transaction])
    traced = request("debug_traceTransaction", [transaction, TRACER])
    pre, post = traced["pre"], traced["post"]
    new = overwritten = cleared = accounts = code = 0
    for address in pre.keys() | post.keys():
        before, after = pre.get(address, {}), post.get(address, {})
        was, became = (set(one.get("storage", {})) for one in (before, after))
        new += len(became - was)
        overwritten += len(became & was)
        cleared += len(was - became)
        accounts += address not in pre
        code += 0 if "code" in before else len(after.get("code", "0x")) // 2 - 1
    calldata = len(sent["input"]) // 2 - 1
    return Counts(new, overwritten, cleared, accounts, code, calldata, int(int(sent["value"], 16) > 0))
