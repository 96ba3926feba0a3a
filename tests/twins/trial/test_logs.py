"""Entries of a log for an element: the contract's rule is that of Python, for anything that is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from web3 import HTTPProvider, Web3
from web3.exceptions import ContractCustomError

from referee_py.errors import InvalidProof
from referee_py.rounding import NOT_LOGGED
from referee_py.rounding.blocks import BLOCK, LogTree, digest_of_block, read_entry
from referee_py.rounding.entries import WRITTEN
from tests.conftest import Anvil
from tests.referee_py.rounding.test_blocks import GOOD, NO_BLOCKS, log_from, random_entries, words
from tests.support.solidity import compiled

ANOTHER_LOG = Web3.keccak(text="AnotherLog(bytes32,bytes32)")[:4].hex()


@pytest.fixture
def reader(start_anvil: Callable[..., Anvil]) -> Any:
    web3 = Web3(HTTPProvider(start_anvil().url))
    found = compiled("tests/contracts/court/LogReader.sol", "LogReader")
    made = web3.eth.contract(abi=found.abi, bytecode=found.bytecode)
    sent = made.constructor().transact({"from": web3.eth.accounts[0]})
    address = web3.eth.wait_for_transaction_receipt(sent, poll_latency=0.005)["contractAddress"]
    return web3.eth.contract(address, abi=found.abi).functions


def random_block(rng: np.random.Generator) -> bytes:
    """Return a block, mostly of ascending entries; some have a byte changed or cut off."""
    places = np.unique(rng.integers(0, BLOCK, rng.integers(1, 30))).tolist()
    kinds = rng.choice([0, 2, 3, 1], len(places), p=[0.4, 0.4, 0.18, 0.02]).tolist()
    values = rng.integers(0, 1 << 32, len(places)).tolist()
    parts = zip(places, kinds, values, strict=True)
    block = bytearray(words(*((p, k, v) if k == WRITTEN else (p, k) for p, k, v in parts)))
    match int(rng.integers(0, 5)):
        case 0:
            block[rng.integers(0, len(block))] ^= 1 << int(rng.integers(0, 8))
        case 1:
            del block[-int(rng.integers(1, 6)) :]
    return bytes(block)


@pytest.mark.parametrize(
    "count", [pytest.param(20, id="quick"), pytest.param(1000, id="slow", marks=pytest.mark.slow)]
)
def test_blocks_say_what_they_say_in_python(reader: Any, count: int) -> None:
    rng = np.random.default_rng(count)
    blocks = [b"", GOOD, *NO_BLOCKS.values(), *(random_block(rng) for _ in range(count)), rng.bytes(33)]
    spoken = 0
    for block in blocks:
        has = [int.from_bytes(block[i : i + 2], "big") >> 2 for i in range(0, len(block), 2)]
        for place in {0, BLOCK - 1, *rng.choice([*has, 5], 3).tolist()}:
            for places in {BLOCK, 30, min(place, BLOCK - 1) + 1}:
                found = reader.readEntry(block, place, places).call()
                assert found == read_entry(block, place, places), (block, place, places)
                spoken += found[0] != NOT_LOGGED
    assert spoken > count


def test_the_longest_block_costs_little(reader: Any) -> None:
    longest = words(*((k, WRITTEN, k) for k in range(BLOCK)))
    assert len(longest) == 6144
    assert reader.readEntry(longest, 1023, BLOCK).call() == (WRITTEN, 1023)
    assert reader.readEntry(longest, 1023, BLOCK).estimate_gas() < 1_000_000


@pytest.mark.parametrize("elements", [1, 700, BLOCK, BLOCK + 1, 9 * BLOCK - 5, 1 << 33])
def test_the_entry_of_an_element_is_shown_by_its_block(reader: Any, elements: int) -> None:
    rng = np.random.default_rng(elements)
    log = log_from(elements, random_entries(rng, elements, 50))
    tree = LogTree(log)
    for element in {0, elements - 1, *rng.choice(np.concatenate([log.narrow, log.wide]), 6).tolist()}:
        index, place = divmod(element, BLOCK)
        block, path = tree.block(index), tree.path(index)
        good = elements, block, path
        want = read_entry(block, place, min(BLOCK, elements - index * BLOCK))
        assert reader.entryOf(tree.digest, elements, element, good).call() == want
        for bad in (
            (elements, block + b"\0\0", path),
            (elements, block[:-2] or b"\0\1", path),
            (elements, block, path[::-1] if len(path) > 1 and path != path[::-1] else [*path, tree.digest]),
            (elements, block, path[:-1] if path else [tree.digest]),
            (elements + 1, block, path),
            ((1 << 64) - 1, block, path),
        ):
            refused(reader, tree.digest, elements, element, bad)
        if block:
            refused(reader, tree.digest, elements, element, (elements, b"", path))
        other = (element + BLOCK) % elements
        if other // BLOCK != index and tree.block(other // BLOCK) != block:
            refused(reader, tree.digest, elements, other, good)


def refused(reader: Any, log: bytes, count: int, element: int, shown: tuple[int, bytes, list[bytes]]) -> None:
    """Check that the contract refuses the proof, and Python for the same reason."""
    elements, block, path = shown
    index = element // BLOCK if elements == count else 0
    try:
        proof = digest_of_block(elements, index, block, path) != log
        assert proof, "another log"
        want = {ANOTHER_LOG}
    except InvalidProof:
        names = ("WrongPathLength(uint256,uint256)", "IndexOutOfTree(uint256,uint256)")
        want = {Web3.keccak(text=name)[:4].hex() for name in names}
    with pytest.raises(ContractCustomError) as error:
        reader.entryOf(log, count, element, shown).call()
    assert str(error.value.data)[2:10] in want


@pytest.mark.parametrize("elements", [0, 1, 699, 701, 5 * BLOCK, (1 << 40) - 1])
def test_a_log_of_another_number_of_elements_says_nothing(reader: Any, elements: int) -> None:
    """Its first block suffices to see that."""
    entries = {3: True} if elements > 3 else {}
    tree = LogTree(log_from(elements, entries))
    shown = elements, tree.block(0), tree.path(0)
    for element in (0, 3, 699):
        assert reader.entryOf(tree.digest, 700, element, shown).call() == (NOT_LOGGED, 0)
