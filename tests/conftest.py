"""Shared fixtures: each test that asks for a local chain gets its own, or undoes what it does on its module's."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest
import structlog
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from .variants import mark_the_others

if TYPE_CHECKING:
    from web3 import Web3

Assay = Callable[..., tuple[int, str, str]]
"""A command, as a person types it: exit code, standard output and error."""
_ROOT = Path(__file__).resolve().parent.parent
_START_TIMEOUT_S = 120.0
_ACCOUNTS = 10


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave some variants of some tests to `make test-all`."""
    mark_the_others(items)


class Files(LoadScopeScheduling):
    """Tests of a file, and of a package with fixtures of its own, go to one process: what they share is made once.
    Each case of a campaign is a whole job, and goes to any."""

    PACKAGES = ("tests/assay_explorer/", "tests/assay_serve/")
    CAMPAIGNS = "tests/campaigns/"

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith(self.CAMPAIGNS):
            return nodeid
        return next((package for package in self.PACKAGES if file.startswith(package)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Files:
    """Hand tests out to processes."""
    return Files(config, log)


# NOTE: a busy machine takes longer for an example than Hypothesis allows by default.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


@dataclass(frozen=True)
class Anvil:
    """A running local chain. ``keys`` are private keys of funded accounts."""

    url: str
    pid: int
    keys: tuple[str, ...]
    chain_id: int = 31337


def find_anvil() -> str | None:
    """Return the path of the anvil that `make setup` has installed, or of one on the PATH."""
    for folder in (".venv/bin", "node_modules/.bin"):
        path = _ROOT / folder / "anvil"
        if path.exists():
            return str(path)
    return shutil.which("anvil")


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """Reset the logging configuration after each test, since a test that runs a command changes it."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Assay:
    """`assay("data", "show", ...)` returns exit code, standard output and error; it runs in an empty folder."""
    from trainer_node.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        output, errors = capfd.readouterr()
        return int(caught.value.code or 0), output, errors

    return run


@contextmanager
def _chains() -> Iterator[Callable[..., Anvil]]:
    """Return a function that starts a chain. Each chain's process ends with the context."""
    program = find_anvil()
    if program is None:
        pytest.fail("anvil is not installed; run `make setup`")
    from assay_lab.demo.network import development_keys

    keys = tuple("0x" + bytes(account.key).hex() for account in development_keys(_ACCOUNTS))
    running: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def start(*options: str, port: int | None = None, hardfork: str = "osaka") -> Anvil:
        port = port or free_port()
        command = [program, "--port", str(port), "--hardfork", hardfork, "--silent", *options]
        words = tempfile.TemporaryFile()  # noqa: SIM115 - closed where the process ends
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=words)
        running.append((process, words))
        _wait_for(port, process)
        return Anvil(f"http://127.0.0.1:{port}", process.pid, keys)

    yield start
    for process, words in running:
        if (
            code := process.poll()
        ) is not None:  # NOTE: some tests end it; elsewhere this says why a test has failed
            words.seek(0)
            told = words.read()[-2000:].decode(errors="replace")
            print(f"anvil had ended by itself, with code {code}: {told}", file=sys.stderr)
        process.terminate()
    for process, words in running:
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
        words.close()


@pytest.fixture
def start_anvil() -> Iterator[Callable[..., Anvil]]:
    """Return a function that starts a chain: `start_anvil("--no-mining")`. Each chain's process ends with the test."""
    with _chains() as start:
        yield start


@pytest.fixture(scope="module")
def start_module_anvil() -> Iterator[Callable[..., Anvil]]:
    """Return a function that starts a chain for all tests of a module."""
    with _chains() as start:
        yield start


@pytest.fixture(scope="module")
def module_anvil(start_module_anvil: Callable[..., Anvil]) -> Anvil:
    """Return a chain for all tests of a module, each of which undoes what it does there (`undone`)."""
    return start_module_anvil()


@contextmanager
def undone(web3: Web3) -> Iterator[None]:
    """Undo on a local chain what happens in this context."""
    from web3.types import RPCEndpoint

    before = web3.provider.make_request(RPCEndpoint("evm_snapshot"), [])["result"]
    yield
    assert web3.provider.make_request(RPCEndpoint("evm_revert"), [before])["result"] is True


@pytest.fixture
def anvil(start_anvil: Callable[..., Anvil]) -> Anvil:
    """Return a fresh chain that mines each transaction at once."""
    return start_anvil()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(
                f"anvil ended with code {process.returncode} before it listened on port {port}"
            )
        with socket.socket() as probe:
            probe.settimeout(0.2)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"anvil did not listen on port {port} within {_START_TIMEOUT_S} s")
