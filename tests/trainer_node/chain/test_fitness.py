"""Chains that lack something: the probe finds it by calls, deployments and daemons are refused with the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from eth_account import Account

from tests.conftest import Anvil
from tests.trainer_node.chain.liar import Liar
from trainer_node.chain import TransactionManager, connect
from trainer_node.chain.abi import Build, load_artifact
from trainer_node.chain.contracts import NAMES, error_decoder, needs_of
from trainer_node.chain.counted_blocks import ChainRule
from trainer_node.chain.fitness import TRANSACTION_GAS, check_chain
from trainer_node.chain.opcodes import INVALID, SHA256, TRIALS, Needs, opcodes_of
from trainer_node.chain.probe import execute, gives_gas
from trainer_node.daemon.keys import create_key
from trainer_node.daemon.service import open_daemon
from trainer_node.errors import UnfitChain
from trainer_node.observe.findings import Finding, State
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.settings.settings import Settings, load_settings
from trainer_node.storage.database import Database

UPGRADES = ("Frontier", "Byzantium", "Constantinople", "Istanbul", "London", "Shanghai", "Cancun", "Osaka")
"""Those that brought opcodes, in order."""
HARDFORKS = {"berlin": 3, "london": 4, "shanghai": 5, "cancun": 6, "prague": 6, "osaka": 7}
"""By a hardfork of anvil: the last of `UPGRADES` that it has."""
CLZ = 0x1E
HERE = ChainRule(local=True)
PARAMETERS = Parameters(min_bond=10**17, leave_delay=60, stake_gas=10**7, min_period=2, commit_age=1)


def found(url: str, needs: Needs | None = None, rule: ChainRule = HERE) -> dict[str, Finding]:
    web3 = connect(url, 31337)
    return {one.name: one for one in check_chain(web3, needs or needs_of(Build.STANDARD), rule)}


def bad(url: str, needs: Needs | None = None, rule: ChainRule = HERE) -> dict[str, State]:
    return {name: one.state for name, one in found(url, needs, rule).items() if one.state is not State.OK}


def sender(chain: Anvil, number: int = 0) -> TransactionManager:
    return TransactionManager(
        connect(chain.url, 31337),
        Account.from_key(chain.keys[number]),
        Database(None),
        chain_id=31337,
        poll_s=0.01,
        decode=error_decoder(),
    )


# ---------------------------------------------------------------------- what code uses


@pytest.mark.parametrize("build", Build)
@pytest.mark.parametrize("name", [*NAMES, "Releases"])
def test_every_opcode_of_the_contracts_can_be_tried(name: str, build: Build) -> None:
    artifact = load_artifact(name, build)
    assert INVALID not in artifact.runtime or INVALID not in opcodes_of(artifact.runtime)
    needs = Needs.of([artifact.runtime], [artifact.bytecode])
    assert needs.opcodes
    assert set(needs.opcodes) <= TRIALS.keys()
    assert needs.code_bytes == len(artifact.runtime)


def test_only_the_standard_build_uses_clz() -> None:
    standard, portable = needs_of(Build.STANDARD), needs_of(Build.PORTABLE)
    assert set(standard.opcodes) - set(portable.opcodes) == {CLZ}
    assert set(portable.opcodes) < set(standard.opcodes)


def test_data_are_no_opcodes() -> None:
    pushed = bytes.fromhex("611e1e 50 00")  # PUSH2 0x1e1e, POP, STOP
    assert opcodes_of(pushed) == {0x61, 0x50, 0x00}
    assert opcodes_of(pushed + bytes([INVALID, CLZ])) == {0x61, 0x50, 0x00}
    assert opcodes_of(bytes([0x7F, CLZ])) == {0x7F}  # cut off in the middle of a push
    assert Needs.of([pushed]).opcodes == (SHA256,)


# ---------------------------------------------------------------------- what a chain executes


@pytest.mark.parametrize("hardfork", HARDFORKS)
def test_a_chain_lacks_the_opcodes_of_later_upgrades(
    hardfork: str, start_anvil: Callable[..., Anvil]
) -> None:
    web3 = connect(start_anvil(hardfork=hardfork).url, 31337)
    later = UPGRADES[HARDFORKS[hardfork] + 1 :]
    ran = execute(web3, tuple(TRIALS), 20_000)
    assert set(ran.lacking) == {opcode for opcode, trial in TRIALS.items() if trial.since in later}
    assert ran.holds_code
    assert ran.seen.chain_id == 31337
    assert execute(web3, (0x0C, SHA256), 20_000).lacking == (0x0C,)  # an opcode that nobody has


def test_a_chain_that_has_everything(module_anvil: Anvil) -> None:
    assert bad(module_anvil.url) == {}
    assert f"{TRANSACTION_GAS:,}" in found(module_anvil.url)["transaction gas"].text


def test_code_blocks_and_transactions_that_are_too_small(start_anvil: Callable[..., Anvil]) -> None:
    needs = needs_of(Build.STANDARD)
    small = start_anvil("--code-size-limit", str(needs.code_bytes - 1))
    assert bad(small.url) == {"code size": State.FAIL}
    assert not execute(connect(small.url, 31337), (), needs.code_bytes).holds_code
    assert execute(connect(small.url, 31337), (), needs.code_bytes - 1).holds_code

    narrow = start_anvil("--gas-limit", str(TRANSACTION_GAS - 1))
    assert bad(narrow.url) == {"transaction gas": State.FAIL, "block gas": State.FAIL}
    assert not gives_gas(connect(narrow.url, 31337), TRANSACTION_GAS)


@pytest.fixture
def liar(module_anvil: Anvil) -> Iterator[Liar]:
    connect(module_anvil.url, 31337).provider.make_request("evm_mine", [])  # type: ignore[arg-type]
    with Liar(module_anvil.url) as proxy:
        yield proxy


def test_a_chain_without_a_base_fee_or_with_other_blocks_than_contracts_see(liar: Liar) -> None:
    def changed(**fields: object) -> Callable[[dict], dict]:
        return lambda answer: {"result": {**answer["result"], **fields}}

    liar.lies["eth_getBlockByNumber"] = changed(baseFeePerGas=None)
    assert bad(liar.url) == {"base fee": State.FAIL}
    liar.lies["eth_getBlockByNumber"] = changed(number="0xfffff")
    told = found(liar.url)["block number"]
    assert (told.state, "counts the blocks of another chain" in told.text) == (State.FAIL, True)
    liar.lies["eth_getBlockByNumber"] = changed(timestamp="0xfffffffff")
    assert bad(liar.url) == {"block time": State.FAIL, "clock": State.WARN}
    assert bad(liar.url, rule=ChainRule()) == {"block time": State.FAIL, "clock": State.FAIL}


def test_tags_that_a_chain_does_not_show(liar: Liar) -> None:
    def untagged(answer: dict) -> dict:
        return {"result": answer["result"] if answer["result"]["number"] != "0x0" else None}

    liar.lies["eth_getBlockByNumber"] = untagged
    assert "there is no finalized block" in found(liar.url)["finality"].text
    assert bad(liar.url) == {}
    assert bad(liar.url, rule=ChainRule(local=True, finality="safe")) == {"finality": State.FAIL}


def test_an_endpoint_that_executes_no_code_of_ours_says_nothing_about_the_chain(liar: Liar) -> None:
    refused = {"error": {"code": -32602, "message": "missing value for required argument: to"}}
    liar.lies["eth_call"] = lambda _: {"result": None, **refused}
    assert bad(liar.url) == {"opcodes": State.WARN}
    del liar.lies["eth_call"]
    liar.lies["eth_estimateGas"] = lambda _: {"result": None, **refused}
    assert bad(liar.url) == {"transaction gas": State.WARN, "gas schedule": State.WARN}


# ---------------------------------------------------------------------- refusals


def test_nothing_is_deployed_where_it_could_not_run(
    start_anvil: Callable[..., Anvil], tmp_path: Path
) -> None:
    chain, path = start_anvil(hardfork="prague"), tmp_path / "31337.json"
    web3, client = connect(chain.url, 31337), sender(chain)
    with pytest.raises(UnfitChain, match=r"CLZ \(since Osaka\).*`assay deploy --portable`"):
        deploy(web3, client, path, PARAMETERS, chain_id=31337)
    assert (web3.eth.block_number, path.exists()) == (0, False)

    deployment = deploy(web3, client, path, PARAMETERS, chain_id=31337, build=Build.PORTABLE)
    assert path.exists()
    assert len(web3.eth.get_code(deployment.referee)) == len(load_artifact("Referee", Build.PORTABLE).runtime)  # type: ignore[arg-type]

    old = start_anvil(hardfork="shanghai")
    with pytest.raises(UnfitChain, match="no build of Assay runs there"):
        deploy(connect(old.url, 31337), sender(old), path, PARAMETERS, chain_id=31337, build=Build.PORTABLE)


def moved(source: Anvil, target: Anvil) -> None:
    """Give a chain the state of another one."""
    state = connect(source.url, 31337).provider.make_request("anvil_dumpState", [])["result"]  # type: ignore[arg-type]
    assert connect(target.url, 31337).provider.make_request("anvil_loadState", [state])["result"]  # type: ignore[arg-type]


def test_a_daemon_does_not_start_where_it_could_not_defend_a_stake(
    anvil: Anvil, start_anvil: Callable[..., Anvil], tmp_path: Path
) -> None:
    path = tmp_path / "31337.json"
    deploy(connect(anvil.url, 31337), sender(anvil), path, PARAMETERS, chain_id=31337)
    prague = start_anvil(hardfork="prague")
    moved(anvil, prague)  # the standard build, on a chain that lacks an opcode

    def settings(name: str) -> Settings:
        create_key(tmp_path / name / "key.json", "secret", key=anvil.keys[1], work_factor=16)
        return load_settings(
            rpc_url=prague.url, deployment=path, data_dir=tmp_path / name, password="secret", poll_s=0.02
        )

    with pytest.raises(UnfitChain, match="CLZ"), open_daemon(settings("new"), "trainer"):
        pass
    # One that only looks has nothing to lose, and one with a stake must do what it can.
    with open_daemon(settings("watching"), "challenger", key=False):
        pass
    staked = settings("staked")
    database = Database(staked.data_dir / "node.sqlite3")
    database.put_undone(1, 1, heard=False, absent=None)
    database.close()
    with open_daemon(staked, "trainer") as node:
        assert node.address is not None


def test_config_show_and_doctor_say_what_the_chain_lacks(
    assay, start_anvil: Callable[..., Anvil], tmp_path: Path
) -> None:
    prague = start_anvil(hardfork="prague")
    Path("assay.toml").write_text(f'rpc_url = "{prague.url}"\n')
    code, output, errors = assay("config", "show")
    assert code == 0, errors
    assert "CLZ (since Osaka)" in output
    assert "`assay deploy --portable`" in output
    code, output, _ = assay("config", "show", "--json")
    told = {one["check"]: one for one in json.loads(output)["chain"]["value"]}
    assert (code, told["opcodes"]["state"], told["block gas"]["state"]) == (0, "fail", "ok")
    assert "CLZ" not in assay("config", "show", "--offline")[1]
    code, output, _ = assay("doctor", "--json", "--no-open-key")
    told = {one["check"]: one for one in map(json.loads, output.splitlines())}
    assert (code, told["opcodes"]["state"]) == (1, "fail")
    assert "--portable" in told["opcodes"]["remedy"]
