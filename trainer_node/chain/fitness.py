"""Checks of a chain before ether is at stake: is it fit for the contracts and for those who send to them?

Each check gives one finding, which names what was found, what is wanted and what to do. Nobody deploys where one fails.
If one of `NEEDED` fails, some move of an honest party could not be made in time, so nobody stakes there either; the
others concern the endpoint, this machine's clock, or lists of releases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import structlog
from web3 import Web3
from web3.types import RPCEndpoint

from referee_py.gas_schedule import LIKE, Schedule, schedule_like
from referee_py.program.playable import MAX_GAS

from ..errors import Reverted, RpcCorrupt, RpcRefused, RpcUnavailable, UnfitChain
from ..observe.findings import Finding, State
from .abi import Build
from .block import Block, block_of, block_request, quantity
from .contracts import needs_of
from .counted_blocks import FINALITY_S, ChainRule
from .endpoints import endpoints_of
from .fees import GWEI
from .majority import agreed, answers, most_of
from .opcodes import Needs, told
from .probe import Executed, execute, gives_gas, word_price
from .tags import STALLED

TRANSACTION_GAS = MAX_GAS * 5 // 4
"""Gas that a transaction must be able to take: the most that a move may, with the margin of estimates."""
NEAR_BLOCKS, NEAR_S = 100, 120
"""Blocks and seconds that what contracts see may be from the block that the endpoint has shown a moment before."""
SKEW_S = 15
"""Seconds that this machine's clock may differ from the chain's, as far as blocks show it."""
OLD_BLOCKS = 20
"""Blocks that the newest block may be late by before the endpoint counts as behind."""
NEEDED = frozenset(
    ("opcodes", "code size", "transaction gas", "block gas", "base fee", "block time", "gas schedule")
)
_BLOCK = RPCEndpoint("eth_getBlockByNumber")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Look:
    head: Block
    has_base_fee: bool
    gas_limit: int
    ran: Executed


def check_chain(
    web3: Web3,
    needs: Needs,
    rule: ChainRule,
    stated: Schedule | None = None,
    clock: Callable[[], float] = time.time,
) -> Iterator[Finding]:
    """Yield the findings about a chain. ``stated``: the schedule by which the deployment's prices count, if there is
    one; ``clock`` gives unix seconds.

    Raises RpcUnavailable if no endpoint answers, RpcCorrupt if their answers make no sense.
    """
    endpoints = endpoints_of(web3)
    try:
        found = answers(endpoints, lambda: _look(web3, needs), lambda one: _capable(one.ran))
    except (Reverted, RpcRefused) as error:
        remedy = "use an endpoint of an Ethereum chain that allows eth_call without a recipient"
        yield Finding("opcodes", State.WARN, f"cannot be tried: {error}", remedy)
        return
    capable = most_of([_capable(one.ran) for one in found])
    look = next(one for one in found if _capable(one.ran) == capable)
    yield _opcodes(needs, look.ran)
    yield _code_size(needs, look.ran)
    given = agreed(endpoints, lambda: gives_gas(web3, TRANSACTION_GAS))
    yield _transaction_gas(given)
    yield _block_gas(look.gas_limit)
    yield _gas_schedule(charged(web3), stated)
    yield _base_fee(look)
    yield _finality(web3, look.head, rule)
    yield _block_number(look)
    yield _block_time(look, clock())
    yield check_clock(clock() - look.head.timestamp, rule)


def charged(web3: Web3) -> int | None:
    """Return what most endpoints say that a new word of storage costs, in units of gas: as a schedule has it, if it is
    like one, else in thousands; None if they do not estimate it. Raises RpcUnavailable or RpcCorrupt."""

    def asked() -> int | None:
        price = word_price(web3)
        if price is None:
            return None
        like = schedule_like(price)
        return like.new if like is not None else max(1, round(price / 1000)) * 1000

    return agreed(endpoints_of(web3), asked)


def logged(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings again, and log those that are not well."""
    for finding in findings:
        if finding.state is not State.OK:
            told = {"check": finding.name, "reason": finding.text, "remedy": finding.remedy}
            _log.warning("chain.finding", **told)
        yield finding


def require_fit(web3: Web3, needs: Needs, rule: ChainRule, stated: Schedule | None = None) -> None:
    """Raise UnfitChain, with all that the chain lacks and the remedies, if a check fails; else as `check_chain`."""
    failed = [str(one) for one in logged(check_chain(web3, needs, rule, stated)) if one.state is State.FAIL]
    if failed:
        raise UnfitChain("; ".join(failed))


def check_clock(age: float, rule: ChainRule) -> Finding:
    """Compare our clock with the newest block, ``age`` seconds old: no block is from the future of a right clock."""
    if age < -SKEW_S:
        state = State.WARN if rule.local else State.FAIL
        remedy = (
            "set this machine's clock (NTP)" if not rule.local else "a local chain whose time was put forward"
        )
        return Finding("clock", state, f"the newest block is {-age:.0f} s in our future", remedy)
    if age > OLD_BLOCKS * rule.block_s and not rule.local:
        return Finding(
            *("clock", State.WARN, f"the newest block is {age:.0f} s old"),
            "the endpoint is behind, or this machine's clock is fast: compare both with another source",
        )
    return Finding("clock", State.OK, f"the newest block is {max(age, 0):.0f} s old")


def _look(web3: Web3, needs: Needs) -> _Look:
    """Return what one endpoint shows of its newest block, and what runs there."""
    answer = endpoints_of(web3).make_request(_BLOCK, block_request("latest"))
    head, raw = block_of(answer, "latest"), answer["result"]
    try:
        gas_limit = quantity(raw["gasLimit"])
    except (LookupError, TypeError, ValueError) as error:
        raise RpcCorrupt(f"the newest block has no gas limit ({error})") from error
    ran = execute(web3, needs.opcodes, needs.code_bytes)
    return _Look(head, raw.get("baseFeePerGas") is not None, gas_limit, ran)


def _capable(ran: Executed) -> tuple[tuple[int, ...], bool]:
    return ran.lacking, ran.holds_code


def _opcodes(needs: Needs, ran: Executed) -> Finding:
    count = len(needs.opcodes)
    if not ran.lacking:
        return Finding("opcodes", State.OK, f"all {count} that not every chain has were executed")
    lacking = ", ".join(map(told, ran.lacking))
    text = f"the contracts use what the chain does not execute: {lacking}"
    if any(opcode in needs_of(Build.PORTABLE).opcodes for opcode in ran.lacking):
        return Finding("opcodes", State.FAIL, text, "choose another chain: no build of Assay runs there")
    remedy = "stake nothing in them; the portable build runs there: `assay deploy --portable`"
    return Finding("opcodes", State.FAIL, text, remedy)


def _code_size(needs: Needs, ran: Executed) -> Finding:
    text = f"code of {needs.code_bytes:,} bytes, as long as the longest contract's,"
    if ran.holds_code:
        return Finding("code size", State.OK, f"{text} can be created")
    return Finding("code size", State.FAIL, f"{text} cannot be created", "choose a chain that takes it")


def _transaction_gas(given: bool | None) -> Finding:
    name, wanted = "transaction gas", f"{TRANSACTION_GAS:,} gas"
    if given is None:
        text = f"whether a transaction may take {wanted} cannot be asked: the endpoint does not estimate it"
        return Finding(name, State.WARN, text, "ask another endpoint")
    if given:
        return Finding(name, State.OK, f"a transaction may take {wanted}")
    text = f"a transaction may not take {wanted}, which a move of an honest party may need"
    return Finding(name, State.FAIL, text, "choose another chain, or an endpoint with a higher limit")


def _block_gas(limit: int) -> Finding:
    text = f"a block has {limit:,} gas; a move may need {TRANSACTION_GAS:,}"
    if limit >= TRANSACTION_GAS:
        return Finding("block gas", State.OK, text)
    return Finding("block gas", State.FAIL, text, "choose another chain")


def _gas_schedule(price: int | None, stated: Schedule | None) -> Finding:
    """Compare what the chain charges with the schedule that the deployment's stakes count by."""
    name = "gas schedule"
    if price is None:
        text = "what a new word of storage costs cannot be asked: the endpoint does not estimate it"
        return Finding(name, State.WARN, text, "ask another endpoint")
    like = schedule_like(price)
    known = like.name if like else "no schedule"
    charges = f"the chain charges {price:,} gas for a new word of storage, as {known} does"
    if stated is None:
        remedy = "" if like else "this build does not know what disputes cost there: look for a newer one"
        return Finding(name, State.OK if like else State.WARN, charges, remedy)
    says = f"{charges}; the deployment counts by {stated.name}"
    if stated is like:
        return Finding(name, State.OK, says)
    if price > stated.new * LIKE:
        text = (
            f"{says}, so its stakes and bonds no longer pay for the disputes that they are meant to pay for"
        )
        remedy = "stake nothing new in it; jobs that run are played to their end"
        if like:
            remedy += f"; deploy again with `assay deploy --schedule {like.name}`"
        return Finding(name, State.FAIL, text, remedy)
    text = f"{says}, so stakes and bonds are larger than disputes ask for"
    remedy = "nothing is at risk; before a fork that makes storage dearer that is intended"
    return Finding(name, State.WARN, text, remedy)


def _base_fee(look: _Look) -> Finding:
    if look.has_base_fee:
        return Finding("base fee", State.OK, f"{look.head.base_fee / GWEI:.6g} gwei")
    text = "blocks have no base fee (EIP-1559), by which stakes and transactions are priced"
    return Finding("base fee", State.FAIL, text, "choose another chain")


def _finality(web3: Web3, head: Block, rule: ChainRule) -> Finding:
    shown, missing = [], []
    for tag in ("safe", "finalized"):
        try:
            block = agreed(endpoints_of(web3), lambda tag=tag: _tagged(web3, tag))  # type: ignore[misc]
        except (RpcUnavailable, RpcCorrupt):
            missing.append(tag)
            continue
        age = head.timestamp - block.timestamp
        late = age > STALLED * FINALITY_S[tag] and block.number > 0
        shown.append(f"the {tag} block is {age} s older than the newest" + (", too old" if late else ""))
        if late and tag == rule.finality and not rule.local:
            remedy = "wait until the chain finalizes again, or ask another endpoint"
            return Finding("finality", State.WARN, shown[-1], remedy)
    text = "; ".join((*shown, *(f"there is no {tag} block" for tag in missing)))
    if rule.finality in missing:
        remedy = 'set finality = "confirmations" and `confirmations`, or ask another endpoint'
        return Finding("finality", State.FAIL, text, remedy)
    return Finding("finality", State.OK, text)


def _tagged(web3: Web3, tag: str) -> Block:
    return block_of(endpoints_of(web3).make_request(_BLOCK, block_request(tag)), tag)


def _block_number(look: _Look) -> Finding:
    seen, shown = look.ran.seen.number, look.head.number
    if abs(seen - shown) <= NEAR_BLOCKS:
        return Finding("block number", State.OK, f"contracts see the block's own, {seen}")
    text = f"contracts see {seen} in block {shown}: it counts the blocks of another chain"
    return Finding(
        "block number", State.FAIL, text, "lists of releases do not work there: choose another chain"
    )


def _block_time(look: _Look, now: float) -> Finding:
    """NOTE: some nodes execute calls in the block to come, whose time is later than the newest one's."""
    seen, shown = look.ran.seen.time, look.head.timestamp
    if look.head.number == 0:
        return Finding("block time", State.OK, "not known yet: the chain has only its first block")
    if shown - NEAR_S <= seen <= max(shown, now) + NEAR_S:
        return Finding("block time", State.OK, "contracts see the block's own, in seconds")
    text = f"contracts see the time {seen} in a block of {shown}"
    return Finding("block time", State.FAIL, text, "clocks would not run as they must: choose another chain")
