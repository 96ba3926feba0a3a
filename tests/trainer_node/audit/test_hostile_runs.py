"""Whatever a publisher sends instead of its run is UNCHECKED or refused: never a MATCH, never a false alarm."""

from __future__ import annotations

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest

from referee_py.errors import AssayError, Unavailable
from referee_py.program.read import read_program
from referee_py.program.terms import Terms
from tests.trainer_node.cli.growing import growing
from trainer_node.audit.address import TRIES, Address
from trainer_node.audit.interval import Auditor, Finding, Verdict, computes
from trainer_node.audit.published import PublishedRun
from trainer_node.local.run_folder import KeepRule, open_run
from trainer_node.run.modes import backend_of
from trainer_node.run.replay import Replay
from trainer_node.storage.store import Store

from . import hostile as bad

STEPS, STRIDE = 12, 3
MEMORY = 1 << 26


def many_intervals(run: Path) -> None:
    """Claim more steps than a list can hold, in terms that fit the program."""
    told = json.loads((run / "claim.json").read_text())
    file = told["program_file"]
    program = read_program((run / "artifacts/blob" / file[:2] / file).read_bytes())
    steps = (1 << 48) - 1
    hashed = Terms.of(program, steps, told["strides"], told["mode"]).hash().hex()
    bad.claim(steps=steps, program_hash=hashed)(run)


FOLDERS = {
    "no claim": lambda run: (run / "claim.json").unlink(),
    "an empty claim": bad.text(lambda _: ""),
    "a claim cut": bad.text(lambda text: text[:-10]),
    "a claim of brackets": bad.text(lambda _: "[" * 100_000),
    "a claim that is a list": bad.text(lambda text: f"[{text}]"),
    "a claim beyond its limit": bad.text(lambda text: text + " " * (17 << 20)),
    "a claim of other bytes": bad.text(lambda _: b"\xff\xfe" * 100),
    "a claim as a pipe": lambda run: bad.pipe(run / "claim.json"),
    "an endless claim": lambda run: bad.endless(run / "claim.json"),
    "a folder as claim": lambda run: bad.folder(run / "claim.json"),
    "a claim that leads to itself": lambda run: bad.loop(run / "claim.json"),
    "a field too many": bad.claim(more=1),
    "no root": bad.claim(root=None),
    "another root": bad.claim(root="ab" * 32),
    "a root in capitals": bad.claim(root=lambda told: told["root"].upper()),
    "a root as a path": bad.claim(root="../" * 21 + "a"),
    "another format": bad.claim(format=2),
    "a mode that there is not": bad.claim(mode=77),
    "another mode": bad.claim(mode=2),
    "no steps": bad.claim(steps=0),
    "too many steps": bad.claim(steps=(1 << 48) - 1),
    "more intervals than memory": many_intervals,
    "steps beyond all numbers": bad.claim(steps=10**400),
    "steps that are no number": bad.text(lambda text: text.replace(f'"steps": {STEPS}', '"steps": NaN')),
    "steps with a fraction": bad.claim(steps=STEPS + 0.5),
    "strides that grow": bad.claim(strides=[1, 3]),
    "a stride of zero": bad.claim(strides=[0]),
    "no stride": bad.claim(strides=[]),
    "another stride": bad.claim(strides=[2, 1]),
    "another last checkpoint": bad.claim(last="cd" * 32),
    "a path that is too long": bad.claim(path=lambda told: [*told["path"], "00" * 32]),
    "another program": bad.claim(program_file="12" * 32),
    "another program hash": bad.claim(program_hash="34" * 32),
    "no program": bad.every("blob", Path.unlink),
    "a program cut": bad.every("blob", bad.cut),
    "a program changed": bad.every("blob", bad.flip),
    "a program without end": bad.every("blob", bad.endless),
    "no trees": bad.every("tree", Path.unlink),
    "trees cut": bad.every("tree", bad.cut),
    "trees changed": bad.every("tree", bad.flip),
    "trees longer": bad.every("tree", bad.longer),
    "trees without size": bad.every("tree", bad.huge),
    "trees swapped": bad.swapped("tree"),
    "trees as pipes": bad.every("tree", bad.pipe),
    "no records": bad.every("record", Path.unlink),
    "records changed": bad.every("record", bad.flip),
    "records swapped": bad.swapped("record"),
    "empty records": bad.every("record", bad.empty),
    "records without end": bad.every("record", bad.endless),
    "no tensors": bad.every("tensor", Path.unlink),
    "tensors cut": bad.every("tensor", bad.cut),
    "tensors changed": bad.every("tensor", bad.flip),
    "tensors longer": bad.every("tensor", bad.longer),
    "tensors without size": bad.every("tensor", bad.huge),
    "tensors swapped": bad.swapped("tensor"),
    "tensors with another NaN": bad.every("tensor", bad.nan),
    "tensors with names in capitals": bad.every("tensor", bad.upper),
    "folders as tensors": bad.every("tensor", bad.folder),
}

SERVERS = [
    *(bad.breaks_off, bad.says_less, bad.bomb, bad.floods, bad.drips, bad.sleeps),
    bad.drips_headers,
    *(bad.hangs_up, bad.redirects, bad.fails, bad.junk, bad.unpacked),
]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published run with random numbers that keeps all its checkpoints."""
    rng = np.random.default_rng()
    bundle = growing(STEPS, (STRIDE, 1), factor=float(rng.uniform(0.9, 1.1)), begin=float(rng.uniform(1, 2)))
    folder = tmp_path_factory.mktemp("published") / "run"
    keeps = KeepRule(every=1)
    with open_run(folder, bundle.terms, "repops-f32", resume=False, keep_s=60, keeps=keeps) as opened:
        replay = Replay(bundle, backend_of("cpu"), opened.store, opened)
        opened.publish(bundle, replay.train(due=opened.due))
    return folder


def audited(address: str, cache: Path, timeout_s: float) -> list[Finding]:
    """Check all intervals; nothing if the run is refused."""
    try:
        run = PublishedRun(Address(address, timeout_s=timeout_s, min_rate=1e8), Store(cache, sync=False))
        auditor = Auditor(run, MEMORY, computes(run.terms.mode))
    except AssayError:
        return []
    return [auditor.check(interval) for interval in range(1, run.count + 1)]


def in_time(address: str, cache: Path, timeout_s: float = 10.0) -> list[Finding]:
    """As `audited`, in a thread: what hangs fails."""
    found: list[list[Finding]] = []
    thread = threading.Thread(target=lambda: found.append(audited(address, cache, timeout_s)), daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it hangs, or ends with an error that is not ours"
    return found[0]


def expect_no_verdict(findings: list[Finding]) -> None:
    assert all(finding.verdict is not Verdict.DIFFERS for finding in findings), findings
    assert not findings or any(finding.verdict is Verdict.UNCHECKED for finding in findings), findings
    assert all(finding.reason for finding in findings if finding.verdict is Verdict.UNCHECKED)


def test_an_honest_run_matches(honest: Path, tmp_path: Path) -> None:
    with bad.served(honest, "nothing", bad.plain) as address:
        for k, place in enumerate((str(honest), address)):
            findings = in_time(place, tmp_path / str(k))
            assert [finding.verdict for finding in findings] == [Verdict.MATCH] * (STEPS // STRIDE)


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_damaged_folder_gives_no_verdict(honest: Path, tmp_path: Path, kind: str) -> None:
    run = shutil.copytree(honest, tmp_path / "run")
    FOLDERS[kind](run)
    expect_no_verdict(in_time(str(run), tmp_path / "cache"))


@pytest.mark.parametrize("serve", SERVERS, ids=lambda serve: serve.__name__)
@pytest.mark.parametrize("victim", ["claim.json", "/blob/", "/tree/", "/record/", "/tensor/"])
def test_a_hostile_server_gives_no_verdict(
    honest: Path, tmp_path: Path, victim: str, serve: bad.Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.audit.address.WAIT_S", 0.01)
    with bad.served(honest, victim, serve) as address:
        expect_no_verdict(in_time(address, tmp_path / "cache", timeout_s=0.5))


def test_a_claim_that_changes_is_not_the_one_that_was_checked(honest: Path, tmp_path: Path) -> None:
    other = shutil.copytree(honest, tmp_path / "other")
    bad.claim(name="another")(other)
    root = PublishedRun(Address(str(honest)), Store(tmp_path / "a", sync=False)).root
    with pytest.raises(AssayError, match="not"):
        PublishedRun(Address(str(honest)), Store(tmp_path / "b", sync=False), bytes(32))
    assert PublishedRun(Address(str(other)), Store(tmp_path / "c", sync=False), root).root == root


def once(serve: bad.Serve, times: int = 1) -> bad.Serve:
    """Return what answers the first requests for a file so, and then as it should."""
    return lambda handler, data, number: (serve if number <= times else bad.plain)(handler, data, number)


@pytest.mark.parametrize("serve", [bad.fails, bad.hangs_up, bad.breaks_off], ids=lambda serve: serve.__name__)
@pytest.mark.parametrize("victim", ["claim.json", "/tree/", "/tensor/"])
def test_a_request_that_fails_is_made_again(
    honest: Path, tmp_path: Path, victim: str, serve: bad.Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_node.audit.address.WAIT_S", 0.01)
    with bad.served(honest, victim, once(serve)) as address:
        findings = in_time(address, tmp_path / "cache")
    assert [finding.verdict for finding in findings] == [Verdict.MATCH] * (STEPS // STRIDE)
    # NOTE: where the server hangs up, the library asks again by itself.
    with bad.served(honest, victim, once(serve, 10 * TRIES)) as address:
        expect_no_verdict(in_time(address, tmp_path / "other"))


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (bad.redirects, "redirects to '/copy/claim.json'; redirects are not followed"),
        (bad.unpacked, "sends its files compressed ('gzip')"),
        (bad.fails, "500"),
    ],
)
def test_a_server_that_answers_something_else_is_named(
    honest: Path, tmp_path: Path, serve: bad.Serve, words: str
) -> None:
    with bad.served(honest, "claim.json", serve) as address, pytest.raises(Unavailable) as error:
        PublishedRun(Address(address), Store(tmp_path / "cache", sync=False))
    assert words in str(error.value)


def test_a_server_is_not_asked_for_compressed_files(honest: Path, tmp_path: Path) -> None:
    asked = list[str | None]()

    def serve(handler: BaseHTTPRequestHandler, data: bytes, number: int) -> None:
        asked.append(handler.headers.get("Accept-Encoding"))
        bad.plain(handler, data, number)

    with bad.served(honest, "claim.json", serve) as address:
        PublishedRun(Address(address), Store(tmp_path / "cache", sync=False))
    assert asked == ["identity"]
