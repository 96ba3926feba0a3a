"""Deployment on a real chain, and reading it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from eth_account import Account
from repops.opset import OPS

from referee_py.errors import AssayError
from referee_py.program.modes import EXACT, REPOPS_F32, TC16
from referee_py.rounding import Rounding
from tests.support.small_disk import small_disk
from trainer_node.chain import ChainClient, Contracts, Deployment, TransactionManager, connect
from trainer_node.chain.abi import load_artifact
from trainer_node.chain.contracts import NAMES, TABLES, error_decoder
from trainer_node.errors import ConfigError, DeployError, InsufficientFunds, WrongChain
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.operate.deploy_defaults import NOBODY
from trainer_node.storage.database import Database

CODE_SIZE_LIMIT = 22_000
"""Below EIP-170's 24,576 bytes: the difference is room to repair."""
PARAMETERS = Parameters(min_bond=10**17, leave_delay=60, stake_gas=10**7, min_period=2, commit_age=1)


def manager(url: str, key: str) -> TransactionManager:
    return TransactionManager(
        connect(url, 31337),
        Account.from_key(key),
        Database(None),
        chain_id=31337,
        poll_s=0.02,
        decode=error_decoder(),
    )


def test_deploy_writes_what_is_on_the_chain(anvil, tmp_path: Path) -> None:
    sender = manager(anvil.url, anvil.keys[0])
    web3 = connect(anvil.url, 31337)
    path = tmp_path / "deployments" / "31337.json"
    deployment = deploy(web3, sender, path, PARAMETERS, chain_id=31337)
    assert Deployment.load(path) == deployment
    Contracts(web3, deployment).verify()
    client = ChainClient(web3, deployment)
    assert client.snapshot().job_count() == 0
    assert client.snapshot().verifiers() == []
    assert client.contracts.notary.functions.MIN_STAKE().call() == PARAMETERS.stake_gas * PARAMETERS.min_fee
    at, contracts = deployment.addresses, client.contracts
    assert contracts.referee.functions.PANEL().call() == at["Panel"]
    assert contracts.panel.functions.COURT().call() == at["Court"]
    assert contracts.panel.functions.REGISTRY().call() == at["VerifierRegistry"]
    assert contracts.notary.functions.REGISTRY().call() == at["VerifierRegistry"]
    for timed in (
        contracts.jobs,
        contracts.referee,
        contracts.panel,
        contracts.court,
        contracts.data_availability,
    ):
        assert timed.functions.TIME().call() == at["Timekeeper"]
    assert client.snapshot().timekeeper().guardian == NOBODY


FAMILY_OF = {"add": "Elementwise", "exp": "Exponentials", "log": "Logarithms", "sin": "Trigonometry"}
FAMILY_OF |= {"sum": "Reductions", "mm": "Contractions", "max_pool2d": "Pooling", "take": "Rows"}
FAMILY_OF |= {"reshape": "Layout", "philox": "Sources"}


def test_every_operator_has_the_rule_of_its_family(anvil, tmp_path: Path) -> None:
    web3 = connect(anvil.url, 31337)
    deployment = deploy(
        web3, manager(anvil.url, anvil.keys[0]), tmp_path / "31337.json", PARAMETERS, chain_id=31337
    )
    at = deployment.addresses
    opset = web3.eth.contract(at["Opset1"], abi=load_artifact("Opset1").abi)  # type: ignore[call-overload]
    for mode, rules in zip((REPOPS_F32.byte, EXACT.byte, Rounding(26).mode, TC16.byte), TABLES, strict=True):
        families = {at[name]: family for name, family in zip(rules, TABLES[0], strict=True)}
        found = {op.name: families[opset.functions.rule(op.id, mode).call()] for op in OPS}
        assert {name: found[name] for name in FAMILY_OF} == FAMILY_OF


def test_a_live_deployment_is_not_overwritten(anvil, start_anvil, tmp_path: Path) -> None:
    sender = manager(anvil.url, anvil.keys[0])
    web3 = connect(anvil.url, 31337)
    path = tmp_path / "31337.json"
    first = deploy(web3, sender, path, PARAMETERS, chain_id=31337)
    with pytest.raises(DeployError, match="--force"):
        deploy(web3, sender, path, PARAMETERS, chain_id=31337)
    second = deploy(web3, sender, path, PARAMETERS, chain_id=31337, force=True)
    assert second.jobs != first.jobs

    fresh = start_anvil()  # a restarted development chain does not have the old deployment
    web3 = connect(fresh.url, 31337)
    with pytest.raises(WrongChain, match="no code"):
        Contracts(web3, second).verify()
    deploy(web3, manager(fresh.url, fresh.keys[0]), path, PARAMETERS, chain_id=31337)


def test_who_cannot_pay_for_all_pays_for_nothing(anvil, tmp_path: Path) -> None:
    web3, poor = connect(anvil.url, 31337), "0x" + "42" * 32
    sender = manager(anvil.url, poor)
    web3.provider.make_request("anvil_setBalance", [sender.address, hex(10**16)])  # type: ignore[arg-type]
    with pytest.raises(
        InsufficientFunds, match=r"30 contracts take 5\d,.* has 0.01 ether; send it 0\.\d+ ether"
    ):
        deploy(web3, sender, tmp_path / "31337.json", PARAMETERS, chain_id=31337)
    assert web3.eth.get_transaction_count(web3.to_checksum_address(sender.address)) == 0


def test_nothing_is_paid_for_addresses_that_cannot_be_written(anvil, tmp_path: Path) -> None:
    web3, sender = connect(anvil.url, 31337), manager(anvil.url, anvil.keys[0])
    with (
        small_disk(tmp_path / "disk", 1 << 20) as disk,
        pytest.raises(DeployError, match=r"No space left on device; make room for 8,388,608 bytes, or name"),
    ):
        deploy(web3, sender, disk / "deployments" / "31337.json", PARAMETERS, chain_id=31337)
    assert web3.eth.get_transaction_count(web3.to_checksum_address(sender.address)) == 0


def test_deployment_file_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "1.json"
    with pytest.raises(ConfigError, match="assay deploy"):
        Deployment.load(path)
    for text in ("", "[]", "{}", '{"chainId": 1, "block": 1, "contracts": {"Jobs": 5}}'):
        path.write_text(text)
        with pytest.raises(AssayError, match="not a deployment file"):
            Deployment.load(path)


# NOTE: Court is about to be split, too.
@pytest.mark.parametrize("name", [name for name in (*NAMES, "Releases") if name != "Court"])
def test_a_contract_leaves_room_to_repair(name: str) -> None:
    assert 0 < len(load_artifact(name).runtime) <= CODE_SIZE_LIMIT
