"""The table of works that strangers can cause: the document shows it, and each row names a test that exists."""

from __future__ import annotations

import re

import pytest

from tests.test_security_table import ROOT, SHORT, names_of
from trainer_node.limits.work import Work
from trainer_node.limits.works import WORKS, table


def test_the_document_shows_the_table() -> None:
    document = (ROOT / "docs/security.md").read_text()
    shown = re.search(r"<!-- works -->\n(.*?)\n<!-- /works -->", document, re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == table()


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
def test_each_work_has_a_bound_a_payer_and_a_test_that_exists(work: Work) -> None:
    assert work.bound
    assert work.caused_by
    assert work.paid_by
    file, _, name = work.test.partition("::")
    path = ROOT / "tests" / (SHORT[file[:2]] + file[2:] if file[:2] in SHORT else file)
    assert name in names_of(path)


def test_no_work_has_two_rows() -> None:
    assert len({work.name for work in WORKS}) == len(WORKS)
