"""The commands as a person types them, against a real chain."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from eth_account import Account
from repops.host.library import BEST_ISA, ISA_NAMES
from repops.opset import F32

from assay_capture.commands import COMMANDS as CAPTURE
from assay_explorer.commands import COMMANDS as EXPLORER
from assay_lab.commands import COMMANDS as LAB
from assay_serve.commands import COMMANDS as SERVE
from referee_py.errors import InvalidInput
from referee_py.gas_schedule import OSAKA
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.modes.table import mode_of
from referee_py.program.terms import Terms
from tests.conftest import Assay
from trainer_node.chain.abi import load_artifact
from trainer_node.cli import main
from trainer_node.cli.app import COMMANDS, application
from trainer_node.cli.common import ether, gas_price, show_ether
from trainer_node.errors import ConfigError, RpcUnavailable
from trainer_node.local.bundle import Bundle
from trainer_node.observe.build import DISTRIBUTION
from trainer_node.operate.deploy_defaults import PRICE_FACTOR
from trainer_node.stake.min_stake import least_stake
from trainer_node.storage.artifacts import Kind as ArtifactKind
from trainer_node.storage.artifacts import Name
from trainer_node.storage.store import Store


def bundle() -> Bundle:
    """weight += constant."""
    values = np.ones(3, np.float32)
    add = Structure.make("add", [Operand(Kind.SLOT, 0), Operand(Kind.CONSTANT, 0)], [TensorType(F32, (3,))])
    tensor = TensorDescriptor.of(values)
    program = Program((add,), (SlotSource(0, 0),), (tensor,), (tensor,))
    return Bundle("tiny", program, Terms.of(program, 100, (10, 1)), (values,), (values,), {"nodes": ["add"]})


@pytest.fixture(autouse=True)
def _account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    monkeypatch.setenv("ASSAY_LOG_LEVEL", "error")


def test_every_command_explains_itself(assay: Assay) -> None:
    for command in ("", "key new", "deploy", "program build", "job post", "job show", "dispute show"):
        code, output, _ = assay(*command.split(), "--help")
        assert code == 0
        assert "Usage: assay" in output
    for command in ("trainer run", "challenger run", "verifier run", "verifier register", "artifacts serve"):
        code, output, _ = assay(*command.split(), "--help")
        assert (code, "--data-dir" in output) == (0, True)


def test_keys(assay: Assay) -> None:
    code, made, _ = assay("key", "new", "--light")
    assert code == 0
    code, shown, _ = assay("key", "show")
    assert shown.strip() == made.split()[0]
    code, _, errors = assay("key", "new", "--light")
    assert code == 2
    assert "exists" in errors
    assert len(errors.splitlines()) == 1


def test_errors_are_one_line(assay: Assay) -> None:
    for arguments in (
        ("job", "list", "--rpc-url", "http://127.0.0.1:9"),
        ("job", "list", "--port", "x"),
        ("trainer", "run"),
        ("key", "show", "--keystore", "[red]nowhere[/red]"),
        ("program", "show", "nowhere"),
        ("key", "show", "--config", "nowhere.toml"),
    ):
        code, _, errors = assay(*arguments)
        assert code == 2
        assert "Traceback" not in errors
    assert "nowhere.toml" in errors


def test_debug_shows_the_traceback(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["assay", "program", "show", "nowhere", "--debug"])
    with pytest.raises(InvalidInput):
        main()


def import_key(assay: Assay, anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make commands talk to that chain, with the key of its first account."""
    monkeypatch.setenv("ASSAY_RPC_URL", anvil.url)
    key = tmp_path / "private"
    key.write_text(anvil.keys[0])
    with key.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert assay("key", "new", "--import", "--light")[0] == 0


def test_from_deployment_to_job(assay: Assay, anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    try:
        load_artifact("Jobs")
    except ConfigError:
        pytest.fail("the contracts are not built; run `make setup`")
    import_key(assay, anvil, monkeypatch, tmp_path)

    code, output, errors = assay("deploy", "--min-period", "2", "--commit-age", "1")
    assert (code, "Referee" in output, "4 times what the chain asks now" in output) == (0, True, True), errors
    listed = output.split("--releases ")[1].split()[0]
    least = least_stake(PRICE_FACTOR * 2 * 10**9, OSAKA)  # anvil asks 2 gwei
    code, _, errors = assay("deploy")
    assert (code, "--force" in errors) == (2, True)
    code, _, errors = assay("deploy", "--force", "--releases", listed)
    assert (code, "has a release '0.1.0' already" in errors) == (2, True), errors

    folder = bundle().write(tmp_path / "job")
    code, output, _ = assay("program", "show", str(folder), "--nodes")
    assert (code, bundle().terms.hash().hex() in output) == (0, True)
    code, _, errors = assay("job", "post", str(folder), "--port", "9000")
    assert (code, "no verifier" in errors) == (2, True)
    assert assay("verifier", "register", "--bond", "1")[0] == 0
    assert "1 ether" in assay("verifier", "list")[1]
    code, _, errors = assay("job", "post", str(folder), "--port", "9000", "--stake", "1wei")
    assert (code, "StakeTooSmall(have=1" in errors) == (2, True)
    code, output, errors = assay("job", "post", str(folder), "--port", "9000", "--reward", "2")
    assert (code, "job 1" in output) == (0, True), errors
    assert Store(Path(".assay/artifacts")).has(Name(ArtifactKind.BLOB, bundle().program.file_hash()))

    code, output, _ = assay("job", "list")
    assert (code, "training" in output, "2 ether" in output) == (0, True, True)
    code, output, _ = assay("job", "show", "1")
    assert (code, "http://127.0.0.1:9000" in output, bundle().terms.hash().hex() in output) == (0, True, True)
    assert f"{show_ether(least)} now, {show_ether(least)} at least" in " ".join(output.split()), (
        "the chain's least"
    )
    assert "repops-f32" in output
    rounded = ("job", "post", str(folder), "--port", "9000", "--mode", "rounded-f64", "--bits", "28")
    code, _, errors = assay(*rounded, "--slots", "2")
    assert (code, "OneSlotOnly(slots=2)" in errors) == (2, True), errors
    code, output, errors = assay(*rounded)
    assert (code, "job 2" in output) == (0, True), errors
    assert "1 of 1: 0xf39Fd6e5…; the court on appeal within 1800 s" in assay("job", "show", "2")[1]
    code, output, errors = assay("job", "post", str(folder), "--port", "9000", "--court-only")
    assert (code, "job 3" in output) == (0, True), errors
    assert "the court judges them" in assay("job", "show", "3")[1]
    both = ("--court-only", "--threshold", "1")
    code, _, errors = assay("job", "post", str(folder), "--port", "9000", *both)
    assert (code, "leave out --verifier and --threshold" in errors) == (2, True)
    assert assay("job", "post", str(folder), "--port", "9000", "--verdict", "7")[0] == 0
    assert "verifiers judge them in 7 s, 1 of 1: 0xf39Fd6e5…; the court" in assay("job", "show", "4")[1]
    code, output, _ = assay("job", "show", "2")
    assert "rounded-f64, 28 bits, proven bounds, sparse logs" in output
    assert "not revealed yet" in output
    code, _, errors = assay("job", "show", "7")
    assert (code, "no job 7" in errors) == (2, True)
    code, _, errors = assay("job", "finalize", "1")
    assert (code, "WrongPhase" in errors) == (2, True)
    code, _, errors = assay("job", "withdraw")
    assert (code, "NothingToPay" in errors) == (2, True)
    code, _, errors = assay("dispute", "show", "1")
    assert (code, "no match" in errors) == (2, True)


def test_bundle_that_was_changed_is_refused(assay: Assay, tmp_path: Path) -> None:
    folder = bundle().write(tmp_path / "job")
    text = (folder / "job.json").read_text()
    (folder / "job.json").write_text(text.replace('"steps": 100', '"steps": 50'))
    code, _, errors = assay("program", "show", str(folder))
    assert (code, "build it again" in errors) == (2, True)


@pytest.mark.parametrize(
    ("text", "wei"),
    [
        ("1", 10**18),
        ("0.5", 5 * 10**17),
        ("20gwei", 2 * 10**10),
        ("7wei", 7),
        ("0", 0),
        ("2 ether", 2 * 10**18),
    ],
)
def test_amounts(text: str, wei: int) -> None:
    assert ether(text) == wei


@pytest.mark.parametrize("text", ["", "x", "-1", "0.5wei", "NaN", "inf", "1e60", "1.0000000000000000001"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(InvalidInput):
        ether(text)


@pytest.mark.parametrize(
    ("wei", "text"),
    [(0, "0 ether"), (7, "7 wei"), (10**18, "1 ether"), (10**20, "100 ether"), (5 * 10**16, "0.05 ether")],
)
def test_amounts_for_people(wei: int, text: str) -> None:
    assert show_ether(wei) == text


def test_a_price_of_gas_has_a_unit(
    assay: Assay, anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A price of 2 would be 2 ether for a unit of gas, and hold for ever."""
    import_key(assay, anvil, monkeypatch, tmp_path)
    assert (gas_price("2gwei"), gas_price("0.5 gwei"), gas_price("7wei")) == (2 * 10**9, 5 * 10**8, 7)
    for price in ("2", "0.000000002", "2ether", ""):
        code, _, errors = assay("deploy", "--min-period", "2", "--commit-age", "1", "--min-fee", price)
        assert (code, "with its unit" in errors) == (2, True), errors
    assert not Path("deployments").exists()


def test_releases_are_listed_followed_and_withdrawn(
    assay: Assay, anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import_key(assay, anvil, monkeypatch, tmp_path)
    periods = "--min-period", "2", "--commit-age", "1"
    code, output, errors = assay("deploy", *periods, "--min-fee", "2gwei", "--release", "1.0")
    assert code == 0, errors
    listed = ("--releases", output.split("--releases ")[1].split()[0])
    code, _, errors = assay("release", "list")
    assert (code, "--releases" in errors) == (2, True)
    Path("deployments/31337.json").unlink()
    assert assay("job", "list")[0] == 2, "there is no file any more"
    assert assay("job", "list", *listed, "--release", "1.0")[0] == 0
    assert assay("release", "supersede", "1.0", "1.1 is [bold]faster", *listed)[0] == 0
    code, output, _ = assay("release", "list", *listed)
    assert (code, "superseded" in output, "[bold]faster" in output) == (0, True, True)
    assert assay("release", "withdraw", "1.0", "a bug", *listed)[0] == 0
    code, _, errors = assay("job", "list", *listed, "--release", "1.0")
    assert (code, "was withdrawn: 'a bug'" in errors) == (2, True), errors
    code, _, errors = assay("release", "withdraw", "1.0", "a bug", *listed)
    assert (code, "AlreadyWithdrawn" in errors) == (2, True), errors


def test_the_clocks_are_shown_stopped_and_started(
    assay: Assay, anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import_key(assay, anvil, monkeypatch, tmp_path)
    guardian = str(Account.from_key(anvil.keys[0]).address)
    code, _, errors = assay("deploy", "--min-fee", "2gwei", "--guardian", guardian.lower())
    assert (code, "not a checksummed address" in errors) == (2, True), errors
    code, _, errors = assay("deploy", "--min-fee", "2gwei", "--guardian", guardian, "--pause-budget", "900")
    assert code == 0, errors
    shown = assay("clocks", "show")[1]
    assert (guardian in shown, "run" in shown, "900 s more, of 900 s" in shown) == (True, True, True)
    code, _, errors = assay("clocks", "start")
    assert (code, "NotPaused" in errors) == (2, True), errors
    code, output, errors = assay("clocks", "stop")
    assert (code, "pause: done" in output) == (0, True), errors
    assert "stand still, until" in assay("clocks", "show")[1]
    code, output, errors = assay("clocks", "start")
    assert (code, "resume: done" in output) == (0, True), errors
    code, _, errors = assay("deploy", "--force", "--min-fee", "2gwei", "--release", "2.0")
    assert code == 0, errors
    assert "nobody" in assay("clocks", "show")[1]


@pytest.mark.parametrize(
    "given",
    [
        ("--train", "-5"),
        ("--clock", "99999999999999"),
        ("--watch-period", "-1"),
        ("--threshold", "256"),
        ("--appeal", "4294967296"),
    ],
)
def test_a_period_that_no_contract_takes_is_refused_at_once(assay: Assay, given: tuple[str, str]) -> None:
    code, _, errors = assay("job", "post", "bundle", *given)
    assert code == 2
    assert given[0] in errors
    assert "Input should be" in errors


def test_a_job_that_cannot_be_is_refused_at_once(assay: Assay) -> None:
    for command in ("show", "finalize", "result"):
        code, _, errors = assay("job", command, "9" * 80, *(["out"] if command == "result" else []))
        assert code == 2
        assert "Input should be" in errors


def test_a_job_to_collect_from_is_named_by_an_option(assay: Assay) -> None:
    code, _, errors = assay("job", "withdraw", "--job", "x")
    assert code == 2
    assert "--job" in errors
    assert "valid int" in errors


def test_an_interruption_while_the_program_loads_is_one_line(
    assay: Assay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trainer_node.cli.app.application", interrupted)
    assert assay("trainer", "run") == (130, "", "interrupted\n")


@pytest.mark.parametrize("just", [True, False])
def test_a_demonstration_that_succeeds_leaves_no_keys(
    assay: Assay, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, just: bool
) -> None:
    from assay_lab.names import NETWORK

    program = SimpleNamespace(nodes=[0])
    terms = SimpleNamespace(mode=1, steps=300, arithmetic=mode_of(1))
    bundle = SimpleNamespace(terms=terms, program=program)
    bundle.with_mode = lambda _mode: bundle

    def play(*given: object, **_: object) -> object:
        (tmp_path / "demo" / NETWORK).mkdir(parents=True)
        assert given[3] == Path("demo")
        return SimpleNamespace(just=just)

    monkeypatch.setattr("assay_lab.demo.play", play)
    monkeypatch.setattr("assay_lab.demo.digits", lambda *_, **__: tmp_path)
    monkeypatch.setattr("trainer_node.local.bundle.Bundle.read", lambda _: bundle)
    code, _, _ = assay("demo", "--folder", "demo")
    assert (code, (tmp_path / "demo" / NETWORK).exists()) == (0 if just else 1, not just)


def test_every_command_of_the_table_is_there() -> None:
    """The short help in the table is that of each command."""
    group = typer.main.get_group(application([], complete=True))
    names = typer.main.get_group(application([]))
    table = {**COMMANDS, **CAPTURE, **EXPLORER, **LAB, **SERVE}
    alone = [path for path in table if " " not in path]
    assert list(names.commands) == alone
    assert set(group.commands) == set(alone)
    for path, command in table.items():
        real: Any = group
        for name in path.split():
            real = real.commands[name]
        assert command.help in (real.help, real.short_help)
        if path in alone:
            assert names.commands[path].help == command.help


def test_the_version_is_that_of_the_build(assay: Assay) -> None:
    code, output, _ = assay("--version")
    first, build, kernels, contracts = output.splitlines()
    assert (code, first) == (0, f"assay {metadata.version(DISTRIBUTION)}")
    assert build.split()[:2][0] == "build"
    assert kernels.split()[1] == os.environ.get("REPOPS_ISA", ISA_NAMES[BEST_ISA])
    assert re.fullmatch(
        rf"contracts  {re.escape(metadata.version(DISTRIBUTION))}, code [0-9a-f]{{12}}", contracts
    )


def test_the_version_loads_no_library_of_the_chain() -> None:
    told = "import sys; from trainer_node.observe.build import Build; Build.this(); print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", told], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not loaded & {"web3", "numpy", "repops", "pydantic"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            RpcUnavailable("RPC http://x: no answer"),
            "no answer; name an endpoint that serves in rpc_url, or try",
        ),
        (RpcUnavailable("wrong; see rpc_url"), "wrong; see rpc_url"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "left on device; make room, or name a place on another",
        ),
        (OSError(errno.EACCES, "Permission denied"), "PermissionError: [Errno 13] Permission denied"),
    ],
)
def test_an_error_ends_in_what_to_do(
    error: Exception, words: str, assay: Assay, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("trainer_node.cli.app.application", fails)
    code, output, errors = assay("job", "list")
    assert (code, output, errors.count("\n")) == (2, "", 1)
    assert words in errors
    assert not errors.rstrip().endswith(";")
