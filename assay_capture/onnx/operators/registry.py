"""The table of rules: `@operator("Add")` on a function of a call and its inputs.

A rule gives a tensor, or a tuple of them for several outputs (None for one that it cannot give). A rule marked `folds`
may be computed before tracing, when all its inputs are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """A rule and its properties. `broadcasts`: its inputs broadcast, so its result may be larger than each of them."""

    name: str
    rule: Rule
    folds: bool
    broadcasts: bool


OPERATORS: dict[str, Operator] = {}


def operator(*names: str, folds: bool = False, broadcasts: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for these operators."""

    def register(rule: Rule) -> Rule:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = Operator(name, rule, folds, broadcasts)
        return rule

    return register
