"""Named accounts, and contracts that hold less than they owe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from referee_py.errors import InvalidInput
from referee_py.game.state import Phase
from referee_py.walk import clock
from referee_py.walk.sides import sides
from tests.referee_py.game.chain import ANVIL_OPTIONS
from trainer_node.monitor.accounts import Named, balance, in_escrow
from trainer_node.monitor.alerts import Kind, Level, Rules
from trainer_node.monitor.rounds import Monitor

from .generated import World


@pytest.fixture
def world(start_anvil: Callable[..., Any]) -> World:
    world = World.on(start_anvil(*ANVIL_OPTIONS), "accounts", 8)
    world.play(14)
    return world


def of_kind(world: World, kind: Kind, named: Named, rules: Rules) -> dict[str, Level]:
    board = Monitor(world.client, rules, per_round=1_000, named=named).round()
    assert not board.unchecked.get(0), board.unchecked
    return {one.alert.text: one.alert.level for one in board.alerts if one.alert.kind is kind}


def test_a_contract_that_holds_less_than_it_owes_is_critical(world: World) -> None:
    snapshot = world.client.snapshot()
    owed = sum(in_escrow(snapshot.job(number)) for number in range(1, snapshot.job_count() + 1))
    assert owed > 0
    assert of_kind(world, Kind.INSOLVENT, Named(), Rules(0, 0)) == {}
    jobs = world.client.deployment.addresses["Jobs"]
    world.client.web3.provider.make_request("anvil_setBalance", [jobs, hex(owed - 1)])  # type: ignore[arg-type]
    world.pass_time(1)
    found = of_kind(world, Kind.INSOLVENT, Named(), Rules(0, 0))
    assert list(found.values()) == [Level.CRITICAL]
    assert f"Jobs holds {owed - 1} wei" in next(iter(found))


@pytest.mark.parametrize("name", ["DataAvailability", "Panel", "VerifierRegistry"])
def test_deposits_and_bonds_are_owed_too(start_anvil: Callable[..., Any], name: str) -> None:
    """An empty contract shows how much is counted: something, and no more than there was."""
    for seed in range(8):
        if found := found_empty(World.on(start_anvil(*ANVIL_OPTIONS), seed, 8), name):
            break
    assert found is not None, "other seeds"
    text, had = found
    assert text.startswith(f"{name} holds 0 wei and owes ")
    assert int(text.split()[6]) <= had


def found_empty(world: World, name: str) -> tuple[str, int] | None:
    """Return what is said of a contract without its ether, and how much that was; None if it owes nothing for long."""
    address = world.client.deployment.addresses[name]
    for _ in range(40):
        if had := balance(world.client.snapshot(), address):
            world.client.web3.provider.make_request("anvil_setBalance", [address, "0x0"])  # type: ignore[arg-type]
            found = of_kind(world, Kind.INSOLVENT, Named(), Rules(0, 0))
            world.client.web3.provider.make_request("anvil_setBalance", [address, hex(had)])  # type: ignore[arg-type]
            if found:
                (text,) = found
                return text, had
        world.play(1)
    return None


def test_a_named_account_is_poor_below_what_it_should_have(world: World) -> None:
    snapshot = world.client.snapshot()
    address = snapshot.job(1).client
    have = balance(snapshot, address)
    assert of_kind(world, Kind.POOR, Named.of([(address.lower(), have)]), Rules()) == {}
    found = of_kind(world, Kind.POOR, Named.of([(address.lower(), have + 1)]), Rules())
    assert list(found.values()) == [Level.WARNING]
    with pytest.raises(InvalidInput, match="not an address"):
        Named.of([("0x12", 1)])


def test_a_move_that_a_named_account_owes_is_told_and_no_other(world: World) -> None:
    owing = [
        match.terms.players[side]
        for game in world.cohort.games
        for match in game.matches
        if match.state.phase in (Phase.WALK, Phase.REFINE, Phase.OPEN)
        for side in sides(clock.owing(match.state))
    ]
    assert owing, "another seed"
    assert of_kind(world, Kind.UNANSWERED, Named(), Rules(1e9, 0)) == {}
    named = Named.of([(owing[0], 0)])
    near = of_kind(world, Kind.UNANSWERED, named, Rules(1e9, 0))
    assert near
    assert set(near.values()) == {Level.CRITICAL}
    assert all(next(iter(named.least)) in text for text in near)
    assert of_kind(world, Kind.UNANSWERED, named, Rules(-1e9, 1 << 40)) == {}
    late = of_kind(world, Kind.UNANSWERED, named, Rules(-1e9, 0))
    assert set(late.values()) == {Level.WARNING}
