"""Kernels that return wait for the interpreter for a short time only (docs/decisions.md, record 193)."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from trainer_node.cli import SWITCH_S, main


@pytest.fixture(autouse=True)
def _interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def test_each_command_lets_threads_hold_the_interpreter_for_a_tenth_of_pythons_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sys.setswitchinterval(0.005)
    monkeypatch.setattr(sys, "argv", ["assay", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert SWITCH_S <= 0.0005
