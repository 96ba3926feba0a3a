"""An account through several endpoints: one that lies stops no act, doubles none, and prices none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from eth_account import Account
from web3 import Web3

from tests.campaigns.proxy import FaultProxy, Trouble
from tests.conftest import Anvil
from trainer_node.chain import Call, TransactionManager, connect
from trainer_node.chain.endpoints import PATIENCE_S, endpoints_of
from trainer_node.errors import ChainError, SignerUnavailable, TransactionLost, TransactionPending
from trainer_node.storage.database import Database

from ..moved_time import MovedTime
from .endpoint import ADDRESS
from .liar import ENDLESS, Liar
from .outbox_bench import OTHER, Bench, Clock, url_of

TO = Web3.to_checksum_address(ADDRESS)


def reverted(true: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": 3, "message": "execution reverted", "data": "0x"}, "result": None}


def shadowing(true: dict[str, Any]) -> dict[str, Any]:
    return {"result": {**true["result"], "get": "0x1", "items": "0x1", "baseFeePerGas": ENDLESS}}


class Late(FaultProxy):
    """Takes its time for everything, or for one method."""

    def __init__(self, upstream: str, wait_s: float = 0.05, method: str = "") -> None:
        super().__init__(upstream)
        self.wait_s, self.method = wait_s, method

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        if self.method in ("", request["method"]):
            time.sleep(self.wait_s)
        super().answer(handler, request)


def free_gas(true: dict[str, Any]) -> dict[str, Any]:
    return {"result": {**true["result"], "baseFeePerGas": "0x0"}}


def one_more(true: dict[str, Any]) -> dict[str, Any]:
    return {"result": hex(int(true["result"], 16) + 1)}


def failed(true: dict[str, Any]) -> dict[str, Any]:
    return {"result": true["result"] and {**true["result"], "status": "0x0"}}


def nonce_refused(true: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": -32003, "message": "nonce too low"}, "result": None}


LIES: list[dict[str, Any]] = [
    {"eth_getBalance": "0x0"},
    {"eth_getBalance": ENDLESS},
    {"eth_getBalance": hex(1 << 100)},
    {"eth_getTransactionCount": ENDLESS},
    {"eth_getTransactionCount": hex(10**9)},
    {"eth_getTransactionCount": "0x0"},
    {"eth_getTransactionCount": one_more},
    {"eth_getTransactionCount": 7},
    *({"eth_estimateGas": gas} for gas in (ENDLESS, "0x0", "0x1", "0x5208", hex(1 << 30))),
    {"eth_estimateGas": reverted},
    {"eth_call": reverted},
    {"eth_getBlockByNumber": shadowing},
    {"eth_getBlockByNumber": free_gas},
    *(
        {"eth_sendRawTransaction": answer}
        for answer in (ENDLESS, "nonsense", "0x" + "11" * 32, nonce_refused)
    ),
    {"eth_getTransactionReceipt": failed},
    {"eth_getTransactionReceipt": lambda _: {"result": None}, "eth_getTransactionCount": "0x0"},
    {"eth_estimateGas": "0x1", "eth_sendRawTransaction": "0x" + "11" * 32},
    {
        "eth_getTransactionCount": hex(10**9),
        "eth_estimateGas": "0x1",
        "eth_sendRawTransaction": nonce_refused,
    },
]


def lies_at_places() -> Iterator[Any]:
    """Yield each lie of the endpoint that serves, and of the last one; the last of each method is a quick test."""
    told = {"+".join(lies): lies for lies in LIES}
    for lies in LIES:
        words = "+".join(lies)
        yield pytest.param(lies, 0, id=f"{words}-serving")
        slow = [] if told[words] is lies else [pytest.mark.slow]
        yield pytest.param(lies, 2, id=f"{words}-last", marks=slow)


@pytest.mark.parametrize(("lies", "place"), list(lies_at_places()))
def test_one_of_three_stops_no_act_and_doubles_none(
    module_anvil: Anvil, liar: Liar, lies: dict[str, object], place: int
) -> None:
    with FaultProxy(module_anvil.url) as first, FaultProxy(module_anvil.url) as second:
        urls = [first.url, second.url]
        urls.insert(place, liar.url)
        web3 = connect(urls, 31337)
        liar.lies |= lies
        account = Account.from_key(module_anvil.keys[5])
        manager = TransactionManager(web3, account, Database(None), chain_id=31337, poll_s=0.02)
        direct = connect(module_anvil.url, 31337)
        before = direct.eth.get_balance(Web3.to_checksum_address(ADDRESS))
        for number in range(2):
            receipt = manager.send(Call("pay", ADDRESS, bytes([number + 1]), 5), timeout_s=20)
            assert 21000 < receipt.gas_used < 22000
        assert direct.eth.get_balance(Web3.to_checksum_address(ADDRESS)) == before + 10
        assert not manager.open()


def test_a_transaction_that_waits_is_not_lost_because_one_says_so(
    module_anvil: Anvil, liar: Liar, three: Web3
) -> None:
    direct = connect(module_anvil.url, 31337)
    liar.lies["eth_getTransactionCount"] = one_more
    account, to = Account.from_key(module_anvil.keys[5]), Web3.to_checksum_address(ADDRESS)
    manager = TransactionManager(three, account, Database(None), chain_id=31337, poll_s=0.02)
    before = direct.eth.get_balance(to)
    rpc: Callable[..., Any] = direct.provider.make_request
    rpc("evm_setAutomine", [False])
    mine = threading.Timer(2.0, lambda: rpc("evm_mine", []))
    mine.start()
    try:
        assert manager.send(Call("pay", ADDRESS, b"", 5), timeout_s=20).gas_used == 21000
    finally:
        mine.join()
        rpc("evm_setAutomine", [True])
    assert direct.eth.get_balance(to) == before + 5


@pytest.mark.parametrize("serving", [True, False])
def test_one_does_not_decide_that_an_act_is_right(module_anvil: Anvil, liar: Liar, serving: bool) -> None:
    """What most endpoints refuse is not sent because another one says that it works: a revert costs gas."""
    with FaultProxy(module_anvil.url) as other:
        urls = [liar.url, module_anvil.url, other.url] if serving else [module_anvil.url, liar.url]
        web3 = connect(urls, 31337)
        liar.lies |= {"eth_call": "0x", "eth_estimateGas": "0x186a0"}
        account = Account.from_key(module_anvil.keys[5])
        manager = TransactionManager(web3, account, Database(None), chain_id=31337, poll_s=0.02)
        code = bytes.fromhex("60006000fd")  # reverts
        with pytest.raises(ChainError, match="revert"):
            manager.submit(Call("create", None, code, 0))


# ------------------------------------------------------------------ nonces


def manager_of(web3: Web3, key: str, database: Database | None = None, **settings: Any) -> TransactionManager:
    settings = {"poll_s": 0.02, **settings}
    return TransactionManager(
        web3, Account.from_key(key), database or Database(None), chain_id=31337, **settings
    )


@pytest.fixture
def pair(module_anvil: Anvil, liar: Liar) -> Iterator[tuple[Web3, FaultProxy]]:
    """A connection to a liar and to another endpoint."""
    with FaultProxy(module_anvil.url) as other:
        yield connect([liar.url, other.url], 31337), other


@pytest.mark.parametrize("nonce", [hex(1000), hex(10**9), one_more])
def test_who_answers_alone_is_believed_no_further_than_our_transactions_go(
    module_anvil: Anvil, liar: Liar, pair: tuple[Web3, FaultProxy], nonce: object
) -> None:
    web3, other = pair
    manager = manager_of(web3, module_anvil.keys[6])
    assert manager.send(Call("pay", ADDRESS, b"", 5), timeout_s=20).gas_used == 21000
    other.always = Trouble.STATUS
    liar.lies["eth_getTransactionCount"] = nonce
    before = connect(module_anvil.url, 31337).eth.get_balance(TO)
    sent = manager.submit(Call("pay", ADDRESS, b"", 5))
    other.always = None
    liar.lies.clear()
    assert manager.wait(sent, timeout_s=20).gas_used == 21000
    assert connect(module_anvil.url, 31337).eth.get_balance(TO) == before + 5


def test_a_nonce_that_is_too_high_keeps_nobody_waiting(module_anvil: Anvil, liar: Liar) -> None:
    """Without a transaction of ours and with one endpoint, it is believed; later ones fill the gap."""
    key = module_anvil.keys[7]
    manager = manager_of(connect(liar.url, 31337), key)
    liar.lies["eth_getTransactionCount"] = lambda true: {"result": hex(int(true["result"], 16) + 2)}
    first = manager.submit(Call("pay", ADDRESS, b"", 5))
    liar.lies.clear()
    for _ in range(2):
        assert manager.send(Call("pay", ADDRESS, b"", 5), timeout_s=20).gas_used == 21000
    assert manager.wait(first, timeout_s=20).gas_used == 21000
    assert not manager.open()


def test_what_is_refused_and_yet_taken_is_not_sent_twice(module_anvil: Anvil, liar: Liar) -> None:
    liar.lies["eth_sendRawTransaction"] = lambda _: {
        "error": {"code": -32005, "message": "rate limit exceeded"},
        "result": None,
    }
    direct, clock = connect(module_anvil.url, 31337), Clock()
    before = direct.eth.get_balance(TO)
    # NOTE: a refused request is sent again for a quarter of a minute, by this clock.
    manager = manager_of(connect(liar.url, 31337, clock=clock, sleep=clock.sleep), module_anvil.keys[6])
    assert manager.send(Call("pay", ADDRESS, b"", 5), timeout_s=20).gas_used == 21000
    assert direct.eth.get_balance(TO) == before + 5


def test_gaps_are_filled_or_given_up(slow: Bench) -> None:
    """One endpoint tells a nonce that is too high, once: by a few, or by a billion."""
    with Liar(url_of(slow.web3)) as liar:
        far = Bench(liar.url, slow.key, slow.folder).manager(replace_after_s=5.0, poll_s=1.0)
        liar.lies["eth_getTransactionCount"] = hex(3)
        few = far.submit(Call("few", OTHER, b"", 5))
        liar.lies["eth_getTransactionCount"] = hex(10**9)
        many = far.submit(Call("many", OTHER, b"", 5))
        liar.lies.clear()
        slow.rpc("evm_setAutomine", True)
        assert far.wait(few, timeout_s=60).gas_used == 21000
        with pytest.raises(TransactionLost, match="the account has come to 4"):
            far.wait(many, timeout_s=60)
        assert far.send(Call("many", OTHER, b"", 5), timeout_s=60).gas_used == 21000
        assert (slow.chain_nonce(), far.open()) == (5, [])


def test_a_nonce_after_one_that_was_lost_is_not_the_liars(module_anvil: Anvil, liar: Liar) -> None:
    with Late(module_anvil.url) as first, Late(module_anvil.url) as second:
        web3 = connect([first.url, second.url, liar.url], 31337)
        manager = manager_of(web3, module_anvil.keys[8])
        liar.lies["eth_getTransactionCount"] = hex(10**9)
        manager._used = manager.nonce()
        assert manager._next_nonce(0) == manager._used + 1


def test_a_lost_transaction_does_not_wait_for_a_receipt_that_one_makes_up(
    module_anvil: Anvil, liar: Liar, three: Web3
) -> None:
    direct, key = connect(module_anvil.url, 31337), module_anvil.keys[8]
    clock, database = Clock(), Database(None)
    manager = manager_of(three, key, database, clock=clock, sleep=clock.sleep, poll_s=5.0)
    other = manager_of(direct, key)
    rpc: Callable[..., Any] = direct.provider.make_request
    rpc("evm_setAutomine", [False])
    try:
        # NOTE: the three would go on sending it after the first has taken it, and after it was dropped.
        lost = manager_of(direct, key, database).submit(Call("act", ADDRESS, b"", 5))
        rpc("anvil_dropAllTransactions", [])
        taken = other.submit(Call("another", ADDRESS, b"", 7))
        rpc("evm_mine", [])
    finally:
        rpc("evm_setAutomine", [True])
    receipt = rpc("eth_getTransactionReceipt", ["0x" + other.wait(taken).tx_hash.hex()])["result"]
    made_up = manager._outbox.row(lost).attempts[0].hash
    liar.lies["eth_getTransactionReceipt"] = {**receipt, "transactionHash": "0x" + made_up.hex()}
    with pytest.raises(TransactionLost):
        manager.wait(lost, timeout_s=300)


@pytest.mark.parametrize("place", [0, 2], ids=["serving", "last"])
def test_a_quick_receipt_of_one_is_not_the_receipt(module_anvil: Anvil, liar: Liar, place: int) -> None:
    moved = MovedTime()
    with FaultProxy(module_anvil.url) as first, FaultProxy(module_anvil.url) as second:
        urls = [first.url, second.url]
        urls.insert(place, liar.url)
        web3 = connect(urls, 31337, timeout_s=60.0, clock=moved, wait=moved.wait)
        for late in (first, second):
            late.late_s, late.sleep = 4 * PATIENCE_S, moved.sleep
        liar.lies["eth_getTransactionReceipt"] = failed
        manager = manager_of(web3, module_anvil.keys[8])
        assert manager.send(Call("pay", ADDRESS, b"", 5), timeout_s=20).gas_used == 21000


@pytest.mark.parametrize(
    "field", ["gasUsed", "effectiveGasPrice", "contractAddress", "logs"], ids=lambda field: str(field)
)
def test_no_field_of_a_receipt_is_that_of_one(
    module_anvil: Anvil, liar: Liar, three: Web3, field: str
) -> None:
    """With the right block and status."""
    lies = {"contractAddress": "0x" + "ba" * 20, "logs": []}
    liar.lies["eth_getTransactionReceipt"] = lambda true: {
        "result": true["result"] and {**true["result"], field: lies.get(field, "0x1")}
    }
    code = bytes.fromhex("60ff5f5fa160015f5ff3")  # logs something, and leaves a program of one byte
    receipt = manager_of(three, module_anvil.keys[8]).send(Call("create", None, code, 0), timeout_s=20)
    true = connect(module_anvil.url, 31337).eth.get_transaction_receipt(receipt.tx_hash)  # type: ignore[arg-type]
    found = receipt.gas_used, receipt.gas_price, receipt.contract, len(receipt.logs)
    assert found == (true["gasUsed"], true["effectiveGasPrice"], true["contractAddress"], 1)


def test_a_call_that_most_cannot_do_is_not_sent(module_anvil: Anvil, liar: Liar, three: Web3) -> None:
    """They say so in words of their own, and not that it reverts."""
    liar.lies |= {"eth_call": "0x", "eth_estimateGas": "0x186a0"}
    before = three.eth.get_balance(Account.from_key(module_anvil.keys[8]).address)
    with pytest.raises(ChainError, match=r"InvalidFE|invalid"):
        manager_of(three, module_anvil.keys[8]).submit(Call("create", None, b"\xfe", 0))
    assert three.eth.get_balance(Account.from_key(module_anvil.keys[8]).address) == before


@pytest.mark.parametrize("lost", ["eth_getTransactionReceipt", "eth_getTransactionByHash"])
def test_what_is_refused_while_nobody_can_say_whether_it_arrived_stays_open(
    module_anvil: Anvil, liar: Liar, lost: str
) -> None:
    refused = {"error": {"code": -32005, "message": "rate limit exceeded"}, "result": None}
    clock = Clock()
    manager = manager_of(connect(liar.url, 31337, clock=clock, sleep=clock.sleep), module_anvil.keys[8])
    before = connect(module_anvil.url, 31337).eth.get_balance(TO)
    liar.lies |= {"eth_sendRawTransaction": lambda _: refused, lost: lambda _: refused}
    sent = manager.submit(Call("pay", ADDRESS, b"", 5))
    assert manager.open() in ([sent], [])
    liar.lies.clear()
    assert manager.wait(sent, timeout_s=20).gas_used == 21000
    assert connect(module_anvil.url, 31337).eth.get_balance(TO) == before + 5


@pytest.mark.parametrize("wrong", ["pending", "latest"])
def test_a_count_that_is_too_low_once_gives_nothing_up(slow: Bench, wrong: str) -> None:
    """Of an account that has sent before, with a database that does not know it."""
    slow.rpc("anvil_setNonce", slow.address, hex(500))
    with Liar(url_of(slow.web3)) as liar:
        manager = Bench(liar.url, slow.key, slow.folder).manager()
        sent = manager.submit(Call("pay", OTHER, b"", 5))
        reader = manager._reader
        true = reader.nonce
        reader.nonce = lambda block: 0 if block == wrong else true(block)  # type: ignore[method-assign]
        manager._empties.fill_gap(manager._outbox.row(sent))
        assert manager.open() == [sent]


def test_a_gap_that_cannot_be_signed_for_stays(slow: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with Liar(url_of(slow.web3)) as liar:
        manager = Bench(liar.url, slow.key, slow.folder).manager(replace_after_s=5.0, poll_s=1.0)
        liar.lies["eth_getTransactionCount"] = hex(3)
        sent = manager.submit(Call("pay", OTHER, b"", 5))
        liar.lies.clear()

        def fails(_: object) -> None:
            raise SignerUnavailable("the signer does not answer")

        with monkeypatch.context() as patch:
            patch.setattr(manager.account, "sign_transaction", fails)
            with pytest.raises(TransactionPending):
                manager.wait(sent, timeout_s=20)
        slow.rpc("evm_setAutomine", True)
        assert manager.wait(sent, timeout_s=60).gas_used == 21000


# ------------------------------------------------------------------ slow ones


@pytest.mark.parametrize("mined", [True, False])
def test_nobody_waits_for_an_endpoint_that_is_slow(module_anvil: Anvil, liar: Liar, mined: bool) -> None:
    """Not even as long as for others: then it would have failed. Nor while there is no receipt."""
    held, direct = threading.Event(), connect(module_anvil.url, 31337)
    rpc: Callable[..., Any] = direct.provider.make_request

    def late(true: dict[str, Any]) -> dict[str, Any]:
        held.wait(60)
        return {"result": true["result"]}

    with FaultProxy(module_anvil.url) as first, FaultProxy(module_anvil.url) as second:
        web3 = connect([liar.url, first.url, second.url], 31337, timeout_s=60)
        manager = manager_of(web3, module_anvil.keys[6])
        every = ("Balance", "TransactionCount", "BlockByNumber", "TransactionReceipt")
        methods = (
            ("estimateGas", "call", *map("get{}".format, every)) if mined else ("getTransactionReceipt",)
        )
        liar.lies |= {f"eth_{method}": late for method in methods}
        rpc("evm_setAutomine", [mined])
        try:
            sent = [manager.submit(Call("pay", ADDRESS, bytes([number]), 5)) for number in range(3)]
            for row in map(manager._outbox.row, sent):
                for _ in range(3):
                    assert (manager._reader.receipt(row, used=True) is not None) is mined
            slow = endpoints_of(web3).every[0]
            assert (slow.failures, slow.ready) == (0, False), "it owes more answers than it may"
        finally:
            held.set()
            rpc("evm_mine", [])
            rpc("evm_setAutomine", [True])


def test_who_serves_and_becomes_slow_serves_no_longer(three: Web3) -> None:
    provider = endpoints_of(three)
    assert three.eth.block_number >= 0
    assert provider.serving is provider.every[0]
    provider.every[0].latency_s = 5.0
    assert three.eth.block_number >= 0
    assert provider.serving is provider.every[1]
