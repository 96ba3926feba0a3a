"""The wheel: it is the same from a checkout and from an sdist, works without either, and never lacks the contracts."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import httpx
import pytest

from tests.conftest import Anvil, find_anvil

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "assay_capture",
    "assay_explorer",
    "assay_lab",
    "assay_serve",
    "referee_py",
    "repops",
    "trainer_node",
)
STEPS = 20
START_TIMEOUT_S = 120.0
SDIST = "import build_backend, sys; build_backend.build_sdist(sys.argv[1])"
PIP_WHEEL = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir")


def run(
    command: Sequence[str | Path],
    cwd: Path,
    env: dict[str, str] | None = None,
    code: int = 0,
    given: str | None = None,
) -> str:
    """Return what the command wrote to both streams, once it has ended with this code."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        input=given,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


def build_sdist(tree: Path, folder: Path, code: int = 0) -> str:
    return run([sys.executable, "-c", SDIST, folder], tree, {**os.environ, "PYTHONPATH": "scripts"}, code)


# ------------------------------------------------------------------ refusals


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose contracts are not compiled, as in a fresh clone. It holds what pip reads before it compiles C."""
    tree = tmp_path / "tree"
    for name in ("contracts", "scripts"):
        shutil.copytree(ROOT / name, tree / name)
    for name in ("LICENSE", "README.md", "foundry.toml", "package-lock.json", "pyproject.toml"):
        shutil.copy(ROOT / name, tree)
    return tree


def test_no_wheel_without_the_compiled_contracts(tree: Path, tmp_path: Path) -> None:
    said = run([*PIP_WHEEL, tmp_path / "made", tree], tmp_path, code=1)
    assert f"{len(list((ROOT / 'referee_py/abi').glob('*.json')))} contracts are not compiled" in said
    assert "`make setup`" in said
    assert not list(tmp_path.glob("made/*"))


def test_no_sdist_with_the_compiled_contracts_of_other_sources(tree: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "referee_py/abi", tree / "referee_py/abi")
    with (tree / "contracts/Jobs.sol").open("a") as source:
        source.write("// changed\n")
    said = build_sdist(tree, tmp_path / "made", code=1)
    assert "are not compiled" in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.glob("made/*"))


# ------------------------------------------------------------------ the whole way


def built(folder: Path) -> Path:
    """Return the wheel of the checkout, after comparing it with the one that pip makes from the sdist alone."""
    build_sdist(ROOT, folder)
    (sdist,) = folder.glob("*.tar.gz")
    wheels: list[Path] = []
    for name, source in (("direct", ROOT), ("indirect", sdist)):
        run([*PIP_WHEEL, folder / name, source], folder)
        wheels += (folder / name).glob("*.whl")
    direct, indirect = (
        {name: wheel.read(name) for name in wheel.namelist()} for wheel in map(zipfile.ZipFile, wheels)
    )
    assert sorted(direct) == sorted(indirect)
    differing = [name for name, data in direct.items() if indirect[name] != data]
    assert not differing
    packed = [path.relative_to(ROOT).as_posix() for path in (ROOT / "referee_py/abi").rglob("*.json")]
    assert any("/portable/" in name for name in packed)
    assert not [name for name in packed if name not in direct]
    for part in ("static", "templates"):
        for asset in (ROOT / "assay_explorer" / part).iterdir():
            assert direct[f"assay_explorer/{part}/{asset.name}"] == asset.read_bytes()
    for path in (ROOT, tempfile.gettempdir()):
        assert not [name for name, data in direct.items() if f"{path}/".encode() in data]
    return wheels[0]


def installed(wheel: Path, folder: Path) -> Path:
    """Return the bin folder of a new environment with this wheel and what it depends on."""
    run([sys.executable, "-m", "venv", "--without-pip", folder], wheel.parent)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        folder / "bin/python",
        "install",
        "--retries",
        "2",
    ]
    command += ["--constraint", ROOT / "constraints.txt", wheel]
    done = subprocess.run(command, cwd=wheel.parent, capture_output=True, text=True, check=False)
    # NOTE: a registry that is there, but lacks a package, has versions of another one.
    unreachable = "connection broken by" in done.stderr and "(from versions: none)" in done.stderr
    if done.returncode and unreachable:
        pytest.skip("pip cannot reach a registry, so nothing can be installed")
    assert not done.returncode, done.stderr
    return folder / "bin"


class Environment:
    """The installed commands, in a folder that has nothing to do with the checkout, and without its variables."""

    def __init__(self, bin_folder: Path, home: Path) -> None:
        home.mkdir()
        self.bin, self.home = bin_folder, home
        path = os.pathsep.join((str(bin_folder), os.defpath))
        self.variables = {"PATH": path, "HOME": str(home), "COLUMNS": "160", "ASSAY_PASSWORD": "secret"}

    def assay(self, *arguments: str | Path, code: int = 0, given: str | None = None) -> str:
        return run([self.bin / "assay", *arguments], self.home, self.variables, code, given)

    def imports(self) -> list[Path]:
        script = (
            f"import {', '.join(PACKAGES)}\nfor package in ({', '.join(PACKAGES)}): print(package.__file__)"
        )
        lines = run([self.bin / "python", "-c", script], self.home, self.variables).splitlines()
        return [Path(line) for line in lines]

    def watch(self) -> dict[str, object]:
        """Return what a watching challenger answers to /readyz; then end it by its process id."""
        log = self.home / "challenger.log"
        command: list[str | Path] = [
            self.bin / "assay",
            "challenger",
            "run",
            "--data-dir",
            "challenger",
            "--log-format",
            "json",
        ]
        with log.open("w") as errors:
            process = subprocess.Popen(
                command, cwd=self.home, env=self.variables, stdout=subprocess.DEVNULL, stderr=errors
            )
        try:
            return self._ready(log, process)
        finally:
            process.terminate()
            code = process.wait(timeout=START_TIMEOUT_S)
            assert code == 0, log.read_text()

    def _ready(self, log: Path, process: subprocess.Popen[bytes]) -> dict[str, object]:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and process.poll() is None:
            events = [
                json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")
            ]
            for uri in (event["artifacts"] for event in events if event["event"] == "node.open"):
                answer = httpx.get(f"{uri}/readyz")
                if answer.is_success:
                    found: dict[str, object] = answer.json()
                    return found
            time.sleep(0.2)
        pytest.fail(f"the challenger is not ready, code {process.poll()}\n{log.read_text()}")


def seconds_of_help(environment: Environment) -> tuple[float, float]:
    """Return the median time of five `assay --help`, and their mean time on a processor."""
    before, times = os.times(), []
    for _ in range(5):
        began = time.monotonic()
        assert "challenger" in environment.assay("--help")
        times.append(time.monotonic() - began)
    after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return statistics.median(times), used / 5


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it compiles the kernels twice, and plays a job on a local chain
def test_the_wheel_works_outside_the_checkout(
    tmp_path: Path, anvil: Anvil, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not tmp_path.is_relative_to(ROOT)
    environment = Environment(installed(built(tmp_path), tmp_path / "environment"), tmp_path / "home")
    inside = environment.bin.parent
    assert all(path.is_relative_to(inside) for path in environment.imports())

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert environment.assay("--version").startswith(f"assay {version}\nbuild      wheel ")
    elapsed, used = seconds_of_help(environment)
    with capsys.disabled():
        print(f"\nassay --help: {elapsed:.2f} s (median of 5), {used:.2f} s of them on a processor")

    (environment.home / "assay.toml").write_text(f'rpc_url = "{anvil.url}"\nchain_id = {anvil.chain_id}\n')
    environment.assay("key", "new", "--light", "--import", given=anvil.keys[0])
    environment.assay("deploy")
    assert (environment.home / f"deployments/{anvil.chain_id}.json").exists()

    # Capture needs torch, which the environment lacks: the checkout captures, and both run what it captured.
    recipe = ("logistic", "job")
    assert "pip install 'assay-referee[capture]'" in environment.assay("program", "build", *recipe, code=2)
    checkout = [sys.executable, "-m", "trainer_node.cli", "program"]
    run([*checkout, "build", *recipe, "--steps", str(STEPS)], environment.home)
    root = run_root(run([*checkout, "run", "job"], environment.home))
    assert run_root(environment.assay("program", "run", "job")) == root

    assert environment.watch() == {"ready": True, "reasons": [], "notices": []}

    (environment.bin / "anvil").symlink_to(find_anvil() or "")
    assert "the liar has lost its stake" in environment.assay("demo", "--bundle", "job", "--folder", "demo")


def run_root(output: str) -> str:
    (root,) = (line.split()[-1] for line in output.splitlines() if line.split()[:2] == ["run", "root"])
    return root
