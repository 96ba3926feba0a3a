"""The frame of a daemon: errors are contained, signals end it, a second process is refused."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from eth_account import Account

from referee_py.errors import InvalidInput, Unavailable
from tests.campaigns.proxy import FaultProxy, Trouble
from tests.conftest import Anvil, undone
from tests.trainer_node.chain.liar import Liar
from trainer_node.chain import JobView, Snapshot, TransactionManager, connect
from trainer_node.chain.contracts import NAMES, error_decoder
from trainer_node.daemon.job_turns import Role, Turn
from trainer_node.daemon.keys import create_key
from trainer_node.daemon.loop import Loop
from trainer_node.daemon.service import IDLE_POLLS, Daemon, Service, open_daemon
from trainer_node.errors import (
    AlreadyRunning,
    ChainError,
    ConfigError,
    FeeTooHigh,
    KeystoreError,
    RpcUnavailable,
    SchemaMismatch,
    TransactionPending,
)
from trainer_node.operate.deploy import Parameters, deploy
from trainer_node.settings.settings import Settings, load_settings
from trainer_node.storage.database import Database
from trainer_node.storage.process import exclusive


def deploy_on(url: str, key: str, path: Path) -> None:
    web3 = connect(url, 31337)
    manager = TransactionManager(
        web3, Account.from_key(key), Database(None), chain_id=31337, poll_s=0.02, decode=error_decoder()
    )
    deploy(web3, manager, path, Parameters(min_period=2, commit_age=1), chain_id=31337)


@pytest.fixture(scope="module")
def deployments(module_anvil: Anvil, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the file of a deployment."""
    folder = tmp_path_factory.mktemp("deployments")
    deploy_on(module_anvil.url, module_anvil.keys[0], folder / "31337.json")
    return folder


@pytest.fixture
def settings(
    module_anvil: Anvil, deployments: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(deployments, tmp_path / "deployments")
    create_key(tmp_path / ".assay" / "key.json", "secret", key=module_anvil.keys[1], work_factor=16)
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    with undone(connect(module_anvil.url, 31337)):
        yield load_settings(rpc_url=module_anvil.url, poll_s=0.02, log_level="error")


@pytest.fixture
def node(settings: Settings) -> Iterator[Daemon]:
    with open_daemon(settings, "test") as node:
        yield node


def ready(node: Daemon) -> dict:
    return httpx.get(node.server.uri + "/readyz").json()


def test_errors_of_a_round_are_contained_and_shown(node: Daemon) -> None:
    script: list[Exception | None] = [
        None,
        RpcUnavailable("no answer"),
        Unavailable("no tensor"),
        InvalidInput("odd job"),
        ZeroDivisionError("bug"),
        None,
    ]
    seen = []

    def tick() -> None:
        step = script.pop(0)
        if step is not None:
            raise step

    service = Service(node, tick)
    waits = []
    while script:
        waits.append(service.round())
        seen.append(ready(node)["reasons"])
    assert seen[0] == []
    assert seen[1] == ["chain: no answer"]
    assert "data: no tensor" in seen[2]
    assert "tick: ZeroDivisionError: bug" in seen[4]
    assert seen[5] == []
    assert waits[0] < waits[2] < waits[4], "it waits longer and longer"
    assert waits[5] == waits[0]
    text = httpx.get(node.server.uri + "/metrics").text
    assert 'assay_ticks_total{result="bug"} 1.0' in text
    assert "assay_rpc_up 1.0" in text


@pytest.mark.parametrize(
    "error",
    [
        TransactionPending("act (nonce 1000) was not mined"),
        RpcUnavailable("transaction indexing is in progress"),
        FeeTooHigh("base fee 300 gwei"),
    ],
)
def test_a_transaction_that_is_never_mined_does_not_keep_a_daemon_from_its_rounds(
    node: Daemon, monkeypatch: pytest.MonkeyPatch, error: ChainError
) -> None:
    def confirm(*, timeout_s: float) -> None:
        assert timeout_s <= 60, "clocks run meanwhile"
        raise error

    assert node.transactions is not None
    monkeypatch.setattr(node.transactions, "confirm", confirm)
    rounds: list[int] = []
    Service(node, lambda: rounds.append(1)).round()
    assert rounds == [1]


def test_stop_ends_the_loop(node: Daemon) -> None:
    rounds = []

    def tick() -> None:
        rounds.append(1)
        if len(rounds) == 3:
            node.stop.set()

    Service(node, tick).run()
    assert len(rounds) == 3


def test_one_node_a_data_directory_and_a_key(settings: Settings, node: Daemon, tmp_path: Path) -> None:
    with pytest.raises(AlreadyRunning, match="data directory"), open_daemon(settings, "second"):
        pass
    elsewhere = settings.model_copy(
        update={"data_dir": tmp_path / "elsewhere", "keystore": settings.keystore_path}
    )
    with pytest.raises(AlreadyRunning, match="key"), open_daemon(elsewhere, "second"):
        pass
    watcher = settings.model_copy(update={"data_dir": tmp_path / "watcher"})
    with open_daemon(watcher, "watch", key=False) as second:
        assert second.transactions is None
        assert second.address is None


def test_a_data_directory_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file/below", Path("/proc/below")):
        with pytest.raises(ConfigError, match=r"data directory .* cannot be used: .*; name a folder"):
            exclusive(folder / "lock", f"data directory {folder}").__enter__()


def test_lock_is_free_after_a_crash(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = f"""
        import fcntl, time
        file = open({str(lock)!r}, "w")
        fcntl.flock(file, fcntl.LOCK_EX)
        print("held", flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    with pytest.raises(AlreadyRunning), exclusive(lock, "it"):
        pass
    process.kill()
    process.wait()
    with exclusive(lock, "it"):
        pass


def test_another_chain_needs_another_data_directory(
    settings: Settings, start_anvil: Callable[..., Anvil]
) -> None:
    with open_daemon(settings, "test"):
        pass
    fresh = start_anvil("--timestamp", "1700000000")  # the genesis block's hash depends on its second
    deploy_on(fresh.url, fresh.keys[0], Path("deployments/31337.json"))
    with (
        pytest.raises(SchemaMismatch, match="another data directory"),
        open_daemon(settings.model_copy(update={"rpc_url": (fresh.url,)}), "test"),
    ):
        pass


def test_a_restart_does_not_ask_for_the_code_again(settings: Settings) -> None:
    """A start takes a request for each contract; a restart in a dispute few: four of them ask for the gas schedule."""
    with FaultProxy(settings.rpc_url[0]) as proxy:
        through = settings.model_copy(update={"rpc_url": (proxy.url,)})
        asked = []
        for _ in range(2):
            proxy.asked.clear()
            with open_daemon(through, "test"):
                asked.append(proxy.asked.copy())
    assert asked[0]["eth_getCode"] == len(NAMES)
    assert asked[1]["eth_getCode"] == 0
    assert asked[1].total() <= 12, asked[1]


@pytest.mark.parametrize("idle", [True, False])
def test_an_idle_node_leaves_rounds_out(node: Daemon, idle: bool) -> None:
    def tick() -> None:
        node.idle = idle

    assert Service(node, tick).round() == node.settings.poll_s * (IDLE_POLLS if idle else 1)


def test_no_key_no_daemon(settings: Settings, tmp_path: Path) -> None:
    with (
        pytest.raises(KeystoreError, match="assay key new"),
        open_daemon(settings.model_copy(update={"data_dir": tmp_path / "other"}), "test"),
    ):
        pass


def test_daemon_waits_for_its_chain(settings: Settings) -> None:
    errors: list[Exception] = []

    def attempt() -> None:
        try:
            with open_daemon(dead, "test"):
                pass
        except Exception as error:
            errors.append(error)

    with FaultProxy(settings.rpc_url[0]) as proxy:
        dead = settings.model_copy(update={"rpc_url": (proxy.url,)})
        proxy.always = Trouble.STATUS
        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive(), errors
        proxy.always = None
        thread.join(timeout=120)
        assert not thread.is_alive()
        assert not errors


@pytest.mark.parametrize("place", [0, 1])
def test_one_endpoint_that_names_another_chain_keeps_no_daemon_from_starting(
    settings: Settings, module_anvil: Anvil, place: int
) -> None:
    with Liar(module_anvil.url) as wrong:
        wrong.lies["eth_chainId"] = "0x1"
        urls = [module_anvil.url]
        urls.insert(place, wrong.url)
        with open_daemon(settings.model_copy(update={"rpc_url": tuple(urls)}), "test") as node:
            Service(node, Loop(node, Idle()).tick).round()
            assert "serves chain 1, not 31337" in str(ready(node))
            assert node.metrics.value("block") == connect(module_anvil.url, 31337).eth.block_number


class Idle(Role):
    """Has nothing to do in any job."""

    def turns(self, _: Snapshot, __: JobView) -> tuple[bool, list[Turn]]:
        return False, []


SLOW_ACT = """
    import sys, time
    from trainer_node.settings.settings import load_settings
    from trainer_node.daemon.service import Service, open_daemon
    with open_daemon(load_settings(poll_s=0.02, log_level="error", rpc_url=sys.argv[1]), "test") as node:
        def tick():
            print("begin", flush=True)
            time.sleep(0.5)
            print("end", flush=True)
        Service(node, tick).run()
    print("closed", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_signal_finishes_the_current_act(settings: Settings, number: signal.Signals) -> None:
    command = [sys.executable, "-c", textwrap.dedent(SLOW_ACT), *settings.rpc_url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begin\n"
    process.send_signal(number)
    rest = process.stdout.read()
    assert process.wait(timeout=120) == 0
    assert rest == b"end\nclosed\n"
