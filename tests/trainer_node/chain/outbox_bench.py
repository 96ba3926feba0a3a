"""A chain, a key and an outbox on disk, and contracts of a few bytes as recipients."""

from __future__ import annotations

from pathlib import Path

from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak
from web3 import Web3
from web3.types import RPCEndpoint

from tests.support.clock import Clock
from trainer_node.chain import Call, TransactionManager, connect
from trainer_node.chain.contracts import ErrorDecoder
from trainer_node.chain.endpoints import endpoints_of
from trainer_node.storage.database import Database

GWEI = 10**9
OTHER = Web3.to_checksum_address("0x000000000000000000000000000000000000dEaD")

# Init code that leaves this program: revert with the calldata, if there is any; else stop.
#   CALLDATASIZE PUSH1 5 JUMPI STOP JUMPDEST | CALLDATASIZE PUSH0 PUSH0 CALLDATACOPY CALLDATASIZE PUSH0 REVERT
REVERTER = bytes.fromhex("36600557005b365f5f37365ffd")
# Reverts if storage slot 0 is set, else sets it: the second of two such calls in one block fails.
ONCE = bytes.fromhex("5f54600a5760015f55005b5f5ffd")

ABI = [
    {
        "type": "error",
        "name": "Late",
        "inputs": [{"name": "matchId", "type": "uint256"}, {"name": "mask", "type": "uint8"}],
    }
]


def deployer(runtime: bytes) -> bytes:
    """Return init code that deploys this program."""
    return bytes([0x60, len(runtime), 0x60, 0x0B, 0x5F, 0x39, 0x60, len(runtime), 0x5F, 0xF3, 0x00]) + runtime


def custom_error(match_id: int, mask: int) -> bytes:
    return keccak(b"Late(uint256,uint8)")[:4] + encode(["uint256", "uint8"], [match_id, mask])


class Bench:
    """A chain, a key and an outbox on disk; each `manager()` is a process that starts on them."""

    def __init__(self, url: str, key: str, folder: Path) -> None:
        self.web3 = connect(url, 31337)
        self.key = key
        self.folder = folder
        self.address = Account.from_key(key).address

    def manager(self, **options: object) -> TransactionManager:
        clock = Clock()
        settings: dict = {
            "poll_s": 0.02,
            "decode": ErrorDecoder(ABI),
            "chain_id": 31337,
            "clock": clock,
            "sleep": clock.sleep,
            **options,
        }
        account = Account.from_key(self.key)
        return TransactionManager(self.web3, account, Database(self.folder / "node.sqlite3"), **settings)

    def rpc(self, method: str, *params: object) -> object:
        return self.web3.provider.make_request(RPCEndpoint(method), list(params)).get("result")

    def mine(self) -> None:
        self.rpc("evm_mine")

    def pay(self, value: int = 1) -> Call:
        return Call("pay", OTHER, b"", value)

    def chain_nonce(self) -> int:
        return self.web3.eth.get_transaction_count(self.address)


def url_of(web3: Web3) -> str:
    return endpoints_of(web3).serving.url


# Accepts any value from 10^18 wei on, like contracts that credit the excess; refuses less.
#   CALLVALUE PUSH8 10^18 GT PUSH1 16 JUMPI STOP | JUMPDEST PUSH0 PUSH0 REVERT
TAKES_AN_ETHER = bytes.fromhex("34" + "67" + f"{10**18:016x}" + "11" + "600f57" + "00" + "5b5f5ffd")


def poor_with(slow: Bench, wei: int) -> tuple[TransactionManager, str]:
    """Return a manager whose account has this many wei, and a contract that takes an ether."""
    deploying = slow.manager()
    waiting = deploying.submit(Call("deploy", None, deployer(TAKES_AN_ETHER)))
    slow.mine()
    contract = deploying.wait(waiting).contract
    assert contract is not None
    account = Account.create()
    slow.rpc("anvil_setBalance", account.address, hex(wei))
    poor = Bench(url_of(slow.web3), account.key.hex(), slow.folder)
    return poor.manager(), contract
