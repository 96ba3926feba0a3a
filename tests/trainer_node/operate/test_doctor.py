"""`assay doctor` on machines with one thing wrong each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from tests.campaigns.proxy import FaultProxy
from tests.conftest import free_port
from trainer_node.chain import TransactionManager, connect
from trainer_node.chain.contracts import error_decoder
from trainer_node.chain.counted_blocks import ChainRule
from trainer_node.chain.fees import ETHER
from trainer_node.chain.fitness import check_clock
from trainer_node.daemon.keys import create_key
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.observe.findings import Finding, State
from trainer_node.operate import doctor
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.operate.doctor import examine
from trainer_node.settings.settings import Settings, load_settings
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store


@pytest.fixture(autouse=True)
def _without_the_kernels_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes seconds; `test_selftest.py` runs it, and `test_quickstart.py` runs the command with it."""
    monkeypatch.setattr(doctor, "_kernels", lambda: iter([Finding("kernels", State.OK, "not run")]))


@pytest.fixture(scope="module")
def deployed(module_anvil, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("deployed") / "31337.json"
    web3 = connect(module_anvil.url, module_anvil.chain_id)
    account = Account.from_key(module_anvil.keys[0])
    sender = TransactionManager(
        web3, account, Database(None), chain_id=module_anvil.chain_id, decode=error_decoder(), poll_s=0.01
    )
    parameters = Parameters(min_bond=ETHER, leave_delay=60, stake_gas=10**7, min_period=10, commit_age=1)
    deploy(web3, sender, file, parameters, chain_id=module_anvil.chain_id)
    return file


def settings(anvil, deployed: Path, folder: Path, **changes: object) -> Settings:
    data = folder / "data"
    if not data.exists():
        create_key(data / "key.json", "secret", key=anvil.keys[1], work_factor=2)
    given = {"rpc_url": anvil.url, "deployment": deployed, "data_dir": data, "password": "secret"}
    return load_settings(**{**given, **changes})


def found(settings: Settings) -> dict[str, Finding]:
    return {finding.name: finding for finding in examine(settings)}


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        ({"workers": 2, "threads": 1}, State.OK, "2 processes of 1 threads for 2 cores"),
        ({"workers": 4, "threads": 1}, State.WARN, "4 processes of 1 threads for 2 cores"),
        ({"workers": 2, "threads": 2}, State.WARN, "2 processes of 2 threads"),
    ],
)
def test_workers_that_share_cores(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], state: State, words: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    (finding,) = doctor._workers(load_settings(**given))
    assert finding.state is state
    assert words in finding.text
    assert f"with 1/{given['workers']} of limits.memory_bytes" in finding.text
    assert ("lower workers" in finding.remedy) == (state is State.WARN)
    assert not list(doctor._workers(load_settings()))


def test_a_machine_that_is_ready(module_anvil, deployed: Path, tmp_path: Path) -> None:
    uri = f"http://127.0.0.1:{free_port()}"
    told = found(settings(module_anvil, deployed, tmp_path, port=int(uri.rsplit(":", 1)[1]), public_uri=uri))
    assert {
        name: finding.state for name, finding in told.items() if name not in ("disk", "clock")
    } == dict.fromkeys(
        (
            *("kernels", "device", "database", "key", "chain", "contracts", "ether", "public address"),
            *("opcodes", "code size", "transaction gas", "block gas", "base fee", "finality"),
            *("block number", "block time", "gas schedule"),
        ),
        State.OK,
    ), told
    assert "a file of ours was fetched" in told["public address"].text


def test_what_the_chain_lacks(module_anvil, deployed: Path, tmp_path: Path) -> None:
    web3 = connect(module_anvil.url, module_anvil.chain_id)
    wanting = settings(module_anvil, deployed, tmp_path)
    web3.provider.make_request("anvil_setBalance", [Account.from_key(module_anvil.keys[1]).address, "0x1"])  # type: ignore[arg-type]
    told = found(wanting)["ether"]
    assert told.state is State.FAIL
    assert "has 1e-18 ether" in told.text
    assert told.remedy.startswith("send ")

    other = deployed.with_name("other.json")
    other.write_text(deployed.read_text().replace('"codeHash": "0x', '"codeHash": "0x00', 1))
    assert "other code at" in found(settings(module_anvil, other, tmp_path))["contracts"].text
    missing = found(settings(module_anvil, deployed.with_name("none.json"), tmp_path))
    assert (missing["chain"].state, missing["contracts"].state) == (State.OK, State.FAIL)

    elsewhere = found(settings(module_anvil, deployed, tmp_path, chain_id=5))
    assert (elsewhere["chain"].state, "contracts" in elsewhere) == (State.FAIL, False)
    nobody = found(settings(module_anvil, deployed, tmp_path, rpc_url=f"http://127.0.0.1:{free_port()}"))
    assert nobody["chain"].state is State.FAIL
    assert "; start the chain (one of this machine: " in nobody["chain"].text
    assert nobody["chain"].text.endswith("or name another endpoint in rpc_url")
    assert nobody["chain"].remedy == "", "it is in the text"


def test_endpoints_that_are_silent_or_too_few_to_agree(module_anvil, deployed: Path, tmp_path: Path) -> None:
    def told(*urls: str, agree: int = 0) -> tuple[State, str, str]:
        finding = found(settings(module_anvil, deployed, tmp_path, rpc_url=urls, agree=agree))["endpoints"]
        return finding.state, finding.text, finding.remedy

    nobody = f"http://127.0.0.1:{free_port()}"
    with FaultProxy(module_anvil.url) as first, FaultProxy(module_anvil.url) as second:
        here = module_anvil.url, first.url, second.url
        assert told(*here) == (State.OK, "3 serve the chain; a stake needs 2 of them", "")
        state, text, remedy = told(*here, agree=1)
        assert (state, "only 1 of 3 endpoints" in text, remedy) == (
            State.WARN,
            True,
            "agree = 2, or leave it out",
        )
        state, text, _ = told(*here[:2], nobody)
        assert (state, "1 of 3 do not serve: RPC " + nobody in text) == (State.WARN, True)
    assert "endpoints" not in found(settings(module_anvil, deployed, tmp_path))


def test_files_that_others_can_read_or_that_are_damaged(module_anvil, deployed: Path, tmp_path: Path) -> None:
    wanted = settings(module_anvil, deployed, tmp_path)
    wanted.keystore_path.chmod(0o644)
    told = next(finding for finding in examine(wanted) if finding.name == "key")
    assert (told.state, told.remedy) == (State.FAIL, f"chmod 600 {wanted.keystore_path}")
    wanted.keystore_path.chmod(0o600)
    wrong = found(settings(module_anvil, deployed, tmp_path, password="other"))["key"]
    assert (wrong.state, "cannot be opened with this password" in wrong.text) == (State.FAIL, True)

    database = wanted.data_dir / "node.sqlite3"
    Database(database).close()
    assert "is sound; no daemon uses it now" in found(wanted)["database"].text
    content = bytearray(database.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    database.write_bytes(bytes(content))
    assert found(wanted)["database"].state is State.FAIL


def test_an_address_that_leads_elsewhere(module_anvil, deployed: Path, tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    told = found(settings(module_anvil, deployed, tmp_path, public_uri=nobody))["public address"]
    assert (told.state, "does not lead to" in told.text, bool(told.remedy)) == (State.FAIL, True, True)
    with ArtifactServer(Store(tmp_path / "other")) as other:
        told = found(settings(module_anvil, deployed, tmp_path, public_uri=other.uri))["public address"]
        assert (told.state, "HTTP 404" in told.text) == (State.FAIL, True)
        # The port is that of a daemon that runs: it is asked for what an artifact server alone answers.
        running = settings(module_anvil, deployed, tmp_path, public_uri=other.uri, port=other.port)
        assert "the running daemon answers" in found(running)["public address"].text


def test_a_clock_that_differs_from_the_chains() -> None:
    here, abroad = ChainRule(local=True), ChainRule()
    assert check_clock(-100.0, here).state is State.WARN
    assert check_clock(-100.0, abroad).state is State.FAIL
    assert check_clock(1000.0, abroad).state is State.WARN
    assert check_clock(10.0, abroad).state is State.OK
