"""What `assay deploy` writes for explorers: solc makes the deployed bytecode of it, with nothing else at hand."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from tests.conftest import Anvil, Assay
from trainer_node.chain import Deployment, connect
from trainer_node.chain.abi import Build, load_artifact
from trainer_node.chain.contracts import NAMES
from trainer_node.chain.releases import same_code
from trainer_node.daemon.keys import create_key
from trainer_node.operate.standard_json import standard_json

ROOT = Path(__file__).resolve().parents[3]
QUICK = [("Timekeeper", Build.STANDARD), ("Layout", Build.PORTABLE)]
"""Contracts whose compilation takes seconds."""
EVERY = [(name, build) for build in Build for name in (*NAMES, "Releases")]


def compiled(request: str, folder: Path) -> dict:
    """Compile in an empty folder, as an explorer would."""
    done = subprocess.run(
        [ROOT / "scripts/solc", "--standard-json"],
        input=request,
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    output = json.loads(done.stdout[done.stdout.index("{") :])
    assert "contracts" in output, output["errors"]
    ((name, contract),) = (pair for file in output["contracts"].values() for pair in file.items())
    return {"name": name, **{kind: contract["evm"][kind]["object"] for kind in contract["evm"]}}


def expect_the_same_bytes(name: str, build: Build, folder: Path) -> None:
    found, artifact = compiled(json.dumps(standard_json(name, build)), folder), load_artifact(name, build)
    assert found["name"] == name
    assert bytes.fromhex(found["bytecode"]) == artifact.bytecode
    assert bytes.fromhex(found["deployedBytecode"]) == artifact.runtime


@pytest.mark.parametrize(("name", "build"), QUICK)
def test_the_input_of_a_contract_gives_its_bytecode(name: str, build: Build, tmp_path: Path) -> None:
    expect_the_same_bytes(name, build, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "build"), [one for one in EVERY if one not in QUICK])
def test_the_input_of_every_contract_gives_its_bytecode(name: str, build: Build, tmp_path: Path) -> None:
    expect_the_same_bytes(name, build, tmp_path)


def prepare(chain: Anvil) -> None:
    """Write settings and a key into the present folder."""
    Path("assay.toml").write_text(f'rpc_url = "{chain.url}"\npassword_file = "password"\n')
    Path("password").write_text("secret")
    Path("password").chmod(0o600)
    create_key(Path(".assay/key.json"), "secret", key=chain.keys[0], work_factor=2)


def test_a_deployment_can_be_verified_from_its_files(anvil: Anvil, assay: Assay, tmp_path: Path) -> None:
    prepare(anvil)
    code, output, errors = assay("deploy")
    assert code == 0, errors
    assert "deployments/31337.sources" in output
    folder, deployment = Path("deployments/31337.sources"), Deployment.load(Path("deployments/31337.json"))
    index = json.loads((folder / "contracts.json").read_text())
    listed = index.pop("Releases")
    assert listed["address"] in output
    assert {name: one["address"] for name, one in index.items()} == deployment.addresses
    assert {path.stem for path in folder.iterdir()} == {*NAMES, "Releases", "contracts"}

    # What solc makes of a file, and the arguments, are what was sent; its code is what the chain has.
    web3 = connect(anvil.url, 31337)
    sent = {}
    for number in range(web3.eth.block_number + 1):
        for digest in web3.eth.get_block(number)["transactions"]:
            receipt = web3.eth.get_transaction_receipt(digest)  # type: ignore[arg-type]
            sent[receipt["contractAddress"]] = bytes(web3.eth.get_transaction(digest)["input"])  # type: ignore[arg-type]
    for name, one in {**index, "Releases": listed}.items():
        bytecode = load_artifact(name).bytecode
        assert sent[one["address"]] == bytecode + bytes.fromhex(one["constructorArguments"]), name
        assert same_code(bytes(web3.eth.get_code(one["address"])), load_artifact(name)), name
        request = json.loads((folder / f"{name}.json").read_text())
        assert request == standard_json(name, Build.STANDARD)
        file = one["contract"].partition(":")[0]
        assert request["sources"][file]["content"] == (ROOT / file).read_text()
    found = compiled((folder / "Timekeeper.json").read_text(), tmp_path)
    assert sent[index["Timekeeper"]["address"]].startswith(bytes.fromhex(found["bytecode"]))
    assert index["Timekeeper"]["compiler"].startswith("v0.8.")


def test_a_portable_deployment_by_the_command(start_anvil, assay: Assay) -> None:
    chain = start_anvil(hardfork="prague")
    prepare(chain)
    code, _, errors = assay("deploy")
    assert (code, "CLZ (since Osaka)" in errors, "--portable" in errors) == (2, True, True), errors
    assert connect(chain.url, 31337).eth.block_number == 0
    code, _, errors = assay("deploy", "--portable")
    assert code == 0, errors
    index = json.loads(Path("deployments/31337.sources/contracts.json").read_text())
    request = json.loads(Path("deployments/31337.sources/Court.json").read_text())
    assert request == standard_json("Court", Build.PORTABLE)
    # A node finds it on the list of releases, and takes it for this version's.
    listed = ("--releases", index["Releases"]["address"], "--release", metadata.version("assay-referee"))
    code, _, errors = assay("job", "list", *listed)
    assert code == 0, errors
