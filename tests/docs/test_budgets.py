"""Budgets of lines and arguments: what is over one, has none, or has one that is too large, is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from scripts.check_budgets import measured, over


def said(sources: Mapping[str, str], **tables: Any) -> str:
    def every() -> Iterator[tuple[str, str]]:
        yield from sources.items()

    budgets: dict[str, Any] = {"files": {}, "arguments": {}, "packages": {}, **tables}
    return "\n".join(over(measured(every()), {"limits": {"files": 400, "arguments": 10}, **budgets}))


SMALL = {"lines": {"limit": 10}}


@pytest.mark.parametrize(("lines", "fails"), [(0, False), (400, False), (401, True)])
def test_a_file_that_is_over_is_named_with_what_to_do(lines: int, fails: bool) -> None:
    text = said({"lines/a.py": "\n" * lines}, packages={"lines": {"limit": lines}})
    assert ("lines/a.py has 401 lines, and its budget is 400" in text) == fails
    assert ("raise the budget in scripts/budgets.toml with a reason" in text) == fails


def test_a_budget_of_its_own_counts_instead() -> None:
    own = {"lines/a.py": {"limit": 420, "why": "a table"}}
    assert said({"lines/a.py": "\n" * 420}, files=own, packages={"lines": {"limit": 420}}) == ""
    assert "421 lines" in said({"lines/a.py": "\n" * 421}, files=own, packages={"lines": {"limit": 421}})


def test_arguments_are_counted_without_self() -> None:
    names = ", ".join(f"a{i}" for i in range(9))
    fits = f"class A:\n    def f(self, {names}, *, b=1): ...\n"
    assert (
        said({"lines/a.py": fits}, packages=SMALL)
        == "lines has 2 lines, and a budget of 10: lower it in scripts/budgets.toml"
    )
    too_many = f"def f({names}, /, b, *, c): ...\n"
    assert "lines/a.py::f has 11 arguments" in said(
        {"lines/a.py": too_many}, packages={"lines": {"limit": 1}}
    )


def test_a_package_has_a_budget_and_a_budget_has_a_package() -> None:
    assert "new has no budget" in said({"new/a.py": "\n"})
    assert "new has 2 lines, and its budget is 1" in said(
        {"new/a.py": "\n\n"}, packages={"new": {"limit": 1}}
    )
    assert "a budget for gone, which does not exist" in said({}, packages={"gone": {"limit": 1}})
