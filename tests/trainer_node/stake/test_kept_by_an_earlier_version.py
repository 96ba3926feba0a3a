"""A node whose database was written by another version; the number of the schema is the same. It must come up, or it
stands by none of its verdicts."""

from __future__ import annotations

from trainer_node.stake.duty_book import BondBook, DutyBook, DutyUnknown
from trainer_node.storage.database import Database

from ..desk import job, rules
from .test_duty_book import MEANS, QUICK

HEARING = 1 << 200


def test_a_signature_that_is_kept_in_another_form_counts_as_the_longest() -> None:
    database = Database(None)
    database.put(
        "signed", [[7, HEARING, 1.5, 600, 10**16], "garbage", 5, [8, HEARING, 1.5, 600, 10**16, 1.0, 60]]
    )
    book = BondBook(database)
    assert len(book.held(but=0)) == 1
    book.seen(7, [HEARING], {HEARING}, rules(600), 10**16)
    (bond,) = (bond for bond in book.held(but=0) if bond.appeal_period != 60)
    assert (bond.clock, bond.wei) == (600, 10**16)


def test_a_stake_that_is_kept_in_another_form_is_measured_again() -> None:
    database = Database(None)
    database.put("duties", {"7": {"match_s": 1.0, "of another version": 2}})
    book = DutyBook(database, lambda: {7}, MEANS)
    assert book.refuses(job(9), QUICK) == DutyUnknown(7)
