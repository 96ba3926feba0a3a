"""A run in a folder, stopped by any means at any point and resumed, is the run that nobody has stopped."""

from __future__ import annotations

import json
import random
import re
import resource
import signal
from pathlib import Path

import pytest
import repops

from referee_py.execute import Run
from referee_py.program.modes import Rounding
from tests.conftest import Assay
from trainer_node.local.bundle import Bundle
from trainer_node.local.run_folder import open_run
from trainer_node.storage.store import Store

from .growing import growing, start, stop_at

STEPS = 20_000


def honest_root(bundle: Bundle) -> str:
    return Run.of(bundle, repops.backend("cpu")).commit_run().root.hex()


def steps_in(folder: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_text().splitlines()]


def steps_in_part(folder: Path) -> list[bytes]:
    return (folder / "metrics.jsonl").read_bytes().splitlines()


def root_in(output: str) -> str:
    found = re.search(r"run root +([0-9a-f]{64})", output)
    assert found, output
    return found[1]


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A job, and the root of its uninterrupted run."""
    bundle = growing(STEPS, (1000, 100, 10, 1), factor=0.9999)
    return bundle.write(tmp_path_factory.mktemp("long") / "job"), honest_root(bundle)


def _interrupt(long: tuple[Path, str], out: Path, seed: int, signals: list[signal.Signals]) -> None:
    """Stop a run at random points, once by each signal; finish it, and compare."""
    job, root = long
    draw = random.Random(seed)
    points = sorted(draw.randrange(STEPS) for _ in signals)
    for point, number in zip(points, signals, strict=True):
        process = start(job, "--out", out, "--resume", "--keep-every", draw.choice([0.02, 60]))
        _, errors = stop_at(process, out / "metrics.jsonl", point, number)
        if number is signal.SIGINT and point:
            assert process.returncode in (0, 130), errors
            if process.returncode:
                assert "continue with: assay program run" in errors
                assert "Traceback" not in errors
    output, errors = start(job, "--out", out, "--resume").communicate(timeout=300)
    assert root_in(output) == root, errors
    assert steps_in(out) == list(range(1, STEPS + 1))


def test_killed_terminated_and_interrupted(long: tuple[Path, str], tmp_path: Path) -> None:
    _interrupt(long, tmp_path / "run", 1, [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_stopped_at_many_points(long: tuple[Path, str], tmp_path: Path, seed: int) -> None:
    signals = [signal.SIGKILL, signal.SIGINT, signal.SIGKILL, signal.SIGTERM, signal.SIGKILL]
    _interrupt(long, tmp_path / "run", seed, signals)


def test_a_stopped_run_says_how_to_go_on(assay: Assay, tmp_path: Path) -> None:
    job, out = growing(30, (10, 1)).write(tmp_path / "job"), tmp_path / "run"
    code, output, errors = assay("program", "run", job, "--out", out, "--steps", 13)
    assert (code, "run root" in output) == (0, False), errors
    assert steps_in(out) == list(range(1, 14))
    code, output, errors = assay("program", "run", job, "--out", out)
    assert (code, "--resume continues it" in errors) == (2, True)
    code, output, errors = assay("program", "run", job, "--out", out, "--resume")
    assert (code, "continuing after step 13 of 30" in errors) == (0, True), errors
    root = honest_root(Bundle.read(job))
    assert root_in(output) == root
    code, output, _ = assay("program", "run", job, "--out", out, "--resume")
    assert (root_in(output), "loss" in output) == (root, True), "a finished run is shown again"


def test_the_last_lines_of_a_crash_are_cut(assay: Assay, tmp_path: Path) -> None:
    job, out = growing(30, (10, 1)).write(tmp_path / "job"), tmp_path / "run"
    assert assay("program", "run", job, "--out", out, "--steps", 10)[0] == 0
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 11, "seconds": 1, "loss": 5}\n{"step": 12, "sec')
    assert assay("program", "run", job, "--out", out, "--resume", "--steps", 20)[0] == 0
    assert steps_in(out) == list(range(1, 21))
    (out / "metrics.jsonl").unlink()
    code, _, errors = assay("program", "run", job, "--out", out, "--resume")
    assert (code, "no lines for steps 1 to 20" in errors) == (0, True), errors
    assert steps_in(out) == list(range(21, 31))


def test_a_damaged_state_is_replaced_by_the_one_before(assay: Assay, tmp_path: Path) -> None:
    bundle = growing(30, (10, 1), factor=0.9)
    job, out = bundle.write(tmp_path / "job"), tmp_path / "run"
    assert assay("program", "run", job, "--out", out, "--steps", 25)[0] == 0
    with open_run(out, bundle.terms, "repops-f32", resume=True, keep_s=60) as folder:
        assert [known.step for known in folder.all()] == [10, 20, 25]
        (slot,) = folder.slots(25)
    damaged = next((out / "artifacts" / "tensor").rglob(slot.hex()))
    damaged.write_bytes(b"\0" * damaged.stat().st_size)
    code, output, errors = assay("program", "run", job, "--out", out, "--resume")
    assert (code, root_in(output)) == (0, honest_root(bundle)), errors
    assert steps_in(out) == list(range(1, 31))


@pytest.mark.parametrize(
    ("keep", "count"), [("last", 2), ("window:5", 5), ("every:3", 4), ("all", 10), ("every:200", 2)]
)
def test_only_the_states_asked_for_stay(assay: Assay, tmp_path: Path, keep: str, count: int) -> None:
    """Of ten checkpoints and of states between them; the constant and the initial state are published as well."""
    job, out = growing(100, (10, 1), factor=0.9).write(tmp_path / "job"), tmp_path / "run"
    assert assay("program", "run", job, "--out", out, "--keep-every", 0, "--keep", keep)[0] == 0
    tensors = [path for path in (Store(out / "artifacts").root / "tensor").rglob("*") if path.is_file()]
    assert len(tensors) == count + 2
    assert (out / "metrics.jsonl").read_text().count("\n") == 100


@pytest.mark.parametrize("keep", ["none", "every", "every:0", "window:-1", "last:3", "every:\u0663", "ALL"])
def test_other_states_cannot_be_asked_for(assay: Assay, tmp_path: Path, keep: str) -> None:
    job = growing(100, (10, 1), factor=0.9).write(tmp_path / "job")
    code, _, errors = assay("program", "run", job, "--out", tmp_path / "run", "--keep", keep)
    assert (code, "choose all, last, every:K or window:K" in " ".join(errors.split())) == (2, True), errors


def test_another_run_is_refused(assay: Assay, tmp_path: Path) -> None:
    job, out = growing(30, (10, 1)).write(tmp_path / "job"), tmp_path / "run"
    assert assay("program", "run", job, "--out", out, "--steps", 5)[0] == 0
    longer = growing(40, (10, 1)).write(tmp_path / "longer")
    other = growing(30, (10, 1), factor=2).write(tmp_path / "other")
    for arguments, words in (
        ((longer,), ("steps 30", "steps 40")),
        ((job, "--mode", "exact"), ("arithmetic repops-f32", "arithmetic exact")),
        ((other,), ("constant_root",)),
    ):
        code, _, errors = assay("program", "run", *arguments, "--out", out, "--resume")
        assert code == 2
        assert all(word in errors for word in words), errors
    code, _, errors = assay("program", "run", job, "--out", job)
    assert (code, "is a bundle" in errors) == (2, True)
    code, _, errors = assay("program", "run", job, "--resume")
    assert (code, "add --out RUN" in errors) == (2, True)
    code, _, errors = assay("program", "run", job, "--out", out, "--resume", "--no-root")
    assert (code, "leave out --no-root" in errors) == (2, True)
    with open_run(out, growing(30, (10, 1)).terms, "repops-f32", resume=True, keep_s=60):
        code, _, errors = assay("program", "run", job, "--out", out, "--resume")
    assert (code, "in use by another process" in errors) == (2, True)


def test_rounding_logs_go_on(assay: Assay, tmp_path: Path) -> None:
    bundle = growing(30, (10, 1), factor=0.9).with_mode(Rounding().mode)
    job, out = bundle.write(tmp_path / "job"), tmp_path / "run"
    code, whole, errors = assay("program", "run", job, "--evaluator", "numpy")
    assert code == 0, errors
    assert assay("program", "run", job, "--evaluator", "numpy", "--out", out, "--steps", 13)[0] == 0
    code, output, errors = assay("program", "run", job, "--evaluator", "numpy", "--out", out, "--resume")
    assert code == 0, errors
    logs = re.compile(r"rounding logs .*")
    assert (root_in(output), logs.findall(output)) == (root_in(whole), logs.findall(whole))


@pytest.mark.parametrize(
    "limit", [300, *(pytest.param(size, marks=pytest.mark.slow) for size in (40_000, 200_000))]
)
def test_a_full_disk_is_said_and_loses_nothing(tmp_path: Path, limit: int) -> None:
    """A limit on the size of files makes the system refuse writes, as a full disk does."""
    bundle = growing(6000, (1000, 10, 1), factor=0.999)
    job, out = bundle.write(tmp_path / "job"), tmp_path / "run"

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    process = start(job, "--out", out, preexec_fn=limited)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2, errors
    assert "Traceback" not in errors
    assert f"cannot write to {out}" in errors.replace("\n", "")
    assert limit < 200_000 or len(steps_in_part(out)) > 1000, "the file of metrics was refused in the middle"
    output, errors = start(job, "--out", out, "--resume").communicate(timeout=300)
    assert root_in(output) == honest_root(bundle), errors
    assert steps_in(out) == list(range(1, 6001))


def test_a_damaged_folder_is_said_to_be_damaged(assay: Assay, tmp_path: Path) -> None:
    growing(40, (10, 1)).write(tmp_path / "job")
    assert assay("program", "run", "job", "--out", "run", "--steps", 20)[0] == 0
    database, known = tmp_path / "run" / "state.sqlite3", tmp_path / "run" / "run.json"
    said = known.read_bytes()
    for text in (b"[" * 200_000, b"\xff", b"[]"):
        known.write_bytes(text)
        code, _, errors = assay("program", "run", "job", "--out", "run", "--resume")
        assert (code, "does not say what is run" in errors) == (2, True), errors
    known.write_bytes(said)
    data = database.read_bytes()
    database.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    code, _, errors = assay("program", "run", "job", "--out", "run", "--resume")
    assert (code, "remove it and continue with" in errors) == (2, True), errors
    database.unlink()
    assert assay("program", "run", "job", "--out", "run", "--resume")[0] == 0
    assert steps_in(tmp_path / "run") == list(range(1, 41))
