"""Contracts with the code of Pledges that go by other values than the deployment's: none is taken for the true one."""

from __future__ import annotations

import pytest
from eth_account import Account

from assay_serve.pledges import CONTRACT, Pledges, immutables
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.releases import immutables_of
from trainer_node.errors import WrongChain

from .pledged import Ground
from .test_pledges import ground as _ground

ground = _ground
PLACES = load_artifact(CONTRACT).immutables


def code_of(ground: Ground) -> bytes:
    return bytes(ground.web3.eth.get_code(ground.pledges.contract.address))


def forged(ground: Ground, places: tuple[int, ...], address: str | None = None) -> str:
    """Put the contract's code with another word in these places at an address; return it."""
    code = bytearray(code_of(ground))
    for at in places:
        code[at + 31] ^= 1
    where = address or Account.create().address
    ground.web3.provider.make_request("anvil_setCode", [where, "0x" + code.hex()])  # type: ignore[arg-type]
    return where


def test_the_true_contract_has_the_values_of_the_deployment(ground: Ground) -> None:
    found = immutables_of(code_of(ground), load_artifact(CONTRACT))
    assert found == tuple(immutables(ground.client, ground.pledges.address).values())
    assert len(set(found or ())) == len(PLACES) == 9
    Pledges(ground.client, ground.pledges.address)


@pytest.mark.parametrize("number", range(len(PLACES)))
def test_another_value_is_found(ground: Ground, number: int) -> None:
    """The attack: the contract makes commitments ripe never, or asks another keeper for the time, or hashes receipts
    for another domain. All else is as it should be, and no challenge succeeds."""
    address, code = ground.pledges.address, code_of(ground)
    name = list(immutables(ground.client, address))[number]
    forged(ground, PLACES[number], address)
    try:
        with pytest.raises(WrongChain, match=f"as {name}, not by"):
            Pledges(ground.client, address)
    finally:
        ground.web3.provider.make_request("anvil_setCode", [address, "0x" + code.hex()])  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [place for places in PLACES for place in places if len(places) > 1])
def test_a_value_that_only_the_getter_shows_is_found(ground: Ground, place: int) -> None:
    """The attack: one place has another value than all others, so a getter says what is wanted."""
    with pytest.raises(WrongChain, match="there is no contract Pledges"):
        Pledges(ground.client, forged(ground, (place,)))


def test_a_copy_at_another_address_is_found(ground: Ground) -> None:
    """Its constructor has never run there. A constructor that stores more and gives the same code is not found so."""
    with pytest.raises(WrongChain, match="the contract of its domain"):
        Pledges(ground.client, forged(ground, ()))
