"""What `assay job post` chooses and says on a chain that is no development chain."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from tests.conftest import Anvil, Assay
from tests.trainer_node.cli.test_cli import bundle, import_key
from tests.trainer_node.slow import Hand, SlowServer
from trainer_node.chain.fees import ETHER, GWEI
from trainer_node.client.posting import not_served
from trainer_node.client.posting_costs import PostingCosts, Price, lines
from trainer_node.storage.store import Store

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
    assert "nobody can train it yet: its program blob/" in output
    assert "serve what it needs with `assay artifacts serve --data-dir .assay --port 9000`" in output
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


def test_a_program_that_is_served_can_be_trained(tmp_path: Path) -> None:
    store = Store(tmp_path / "artifacts", sync=False)
    content = bundle()
    content.put(store)
    with SlowServer(store, Hand()) as server:
        assert not_served(content.program.file_hash(), server.uri) is None
        assert "the server answers 404" in str(not_served(bytes(32), server.uri))


def test_costs_are_told_before_anything_is_posted(
    assay: Assay, anvil: Anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    import_key(assay, anvil, monkeypatch, tmp_path)
    assert assay("deploy", "--min-period", "2", "--commit-age", "1")[0] == 0
    folder = str(bundle().write(tmp_path / "job"))
    terms = (
        "--reward",
        "2",
        "--slots",
        "3",
        "--train",
        "100",
        "--reveal",
        "50",
        "--challenge",
        "25",
        "--clock",
        "70",
    )
    post = ("job", "post", folder, "--port", "9000", "--court-only", *terms, "--ether-price", "2500.5 EUR")
    code, told, errors = assay(*post, "--costs", "--keystore", tmp_path / "no such key")
    assert code == 0, errors
    assert assay("job", "list", "--json")[1].strip() == "[]", "nothing was posted"
    code, output, errors = assay(*post)
    assert code == 0, errors
    words = told.splitlines()
    assert len(words) == 5
    units = int(words[0].split("about ")[1].split(" units")[0].replace(",", ""))
    used = int(output.splitlines()[-1].split("job 1  ")[1].split(" gas")[0])
    assert abs(units - used) < 0.1 * used, "the reward is not in the estimate"
    row = json.loads(assay("job", "show", "1", "--json")[1])
    job_stake = Decimal(words[1].split(" ether")[0].removeprefix("others put up: "))
    assert int(job_stake * ETHER) >= row["stake"]
    assert "for each slot (3)" in words[1]
    assert f"({job_stake * Decimal('2500.5'):,.2f} EUR)" in words[1]
    assert "the reward 2 ether (5,001.00 EUR), which comes back" in words[0]
    assert words[4].startswith(
        "time: at most 175 s to a result that nobody disputes; a dispute has 70 s a side"
    )
    assert "verdict" not in words[4], "nobody gives one"
    for price in ("2500", "EUR", "-1EUR", "1e9EUR", "2500 EUR EUR", "9" * 13 + "EUR"):
        code, _, errors = assay(*post[:-1], price)
        assert (code, "is no price of an ether; write a number and a currency: 2500USD" in errors) == (
            2,
            True,
        ), price


def test_a_total_is_the_sum_of_what_the_client_pays() -> None:
    costs = PostingCosts(350_000, 2 * GWEI, 10**18, 10**17, 2, 10**17, 10**15, 9_000_000, 100, 50, 20, 30)
    assert costs.total == 350_000 * 2 * GWEI + 10**18 + 10**17
    first, second, third, fourth, fifth = lines(costs, Price.of("1000usd"))
    assert first.endswith(
        "the bounty 0.1 ether (100.00 usd), which takes gas of its own; together 1.1007 ether (1,100.70 usd)"
    )
    assert "0.1 ether (100.00 usd) for each slot (2)" in second
    assert third.endswith("from 0.001 ether (1.00 usd)")
    assert "0.001 ether (1.00 usd) to 0.0024 ether (2.40 usd) of gas" in fourth
    assert fifth.endswith("50 s a side, a verdict 20 s, an appeal 30 s")
    assert not any("usd" in line for line in lines(costs, None))
