"""Commands that messages and documents name: the command line takes each; those of remedies are executed as they stand.

NOTE: what runs until it is told to stop, `ENDLESS`, is read by the command line and not executed.
"""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import metadata
from pathlib import Path

import pytest
from web3 import Web3

from scripts.docs.messages import GAP, PARTS, messages
from tests.assay_explorer.conftest import (
    Played,
    small_bundle,  # noqa: F401 # a fixture
    tried,  # noqa: F401 # a fixture
)
from tests.conftest import Anvil, Assay
from tests.support.command_line import flags, parsed
from tests.trainer_node.audit.runs import publish
from trainer_node.errors import PIP

from .pages import ROOT
from .told import Told, of_documents, of_messages, texts, words

ENDLESS = {"assay challenger run --mode watch", "assay monitor", "assay explorer --trainer URI"}
SCHEMATIC = re.compile(r" \[.*?\]| \.\.\.$")
"""What a document leaves to the reader: an argument that need not be given, and more flags."""
NO_COMMAND = {"assay kernels …", "assay kernels 1", "assay worker … to …"}
"""Texts that begin as a command does, and name something else."""


@functools.cache
def named() -> list[Told]:
    """Return the commands that messages name."""
    return of_messages(ROOT)


def given(command: str) -> str:
    """Return a command with something for its gaps and for its words in capitals."""
    return re.sub(r"\b(?:RUN|JOB|N|MATCH)\b", "1", SCHEMATIC.sub("", command).replace(GAP, "1"))


def refused(command: list[str]) -> str | None:
    """Return why the command line does not take a command; None if it does."""
    try:
        parsed(command)
    except (Exception, SystemExit) as error:
        return None if isinstance(error, SystemExit) or type(error).__name__ == "Exit" else repr(error)
    return None


def only_named(told: Told) -> bool:
    """Return whether a text names a command, and does not say that it should be run as it stands."""
    return all(re.fullmatch(r"[a-z-]+", word) and word[0] != "-" for word in told.command.split())


def test_the_command_line_takes_what_messages_and_documents_name() -> None:
    remedies = [one.remedy for package, _, _ in PARTS for one in messages(ROOT, package)]
    for told in (*named(), *of_documents(ROOT)):
        if told.command.startswith("assay ") and refused(words(given(told.command))[1:]) is not None:
            assert only_named(told), told
            alone = f"`{told.command}`"
            assert not any(alone in remedy for remedy in remedies), f"a remedy is run as it stands: {told}"


def test_commands_in_texts_stand_in_backquotes() -> None:
    """Otherwise nobody sees where one ends, and no test finds it."""
    for text, file in texts(ROOT):
        bare = re.sub(r"`[^`]*`|# Settings of this folder.*", "", text)
        found = re.search(r"\b(?:assay [a-z]{4,}|pip install|make setup)\b", bare)
        assert found is None or text in NO_COMMAND or found.start() == 0, (file, text)


def test_every_flag_that_a_remedy_names_is_there() -> None:
    known = flags()
    for package, _, _ in PARTS:
        for one in messages(ROOT, package):
            bare = re.sub(r"`[^`]*`", "", one.remedy)
            assert {*re.findall(r"(?<![\w-])--[a-z][\w-]*", bare)} <= known, one


def test_a_command_that_is_wrong_is_noticed() -> None:
    for wrong in ("assay key make", "assay deploy --portabel", "assay job show", "assay deploy --schedule"):
        assert refused(wrong.split()[1:]) is not None
    assert len(named()) > 40


def test_packages_are_installed_by_the_pip_beside_this_python(tmp_path: Path) -> None:
    extras = set(metadata("assay-referee").get_all("Provides-Extra") or ())
    commands = {told.command for told in named() if told.command.startswith("pip ")}
    assert len(commands) > 5
    for command in commands:
        names = re.findall(r"assay-referee\[([\w,]+)\]", command)
        assert {*names} <= extras, command
        run = re.sub("^pip", PIP, command).replace("PACKAGE", "fsspec")
        done = subprocess.run(
            ["bash", "-c", f"{run} --dry-run --no-index --no-deps"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, sys.prefix in done.stdout or "satisfied" in done.stdout) == (0, True), done


def test_make_knows_what_it_is_told_to_make() -> None:
    commands = {told.command for told in named() if told.command.startswith("make ")}
    assert commands >= {"make setup", "make hardhat"}
    for command in commands:
        subprocess.run([*command.split(), "--dry-run"], cwd=ROOT, capture_output=True, check=True)


class Runner:
    """Executes commands of messages as they stand, and keeps which."""

    def __init__(self, assay: Assay) -> None:
        self._assay = assay
        self.done: set[str] = set()

    def __call__(self, command: str, *values: object, code: int = 0) -> str:
        """Execute a command with these values in its gaps. Returns what it wrote."""
        assert command in {told.command for told in named()}, command
        filled = command
        for value in values:
            filled = re.sub(rf"{GAP}|\b(?:RUN|N)\b", str(value), filled, count=1)
        found, output, errors = self._assay(*words(filled)[1:])
        assert found == code, (filled, output, errors)
        self.done.add(command)
        return output + errors


def settings(folder: Path, anvil: Anvil, **more: str) -> None:
    rows = {"rpc_url": anvil.url, "password_file": "password", "data_dir": "data", **more}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in rows.items())
    (folder / "assay.toml").write_text(f"{text}chain_id = {anvil.chain_id}\n")
    (folder / "password").write_text("a password\n")
    (folder / "password").chmod(0o600)


@pytest.mark.timeout(600)
def test_remedies_work_as_they_stand(
    assay: Assay,
    start_anvil: Callable[..., Anvil],
    tried: Played,  # noqa: F811
    tmp_path: Path,
) -> None:
    """In the order in which someone meets them who begins with an empty folder and a chain."""
    run, anvil = Runner(assay), start_anvil()
    settings(tmp_path, anvil)
    web3 = Web3(Web3.HTTPProvider(anvil.url))
    address = re.search(r"0x[0-9a-fA-F]{40}", run("assay key new"))
    assert address is not None
    web3.provider.make_request("anvil_setBalance", [address[0], hex(10**21)])  # type: ignore[arg-type]
    deployment = tmp_path / f"deployments/{anvil.chain_id}.json"
    for command, value in (("deploy --portable", ""), (f"deploy --schedule {GAP}", "osaka"), ("deploy", "")):
        deployment.unlink(missing_ok=True)
        told = run(f"assay {command}", *([value] if value else []))
    listed = re.search(r"releases\W+(0x[0-9a-fA-F]{40})", told)
    assert listed is not None, told
    settings(tmp_path, anvil, releases=listed[1])
    assert "current" in run("assay release list")
    settings(tmp_path, anvil)
    run("assay verifier register")
    assert address[0] in run("assay verifier list")
    assert "leave" in run("assay verifier withdraw", code=2), "it has not left yet"
    run("assay quickstart FOLDER")
    for command in ("clocks show", "config show", "doctor", "job list"):
        run(f"assay {command}")
    of_a_job(run, tried, tmp_path)
    of_a_run(run, tmp_path)
    for command in ("calibrate", "data build"):
        run(f"assay {command} --help")
    whole = {told.command for told in named() if told.command.startswith("assay ")}
    whole = {command for command in whole if refused(words(given(command))[1:]) is None}
    assert whole - run.done == ENDLESS


def of_a_job(run: Runner, played: Played, folder: Path) -> None:
    """Execute what messages say about jobs, in a folder that is set up for the chain of one that is over."""
    settings(folder, played.arena._anvil, deployment="played.json")
    (folder / "played.json").write_text(played.pages().deployment())
    job = played.arena.job_id
    assert "accepted" in run(f"assay job show {GAP}", job)
    for command in (f"assay job watch {GAP}", f"assay job certificate {GAP}"):
        run(command, job)
    run(f"assay dispute show {GAP}", f"{job} {played.match:#066x}")


def of_a_run(run: Runner, folder: Path) -> None:
    published = publish(folder / "run", 6, 2)
    for command in ("assay audit RUN", "assay audit check RUN"):
        run(command, published)
    run("assay audit RUN --intervals N", published, 1)
