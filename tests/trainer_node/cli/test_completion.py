"""What a shell completes: recipes, faults and scenarios, numbers of jobs, and nothing where the chain is silent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from assay_capture.recipe_names import DIGITS, MODELS
from assay_lab.names import Fault, Scenario
from tests.conftest import Anvil, Assay
from tests.trainer_node.cli.test_cli import bundle, import_key
from trainer_node.operate.quickstart import free_port


@pytest.fixture
def completed(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> Assay:
    """Return what completes a line of a shell, as bash gets it: exit code, words, and what is written besides."""
    monkeypatch.setenv("_ASSAY_COMPLETE", "complete_bash")

    def complete(*line: object) -> tuple[int, str, str]:
        (words,) = line
        monkeypatch.setenv("COMP_WORDS", str(words))
        monkeypatch.setenv("COMP_CWORD", str(str(words).count(" ")))
        return assay()

    return complete


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("assay program build ", {*DIGITS, *MODELS}),
        ("assay program build gpt2-t", {"gpt2-tiny", "gpt2-tiny-bf16"}),
        ("assay program build mine.py", set[str]()),
        ("assay demo --fault ", {*Fault, "all"}),
        ("assay demo --fault wrong-", {fault for fault in Fault if fault.startswith("wrong-")}),
        ("assay demo --scenario l", {scenario for scenario in Scenario if scenario.startswith("l")}),
        ("assay lab trainer --fault st", {"stale-weights"}),
    ],
)
def test_names_are_completed(completed: Assay, line: str, expected: set[str]) -> None:
    code, words, errors = completed(line)
    assert (code, set(words.split()), errors) == (0, expected, "")


def test_recipes_are_known_without_torch() -> None:
    """It takes seconds to load, and somebody waits at a prompt."""
    look = "import sys, assay_capture.cli.build; print('torch' in sys.modules, 'web3' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.parametrize("line", ["assay job show ", "assay dispute show ", "assay explorer check "])
def test_without_a_chain_no_job_is_offered_and_nothing_is_said(completed: Assay, line: str) -> None:
    code, words, errors = completed(line)
    assert (code, words.split(), errors) == (0, [], "")


def test_a_file_of_settings_that_is_wrong_says_nothing_at_the_prompt(
    completed: Assay, tmp_path: Path
) -> None:
    (tmp_path / "assay.toml").write_text("rpc_url = [")
    code, words, errors = completed("assay job show ")
    assert (code, words.split(), errors) == (0, [], "")


def test_jobs_of_the_configured_chain_are_completed_and_the_explorer_alone_serves_them(
    assay: Assay, anvil: Anvil, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One chain and one file of settings for both."""
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    import_key(assay, anvil, monkeypatch, tmp_path)
    code, _, errors = assay("deploy", "--min-period", "2", "--commit-age", "1")
    assert code == 0, errors
    for steps in (1, 2):
        post = ("job", "post", str(bundle().write(tmp_path / f"job {steps}")), "--port", "9000")
        code, _, errors = assay(*post, "--court-only")
        assert code == 0, errors
    monkeypatch.delenv("ASSAY_RPC_URL")
    (tmp_path / "assay.toml").write_text(f'rpc_url = "{anvil.url}"\n')

    monkeypatch.setenv("_ASSAY_COMPLETE", "complete_bash")
    for line, expected in (("job show ", ["2", "1"]), ("explorer check 2", ["2"]), ("job show 7", [])):
        monkeypatch.setenv("COMP_WORDS", f"assay {line}")
        monkeypatch.setenv("COMP_CWORD", str(1 + line.count(" ")))
        code, words, errors = assay()
        assert (code, words.split(), errors) == (0, expected, "")
    monkeypatch.delenv("_ASSAY_COMPLETE")

    command = [sys.executable, "-m", "trainer_node.cli", "explorer", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as explorer:
        try:
            assert explorer.stdout is not None
            address = explorer.stdout.readline().strip()
            page = httpx.get(address, timeout=60).text
        finally:
            explorer.terminate()
    assert "/job/1" in page
    assert "/job/2" in page


def test_the_explorer_alone_is_a_command(assay: Assay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without words it asks the chain of the settings; here nothing is there."""
    monkeypatch.setenv("ASSAY_RPC_URL", f"http://127.0.0.1:{free_port()}")
    code, _, errors = assay("explorer")
    assert code == 2
    assert "Missing command" not in errors
    assert "name another endpoint in rpc_url" in errors
