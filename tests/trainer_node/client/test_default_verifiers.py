"""Strangers who register as verifiers keep no client from posting a job that names none."""

from __future__ import annotations

from pathlib import Path
from re import search

from trainer_node.chain.fees import ETHER, GWEI
from trainer_node.client.default_verifiers import MOST, chosen

STAKE_GAS = 100_000_000
ROOT = Path(__file__).parents[3]


def registered(*bonds: int) -> list[tuple[str, int, str]]:
    return [(f"0x{number:040x}", bond, "") for number, bond in enumerate(bonds)]


def test_all_are_chosen_where_all_are_taken() -> None:
    some = registered(ETHER, 2 * ETHER, ETHER)
    assert chosen(some, STAKE_GAS, GWEI, GWEI, 64 * GWEI) == ([one[0] for one in some], "")
    assert chosen([], STAKE_GAS, GWEI, GWEI, 64 * GWEI) == ([], "")


def test_those_with_the_largest_bonds_are_chosen_of_too_many() -> None:
    """The attack: 32 strangers registered, for bonds that come back, and every post was refused."""
    ours, strangers = registered(3 * ETHER, 2 * ETHER), registered(*[ETHER] * 40)[2:]
    found = chosen([*strangers, *ours], STAKE_GAS, GWEI, GWEI, 64 * GWEI)
    assert len(found.addresses) == MOST
    assert found.addresses[-2:] == [one[0] for one in ours], "in their order"
    assert found.left_out == "8 beyond the 32 with the largest bonds, which a job may have at most"


def test_a_bond_that_is_too_small_for_the_price_of_gas_is_left_out() -> None:
    """The attack: one stranger registered with the least bond while gas was dear, and every post was refused."""
    dear = 15 * GWEI  # a bond is worth 3 ether
    some = registered(ETHER, 3 * ETHER, 10 * ETHER)
    found = chosen(some, STAKE_GAS, dear, GWEI, 64 * GWEI)
    assert found == ([some[1][0], some[2][0]], "1 with bonds below 3 ether"), "a large one puts out nobody"
    assert chosen(some[:1], STAKE_GAS, dear, GWEI, 64 * GWEI).addresses == []
    assert chosen(some, STAKE_GAS, dear, GWEI, GWEI).addresses == [one[0] for one in some], (
        "the job's own bound"
    )


def test_a_job_has_as_many_as_the_contract_takes() -> None:
    found = search(r"MAX_VERIFIERS = (\d+);", (ROOT / "contracts/Notary.sol").read_text())
    assert found is not None
    assert int(found[1]) == MOST
