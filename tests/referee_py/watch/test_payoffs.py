"""The gains from watching that docs/economics.md states equal these functions, which follow the contract's rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from referee_py.watch import share_of

from .payoffs import (
    EXAMPLE,
    Setting,
    best_others,
    crowding,
    even_share,
    honest_gain,
    least_pool,
    least_watched,
    others_gain,
    replaying_table,
    share,
    table,
)

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/economics.md"
SETTINGS = [EXAMPLE, Setting(10, 8, 0.02, 0.5), Setting(1, 1, 0.001, 0.2), Setting(5, 16, 0.01, 0.05)]


@pytest.mark.parametrize(
    ("name", "lines"),
    [("watching", table(EXAMPLE, 1)), ("replaying", replaying_table())],
    ids=lambda x: str(x)[:9],
)
def test_the_document_shows_these_numbers(name: str, lines: list[str]) -> None:
    shown = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", DOCUMENT.read_text(), re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == lines


def test_the_document_says_what_the_others_gain_most_with() -> None:
    assert (best_others(EXAMPLE, 1), crowding(EXAMPLE, 1)) == (3, 8)
    assert (best_others(EXAMPLE, 1, even_share), crowding(EXAMPLE, 1, even_share)) == (13, 18)
    assert [round(least_pool(EXAMPLE, honest), 2) for honest in (1, 2, 4)] == [0.22, 0.22, 0.88]


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_share_is_the_contracts(setting: Setting) -> None:
    for right in range(1, 40):
        exact = share_of(int(setting.pool * 10**18), setting.shares, right)
        assert share(setting, right) * 10**18 == pytest.approx(exact)


@pytest.mark.parametrize("setting", SETTINGS)
def test_who_watches_alone_and_knows_the_root_for_nothing_gains_most_when_the_places_are_filled(
    setting: Setting,
) -> None:
    for honest in range(1, setting.shares // 2 + 1):
        assert best_others(setting, honest) == setting.shares - honest
        assert share(setting, setting.shares) == setting.pool / setting.shares


# NOTE: with one share and one honest watcher there are no places to fill.
@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.shares > 1])
def test_to_crowd_honest_watchers_out_costs_a_third_of_what_filling_the_places_gains(
    setting: Setting,
) -> None:
    filled = others_gain(setting, 1, best_others(setting, 1))
    assert others_gain(setting, 1, crowding(setting, 1)) < filled * 2 / 3


def test_were_pools_paid_in_full_to_crowd_honest_watchers_out_would_gain_most() -> None:
    filled = others_gain(EXAMPLE, 1, EXAMPLE.shares - 1)
    assert others_gain(EXAMPLE, 1, crowding(EXAMPLE, 1, even_share), even_share) > filled


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("honest", [1, 2, 5, 20])
def test_a_pool_of_that_size_pays_for_so_many_honest_watchers(setting: Setting, honest: int) -> None:
    pool = least_pool(setting, honest)
    enough = Setting(pool * 1.0001, setting.shares, setting.account, setting.compute)
    assert honest_gain(enough, honest, best_others(enough, honest)) >= 0
    # The others stop a little earlier, because their accounts cost something, too.
    scarce = Setting(pool * 0.9, setting.shares, setting.account, setting.compute)
    assert honest_gain(scarce, honest, max(setting.shares - honest, honest)) < 0


def test_how_often_somebody_must_replay() -> None:
    assert least_watched(saved=0.5, stake=1, reward=1) == 0.25
    assert least_watched(saved=3, stake=1, reward=1) == 1
