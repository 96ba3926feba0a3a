"""The address of the contract Pledges names the code that has created it: nothing else is taken for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from web3 import Web3

from assay_serve.pledge_address import PROXY, address_of, build_of, creation, deploying, is_deployed
from assay_serve.pledges import Pledges
from trainer_node.chain import Call, ChainClient
from trainer_node.chain.abi import Build
from trainer_node.chain.contracts import needs_of
from trainer_node.errors import WrongChain

from ..conftest import undone
from .pledged import Ground
from .test_pledges import ground as _ground

ground = _ground
STORE = bytes.fromhex("60016000556001600155")
"""What a constructor of somebody's own writes first: two words of the storage."""


def set_code(ground: Ground, address: str, code: bytes) -> None:
    ground.web3.provider.make_request("anvil_setCode", [address, "0x" + code.hex()])  # type: ignore[arg-type]


def code_of(ground: Ground) -> bytes:
    return bytes(ground.web3.eth.get_code(Web3.to_checksum_address(ground.pledges.address)))


def test_the_contract_is_where_its_creation_code_says(ground: Ground) -> None:
    assert is_deployed(ground.client)
    assert ground.pledges.address == address_of(ground.client)
    Pledges(ground.client, ground.pledges.address.lower())


def test_the_same_code_elsewhere_is_not_the_contract(ground: Ground) -> None:
    """Its constructor has never run there, or has stored more than it should have."""
    where = Web3.to_checksum_address("0x" + "12" * 20)
    set_code(ground, where, code_of(ground))
    with pytest.raises(WrongChain, match=f"which is at {ground.pledges.address} only"):
        Pledges(ground.client, where)


def test_a_constructor_that_stores_more_has_another_address(ground: Ground) -> None:
    """The attack: a pledge with no ether behind it, or a credit, is written before the true code is left there."""
    thief, true = ground.account(), code_of(ground)
    tail = bytes.fromhex("61") + len(true).to_bytes(2) + bytes.fromhex("80600c5f395ff3")
    forging = STORE + tail.replace(b"\x60\x0c", bytes([0x60, len(STORE) + len(tail)])) + true
    for call in (Call("forge", None, forging), Call("forge", PROXY, bytes(32) + forging)):
        receipt = thief.send(call)
        trace = Web3.to_checksum_address(receipt.contract or _named(ground, call))
        assert bytes(ground.web3.eth.get_code(trace)) == true
        assert int.from_bytes(ground.web3.eth.get_storage_at(trace, 0)) == 1
        with pytest.raises(WrongChain, match="is not the contract Pledges of this deployment"):
            Pledges(ground.client, trace)


def _named(ground: Ground, call: Call) -> str:
    """Return what the proxy's call gives: the address that it has made."""
    given = {"to": PROXY, "data": "0x" + (b"\1" * 32 + call.data[32:]).hex()}
    assert len(ground.web3.eth.call(given)) == 20, "the proxy makes what it is given"  # type: ignore[arg-type]
    made = Web3.keccak(b"\xff" + bytes.fromhex(PROXY[2:]) + call.data[:32] + Web3.keccak(call.data[32:]))
    return Web3.to_checksum_address(made[12:])


def test_a_contract_that_is_not_deployed_is_named(ground: Ground) -> None:
    with undone(ground.web3):
        set_code(ground, ground.pledges.address, b"")
        with pytest.raises(WrongChain, match="yet; deploy it"):
            Pledges(ground.client, ground.pledges.address)


def test_a_chain_without_the_proxy_is_named(ground: Ground) -> None:
    with undone(ground.web3):
        set_code(ground, PROXY, b"\x00")
        with pytest.raises(WrongChain, match="no deterministic deployment proxy"):
            deploying(ground.client)


def test_the_build_is_that_of_the_deployment(ground: Ground) -> None:
    """With the other one a chain without CLZ takes pledges, and shows nothing wrong."""
    assert build_of(ground.client) is Build.STANDARD

    def of(build: Build) -> ChainClient:
        return cast(
            "ChainClient", SimpleNamespace(deployment=ground.client.deployment, needs=needs_of(build))
        )

    assert [build_of(of(build)) for build in Build] == [*Build]
    assert creation(of(Build.PORTABLE)) != creation(of(Build.STANDARD)) == creation(ground.client)
    assert address_of(of(Build.PORTABLE)) != ground.pledges.address
