"""What `assay job post` chooses and says on a chain that is no development chain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Anvil, Assay
from tests.trainer_node.cli.test_cli import bundle, import_key

PUBLIC_CHAIN = 7_700_077


def test_on_a_public_chain_periods_are_long_and_what_nodes_ask_is_told(
    assay: Assay,
    start_anvil: Callable[..., Anvil],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, value in (
        ("PASSWORD", "secret"),
        ("LOG_LEVEL", "error"),
        ("CHAIN_ID", str(PUBLIC_CHAIN)),
        ("CONFIRMATIONS", "0"),
    ):
        monkeypatch.setenv(f"ASSAY_{name}", value)
    chain = start_anvil("--chain-id", str(PUBLIC_CHAIN))
    import_key(assay, chain, monkeypatch, tmp_path)
    code, _, errors = assay("deploy", "--min-period", "2", "--commit-age", "1")
    assert code == 0, errors
    post = ("job", "post", str(bundle().write(tmp_path / "job")), "--port", "9000", "--court-only")

    code, output, errors = assay(*post)
    assert code == 0, errors
    assert "default settings and --check all take this job if a step with its commitment" in output
    assert "default settings and --check share leave this job to others: a lie may win" in output
    assert output.count("leave this job") == 1
    shown = " ".join(assay("job", "show", "1")[1].split())
    assert "86400 s a side" in shown

    assert assay("verifier", "register", "--bond", "1")[0] == 0
    code, output, errors = assay(*post[:-1], "--clock", "7200", "--high-fee", "1000gwei")
    assert code == 0, errors
    assert output.count("--check all leave this job to others") == 2
    assert output.count("--check share leave this job to others") == 3
    assert "its clock has 7200 s" in output
    assert "policy.max_reserve_prizes" in output

    code, output, errors = assay(*post, "--clock", "7200", "--stake", "2")
    assert code == 0, errors
    assert "leave this job" not in output, "two ether pay for all of a node, and a sample protects the reward"
