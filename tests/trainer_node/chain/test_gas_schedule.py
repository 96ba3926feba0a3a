"""A chain is asked by which schedule of gas it charges, and that is compared with what a deployment counts by.

NOTE: no node of today charges by Amsterdam. So a proxy gives estimates as such a chain would: for each new word of the
code that the question writes it adds what Amsterdam asks more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from referee_py.errors import InvalidInput
from referee_py.gas_schedule import AMSTERDAM, OSAKA, Schedule, schedule_named
from tests.conftest import Anvil
from trainer_node.chain import Deployment, connect
from trainer_node.chain.abi import Build
from trainer_node.chain.contracts import needs_of
from trainer_node.chain.counted_blocks import ChainRule
from trainer_node.chain.fitness import charged, check_chain
from trainer_node.chain.probe import WORDS, word_price
from trainer_node.daemon.keys import create_key
from trainer_node.daemon.service import open_daemon
from trainer_node.errors import ConfigError, DeployError, UnfitChain
from trainer_node.observe.findings import Finding, State
from trainer_node.operate.deploy import Parameters, chosen_schedule, deploy
from trainer_node.settings.settings import load_settings
from trainer_node.stake.min_stake import least_stake

from .liar import Liar
from .test_fitness import PARAMETERS, sender

WRITTEN = 400_000
"""More than any estimate of this question, and less than those of others."""


@pytest.fixture
def liar(anvil: Anvil) -> Iterator[Liar]:
    with Liar(anvil.url) as proxy:
        yield proxy


def charging(new: int, error: float = 1.0) -> Callable[[dict], dict]:
    """Return estimates of a chain on which a new word costs this much; they are too high by this factor."""

    def answer(true: dict) -> dict:
        gas = int(true["result"], 16)
        if gas > WRITTEN:
            return {"result": true["result"]}
        words = round((gas - 53_000) / OSAKA.new)
        assert words in (1, WORDS)
        return {"result": hex(int(error * (gas + words * (new - OSAKA.new))))}

    return answer


def found(url: str, stated: Schedule | None) -> Finding:
    web3 = connect(url, 31337)
    findings = check_chain(web3, needs_of(Build.STANDARD), ChainRule(local=True), stated)
    return next(one for one in findings if one.name == "gas schedule")


# ---------------------------------------------------------------------- what a chain charges


@pytest.mark.parametrize("hardfork", ["prague", "osaka"])
def test_a_chain_of_today_charges_as_osaka(hardfork: str, start_anvil: Callable[..., Anvil]) -> None:
    web3 = connect(start_anvil(hardfork=hardfork).url, 31337)
    price = word_price(web3)
    assert price is not None
    assert OSAKA.new <= price <= OSAKA.new + 10, "the word, and what puts two numbers on the stack"
    assert charged(web3) == OSAKA.new


@pytest.mark.parametrize("error", [1.0, 1.015])
def test_a_chain_that_charges_as_amsterdam(error: float, liar: Liar) -> None:
    """Nodes stop their search of an estimate when it is 1.5 % too high."""
    web3 = connect(liar.url, 31337)
    liar.lies["eth_estimateGas"] = charging(AMSTERDAM.new, error)
    assert charged(web3) == AMSTERDAM.new
    assert chosen_schedule(web3, None) is AMSTERDAM
    assert chosen_schedule(web3, "osaka") is OSAKA
    with pytest.raises(InvalidInput, match="osaka, amsterdam"):
        chosen_schedule(web3, "frontier")


def test_what_the_finding_says(liar: Liar) -> None:
    same = found(liar.url, OSAKA)
    assert (same.state, "22,100 gas" in same.text, same.remedy) == (State.OK, True, "")
    assert found(liar.url, None).state is State.OK
    early = found(liar.url, AMSTERDAM)
    assert (early.state, "larger than disputes ask for" in early.text) == (State.WARN, True)

    liar.lies["eth_estimateGas"] = charging(AMSTERDAM.new)
    assert found(liar.url, AMSTERDAM).state is State.OK
    late = found(liar.url, OSAKA)
    assert late.state is State.FAIL
    assert "charges 110,020 gas" in late.text
    assert "counts by osaka, so its stakes and bonds no longer pay" in late.text
    assert "`assay deploy --schedule amsterdam`" in late.remedy

    liar.lies["eth_estimateGas"] = charging(1_000_000 // 3)
    unknown = found(liar.url, OSAKA)
    assert (unknown.state, "as no schedule does" in unknown.text) == (State.FAIL, True)
    assert "--schedule" not in unknown.remedy
    assert found(liar.url, None).state is State.WARN
    with pytest.raises(DeployError, match=r"charges .* gas for a new word.*--schedule \(osaka, amsterdam\)"):
        chosen_schedule(connect(liar.url, 31337), None)


def test_an_endpoint_that_does_not_estimate_is_no_chain_that_charges_more(liar: Liar) -> None:
    liar.lies["eth_estimateGas"] = lambda _: {"result": None, "error": {"code": -32601, "message": "no"}}
    assert found(liar.url, OSAKA).state is State.WARN
    with pytest.raises(DeployError, match="does not say"):
        chosen_schedule(connect(liar.url, 31337), None)


# ---------------------------------------------------------------------- what a deployment counts by


@pytest.mark.parametrize("schedule", [OSAKA, AMSTERDAM])
def test_a_deployment_counts_by_what_it_was_told(schedule: Schedule, anvil: Anvil, tmp_path: Path) -> None:
    parameters = Parameters(schedule=schedule, min_fee=3)
    path = tmp_path / "31337.json"
    deployment = deploy(connect(anvil.url, 31337), sender(anvil), path, parameters, chain_id=31337)
    assert json.loads(path.read_text())["schedule"] == schedule.name
    assert Deployment.load(path).schedule is schedule
    assert parameters.stake_gas == least_stake(1, schedule)
    settings = load_settings(rpc_url=anvil.url, deployment=path, data_dir=tmp_path / "node")
    with open_daemon(settings, "challenger", key=False) as node:
        snapshot = node.client.snapshot()
        assert snapshot.stake_gas == least_stake(1, schedule)
        assert snapshot.least_stake() == 3 * snapshot.stake_gas
    assert deployment.schedule is schedule


def test_nothing_is_deployed_that_counts_by_less_than_the_chain_charges(
    anvil: Anvil, liar: Liar, tmp_path: Path
) -> None:
    liar.lies["eth_estimateGas"] = charging(AMSTERDAM.new)
    path = tmp_path / "31337.json"
    with pytest.raises(UnfitChain, match="--schedule amsterdam"):
        deploy(connect(liar.url, 31337), sender(anvil), path, Parameters(), chain_id=31337)
    assert not path.exists()


def test_no_daemon_stakes_where_stakes_no_longer_pay_for_disputes(
    anvil: Anvil, liar: Liar, tmp_path: Path
) -> None:
    path = tmp_path / "31337.json"
    deploy(connect(anvil.url, 31337), sender(anvil), path, PARAMETERS, chain_id=31337)
    create_key(tmp_path / "node" / "key.json", "secret", key=anvil.keys[1], work_factor=16)
    given: dict[str, Any] = {"deployment": path, "data_dir": tmp_path / "node", "password": "secret"}
    with open_daemon(load_settings(rpc_url=liar.url, **given), "trainer") as node:
        assert node.address is not None
    liar.lies["eth_estimateGas"] = charging(AMSTERDAM.new)
    with (
        pytest.raises(UnfitChain, match=r"gas schedule: .* counts by osaka"),
        open_daemon(load_settings(rpc_url=liar.url, **given), "trainer"),
    ):
        pass


def test_doctor_and_config_show_compare_the_file_the_contracts_and_the_chain(
    assay, anvil: Anvil, liar: Liar, tmp_path: Path
) -> None:
    path = tmp_path / "31337.json"
    deployment = deploy(connect(anvil.url, 31337), sender(anvil), path, PARAMETERS, chain_id=31337)
    Path("assay.toml").write_text(f'rpc_url = "{liar.url}"\ndeployment = "{path}"\n')

    assay("config", "show", "--offline")  # so that what the deployment has logged is read

    def told() -> dict[str, dict[str, str]]:
        code, output, errors = assay("config", "show", "--json")
        assert code == 0, errors
        shown = {one["check"]: one for one in json.loads(output)["chain"]["value"]}
        _, output, _ = assay("doctor", "--json", "--no-open-key")
        for one in map(json.loads, output.splitlines()):
            assert shown.get(one["check"], one)["state"] == one["state"], one
        return shown

    before = told()
    assert (before["gas schedule"]["state"], "deployment" in before) == ("ok", False)
    liar.lies["eth_estimateGas"] = charging(AMSTERDAM.new)
    assert told()["gas schedule"]["state"] == "fail"
    replace(deployment, schedule=AMSTERDAM).save(path)
    after = told()
    assert after["gas schedule"]["state"] == "fail", "a file changes nothing about the contracts"
    assert "stakes count by amsterdam; they count by osaka" in after["deployment"]["text"]


def test_a_file_with_a_schedule_that_we_do_not_know_is_refused(anvil: Anvil, tmp_path: Path) -> None:
    path = tmp_path / "31337.json"
    deploy(connect(anvil.url, 31337), sender(anvil), path, PARAMETERS, chain_id=31337)
    given = json.loads(path.read_text())
    path.write_text(json.dumps(given | {"schedule": "later"}))
    with pytest.raises(ConfigError, match=r"no gas schedule 'later'.*newer"):
        Deployment.load(path)
    del given["schedule"]
    path.write_text(json.dumps(given))
    assert Deployment.load(path).schedule is None
    assert schedule_named("osaka") is OSAKA
