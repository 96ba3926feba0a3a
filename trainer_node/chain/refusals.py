"""Meanings of what endpoints say when they do not answer: one for each of the many forms.

    revert     the contract's own answer, wherever a client puts its data: rewritten as Geth gives it
    busy       it has had enough requests for now: the same request later, and fewer of them
    later      it does not have this yet: the same request in a moment
    other      a refusal of this very request: a smaller one may work, or another block tag

No standard says how these look (EIP-1474 has codes, and few keep to them), so words decide where codes do not. The
tests name where each form was seen (tests/campaigns/quirks.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any

from web3.exceptions import ContractLogicError, Web3RPCError
from web3.types import RPCResponse

from ..errors import RpcBusy

MAX_WORDS = 300
"""Characters of a provider's words that are told."""
PENDING = "pending"
FINAL_TAGS = "safe", "finalized"
TOO_MANY_REQUESTS = 429
"""HTTP status (RFC 6585, section 4); some endpoints use it as a JSON-RPC code, too."""
LIMIT_EXCEEDED = -32005
"""JSON-RPC code for requests beyond any limit (EIP-1474): too many of them, or one of too much."""
BUSY_CODES = TOO_MANY_REQUESTS, -32029, -32016
"""JSON-RPC codes that some providers have for too many requests alone."""
_BUSY = re.compile(
    r"rate.?limit|request rate|too many requests|request limit|requests? (?:per|/) ?(?:second|minute)"
    r"|per second capacity|compute units|throttl|request count exceeded|quota|credits? (?:limit|exceeded)",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"header not found|header for hash not found|block not found|unknown block|block is out of range|missing trie node"
    r"|indexing is in progress|not (?:yet )?(?:indexed|available yet|synced)|after last accepted block"
    r"|try again|temporarily|timed? ?out|timeout|upstream|bad gateway|service unavailable|no (?:healthy|available) ",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"pending|too many arguments|block (?:tag|parameter|number)|invalid params|argument 1", re.IGNORECASE
)
_RESULTS = re.compile(
    r"more than [\d,]+ (?:results|logs)|response size|too many (?:results|logs)|response is too",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"already ?known|already imported|known transaction|already exists|already_exists", re.IGNORECASE
)
_HEX = re.compile(r"0x(?:[0-9a-fA-F]{2})+")
_NESTS = "data", "result", "originalError", "error", "cause"
_MAX_DEPTH = 4
_SELECTOR_DIGITS, _WORD_DIGITS = 8, 64


ESTIMATE = "eth_estimateGas"


class Meaning(Enum):
    """Meaning of an error in an answer."""

    REVERT = "revert"
    BUSY = "busy"
    LATER = "later"
    OTHER = "other"


def meaning_of(method: str, params: Any, error: Mapping[str, Any]) -> Meaning:
    """Return what the error in an answer to a request means."""
    if is_revert(error):
        return Meaning.REVERT
    words, code = str(error.get("message", "")), error.get("code")
    # NOTE: for logs the code of a limit is that of the range, unless the words are about the rate.
    if code in BUSY_CODES or _BUSY.search(words):
        return Meaning.BUSY
    if code == LIMIT_EXCEEDED and method != "eth_getLogs":
        return Meaning.BUSY
    if _LATER.search(words) and not _names(params, FINAL_TAGS):
        # NOTE: who has no final blocks has none a second later.
        return Meaning.LATER
    return Meaning.OTHER


def is_about_results(words: str) -> bool:
    """Return whether an endpoint refuses a range of blocks because of what is in it, and not because of its length."""
    return bool(_RESULTS.search(words))


def has_it_already(words: str) -> bool:
    """Return whether an endpoint refuses a transaction because it has it, in the words of Geth, OpenEthereum,
    Nethermind, Besu or Erigon."""
    return bool(_KNOWN.search(words))


def refuses_pending(method: str, answer: RPCResponse) -> bool:
    """Return whether an endpoint refuses a request about the pending block for that reason.

    NOTE: some say "internal error"; but a count of transactions can be refused for nothing else.
    """
    error: Any = answer.get("error")
    words = str(error.get("message", "")) if error is not None else ""
    return is_refusal(answer) and (method == "eth_getTransactionCount" or bool(_TAG.search(words)))


def without_pending(method: str, params: Any) -> Any:
    """Return a request's parameters for an endpoint that knows no pending block: the newest one instead, and for
    estimates none, because some clients take one argument."""
    if method == ESTIMATE:
        return params[:1]
    return ["latest" if part == PENDING else part for part in params]


def busy(error: Mapping[str, Any], headers: Mapping[str, str], told: str, now_s: float) -> RpcBusy:
    """Return the error for an endpoint that has had enough requests, with its hint of when to come again. ``now_s``:
    unix seconds."""
    return RpcBusy(told, _retry_after_s(headers, now_s) or _backoff_s(error))


def _retry_after_s(headers: Mapping[str, str], now_s: float) -> float:
    """Return the seconds of the header Retry-After, which may name a date (RFC 9110, section 10.2.3); 0 without it."""
    text = headers.get("Retry-After", "").strip()
    try:
        return (
            max(float(text), 0.0) if text[:1].isdigit() else parsedate_to_datetime(text).timestamp() - now_s
        )
    except (ValueError, OverflowError):
        return 0.0


def _backoff_s(error: Mapping[str, Any]) -> float:
    """Return the seconds of the hint that Infura puts into the error, as ``backoff_seconds`` in ``data`` or in
    ``data.rate``; 0 without it."""
    data = error.get("data")
    places = (data, data.get("rate")) if isinstance(data, dict) else ()
    found = (place.get("backoff_seconds") for place in places if isinstance(place, dict))
    return max((float(one) for one in found if isinstance(one, int | float)), default=0.0)


# ------------------------------------------------------------------ reverts


def is_revert(error: Mapping[str, Any]) -> bool:
    """Return whether an error is the contract's answer."""
    data, words = error.get("data"), str(error.get("message", "")).lower()
    nested = isinstance(data, dict) and any(name in data for name in ("data", "result", "originalError"))
    text = isinstance(data, str) and data.startswith(("0x", "Reverted"))
    return error.get("code") == 3 or "revert" in words or nested or text


def as_geth(error: dict[str, Any]) -> dict[str, Any]:
    """Return an error with a revert in the form of Geth, code 3 and the data as hexadecimal text; others unchanged."""
    if not is_revert(error):
        return error
    data = _revert_data(error, 0) or _in_words(str(error.get("message", "")))
    return {**error, "code": 3, **({"data": data} if data else {"data": "0x"})}


def _revert_data(error: Any, depth: int) -> str | None:
    """Return revert data, however deep they are nested; None if there are none."""
    if isinstance(error, str):
        text = error.removeprefix("Reverted ")
        return text if text == "0x" or _HEX.fullmatch(text) else None
    if not isinstance(error, dict) or depth > _MAX_DEPTH:
        return None
    found = (_revert_data(error[name], depth + 1) for name in _NESTS if name in error)
    return next((data for data in found if data), None)


def _in_words(message: str) -> str | None:
    """Return revert data that stand in the message: a selector and whole words."""
    for found in _HEX.findall(message):
        if (len(found) - 2) % _WORD_DIGITS == _SELECTOR_DIGITS:
            return str(found)
    return None


def is_refusal(answer: RPCResponse) -> bool:
    """Return whether the endpoint could not answer. NOTE: a revert is an answer, the contract's."""
    error: Any = answer.get("error")
    return error is not None and not is_revert(error)


def result_of(answer: RPCResponse) -> Any:
    """Return what is in an answer. Raises ContractLogicError for a revert, Web3RPCError for any other error."""
    error: Any = answer.get("error")
    if error is None:
        return answer["result"]
    if is_refusal(answer):
        raise Web3RPCError(str(error.get("message", "")))
    raise ContractLogicError(str(error.get("message", "")), data=error.get("data"))


def _names(params: Any, tags: tuple[str, ...]) -> bool:
    return any(part in tags for part in params if isinstance(part, str))


def for_now(refusal: str) -> bool:
    """Return whether a refusal holds only until earlier transactions of the account are mined: a pool has places for
    some of each (reth for 16), and an endpoint of several machines may get the next one first."""
    words = "txpool", "transaction pool", "account limit", "nonce too high", "nonce gap", "gapped"
    return any(word in refusal.lower() for word in words)
