"""A challenge of a receipt from the command to the prize, with the processes that a user starts. One is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from eth_account import Account

from assay_serve.model import Model
from referee_py.jobs import EMPTY_COMMITMENT
from tests.assay_serve import tiny
from tests.assay_serve.pledged import PERIOD, Ground, answered, lying, one_wrong
from tests.assay_serve.test_pledges import PARAMETERS
from tests.conftest import Anvil, free_port
from trainer_node.chain import ChainClient, Deployment, JobPhase, JobView, TransactionManager, connect
from trainer_node.chain.contracts import error_decoder
from trainer_node.daemon.keys import create_key
from trainer_node.operate.deploy import deploy
from trainer_node.storage.database import Database

from .arena import STAKE

PASSWORD, USER = "pursuit", 2
DEADLINE_S, LOOK_S = 600.0, 0.2


class Pursuit:
    """A chain with a wrong receipt, and the user who has found it."""

    def __init__(self, anvil: Anvil, folder: Path) -> None:
        self.folder, model_folder = folder, tiny.write(folder / "model")
        web3, path = connect(anvil.url, anvil.chain_id), folder / "deployment.json"
        deployer = TransactionManager(
            *(web3, Account.from_key(anvil.keys[0]), Database(None)),
            chain_id=anvil.chain_id,
            decode=error_decoder(),
            poll_s=0.01,
        )
        deploy(web3, deployer, path, PARAMETERS, chain_id=anvil.chain_id)
        self.ground = Ground.on(web3, ChainClient(web3, Deployment.load(path)), deployer, STAKE)
        _, _, backing = self.ground.pledged()
        model = Model.load(model_folder)
        right = answered(model, backing, self.ground.now)
        self.receipt = folder / "wrong.json"
        self.receipt.write_bytes(lying(model, backing, right, one_wrong(right)).to_bytes())
        create_key(folder / "key.json", PASSWORD, key=anvil.keys[USER], work_factor=2)
        (folder / "password").write_text(PASSWORD)
        (folder / "password").chmod(0o600)
        self.model, self.address = model_folder, Account.from_key(anvil.keys[USER]).address
        settings = {
            "rpc_url": anvil.url,
            "deployment": str(path),
            "data_dir": str(folder),
            "password_file": str(folder / "password"),
            "log_level": "info",
        }
        rows = [f'{name} = "{value}"' for name, value in settings.items()]
        rows += [f"chain_id = {anvil.chain_id}", f"port = {free_port()}", "poll_s = 0.05"]
        (folder / "assay.toml").write_text("\n".join(rows) + "\n")

    def command(self, *words: object) -> list[str]:
        return [str(Path(sys.executable).with_name("assay")), "pledge", *map(str, words)]

    def told(self, *words: object) -> str:
        done = subprocess.run(
            self.command(*words),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def pursuing(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "node.log").open("ab") as log:
            process = subprocess.Popen(
                self.command("pursue", self.receipt, 1), cwd=self.folder, stdout=log, stderr=log
            )
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    @property
    def job(self) -> JobView:
        return self.ground.client.snapshot().job(1)

    def committed(self) -> bool:
        slot = self.job.trainer(self.address)
        return slot is not None and slot.commitment != EMPTY_COMMITMENT

    def claimed(self) -> bool:
        return self.job.claim_of(self.address) is not None

    def accepted(self) -> bool:
        self.ground.skip(30)  # blocks, by which the node reads the time
        return self.job.phase is JobPhase.ACCEPTED

    def until(self, done: str, process: subprocess.Popen[bytes]) -> None:
        """Wait for what the node does."""
        ends = time.monotonic() + DEADLINE_S
        while not getattr(self, done)():
            log = (self.folder / "node.log").read_text()
            assert process.poll() is None, log
            assert time.monotonic() < ends, log
            time.sleep(LOOK_S)


@pytest.mark.slow
def test_a_challenge_is_won_by_the_commands_of_its_user(anvil: Anvil, tmp_path: Path) -> None:
    user = Pursuit(anvil, tmp_path)
    told = user.told("challenge", user.receipt, "--model", user.model)
    assert f"assay pledge pursue {user.receipt} 1" in told
    with user.pursuing() as process:
        user.until("committed", process)
    user.ground.skip(PERIOD)
    with user.pursuing() as process:  # it was killed, and finds its slot again
        user.until("claimed", process)
        user.ground.skip(2 * PERIOD)
        user.until("accepted", process)
    assert "the receipt is wrong" in user.told("decide", user.receipt, "--model", user.model)
    assert user.ground.credit(user.address) > 0
