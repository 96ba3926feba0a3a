"""Logs made by hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from referee_py.rounding import Form, Log
from referee_py.rounding.step_log import NodeLog


def log_of(elements: int, narrow: Mapping[int, bool] = {}, wide: Mapping[int, float] = {}) -> Log:
    """Return a log with these directions (true is up) and values."""
    return Log(
        elements,
        np.array(sorted(narrow), dtype=np.int64),
        np.array([narrow[k] for k in sorted(narrow)], dtype=np.bool_),
        np.array(sorted(wide), dtype=np.int64),
        np.array([wide[k] for k in sorted(wide)], dtype=np.float64),
    )


def same(a: Log, b: Log) -> bool:
    """Return whether two logs have the same entries."""
    fields = ("narrow", "up", "wide", "values")
    return a.elements == b.elements and all(
        np.array_equal(getattr(a, name), getattr(b, name), equal_nan=name == "values") for name in fields
    )


def node_log(
    elements: int, narrow: Mapping[int, bool] = {}, wide: Mapping[int, float] = {}, form: Form = Form.SPARSE
) -> NodeLog:
    """Return the log in its transport form."""
    return NodeLog.of(log_of(elements, narrow, wide), form)
