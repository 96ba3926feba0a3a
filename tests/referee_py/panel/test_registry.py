"""Bonds: withdrawal, holds and loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from referee_py.walk.refusals import Refusal
from tests.model.registry import Registry

VERIFIER, PANEL, OTHER = ("0x" + digit * 40 for digit in "123")


def registered() -> Registry:
    registry = Registry(min_bond=10, leave_delay=100)
    registry.register(PANEL, VERIFIER, 25)
    return registry


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(Refusal) as caught:
        act()
    return type(caught.value).__name__


def test_bond_comes_back_once_the_delay_is_over() -> None:
    registry = registered()
    assert refused(lambda: registry.withdraw_bond(VERIFIER, 500)) == "StillLocked"
    registry.unregister(VERIFIER, 500)
    assert refused(lambda: registry.unregister(VERIFIER, 501)) == "AlreadyLeaving"
    assert refused(lambda: registry.withdraw_bond(VERIFIER, 599)) == "StillLocked"
    assert registry.withdraw_bond(VERIFIER, 600) == 25
    assert refused(lambda: registry.withdraw_bond(VERIFIER, 601)) == "NotRegistered"
    assert refused(lambda: registry.unregister(VERIFIER, 601)) == "NotRegistered"


def test_register_expect_enough_and_once() -> None:
    registry = registered()
    assert refused(lambda: registry.register(PANEL, OTHER, 9)) == "BondTooSmall"
    assert refused(lambda: registry.register(OTHER, VERIFIER, 10)) == "AlreadyRegistered"


def test_held_bond_expect_it_stays_until_every_hearing_is_done() -> None:
    registry = registered()
    registry.unregister(VERIFIER, 500)
    for _ in range(2):
        registry.hold(VERIFIER, PANEL)
    registry.release(VERIFIER, PANEL)
    assert refused(lambda: registry.withdraw_bond(VERIFIER, 600)) == "StillHeld"
    registry.release(VERIFIER, PANEL)
    assert registry.withdraw_bond(VERIFIER, 600) == 25


def test_panel_that_the_verifier_has_not_named_expect_it_holds_and_takes_nothing() -> None:
    registry = registered()
    assert refused(lambda: registry.hold(VERIFIER, OTHER)) == "NotPanel"
    assert refused(lambda: registry.hold(OTHER, PANEL)) == "NotPanel"
    assert registry.take(VERIFIER, OTHER) == (0, True)
    assert registry.take(VERIFIER, PANEL) == (25, True)
    assert registry.take(VERIFIER, PANEL) == (0, True), "it is gone"


def test_bond_of_a_verifier_that_came_back_expect_held_for_the_old_hearing() -> None:
    registry = registered()
    registry.hold(VERIFIER, PANEL)
    assert registry.take(VERIFIER, PANEL) == (25, True)
    registry.register(PANEL, VERIFIER, 30)
    registry.unregister(VERIFIER, 0)
    assert refused(lambda: registry.withdraw_bond(VERIFIER, 600)) == "StillHeld"
    registry.release(VERIFIER, PANEL)
    assert registry.withdraw_bond(VERIFIER, 600) == 30


def test_bond_that_two_hearings_hold_expect_the_taker_told() -> None:
    registry = registered()
    registry.hold(VERIFIER, PANEL)
    registry.hold(VERIFIER, PANEL)
    assert registry.take(VERIFIER, PANEL) == (25, False)
