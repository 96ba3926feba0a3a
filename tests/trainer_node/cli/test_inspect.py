"""`assay program show`, `stats`, `diff`, `canonicalise`: bundles and files, good and hostile."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repops

from referee_py.commit.tensor import Array
from referee_py.execute import Run
from referee_py.program import Program
from referee_py.program.canonical import canonical_program, canonical_skeleton
from referee_py.program.read import read_program
from referee_py.program.terms import Terms
from tests.conftest import Assay
from tests.referee_py.program import tiny
from trainer_node.local.bundle import Bundle

LABELS = {
    "nodes": [f"layer {k}" for k in range(15)],
    "slots": ["weight", "velocity"],
    "constants": ["data.order", "data.x", "data.y"],
    "metrics": {"error": [6, 0]},
}


def bundle(program: Program | None = None, steps: int = 12, labels: object = None) -> Bundle:
    constants, initial = tiny.tensors()
    program = program or tiny.program()
    terms = Terms.of(program, steps, (4, 1))
    return Bundle("line", program, terms, tuple(constants), tuple(initial), labels or LABELS)  # type: ignore[arg-type]


@pytest.fixture
def job(assay: Assay, tmp_path: Path) -> Path:
    return bundle().write(tmp_path / "job")


def test_show_checks_and_lists(assay: Assay, job: Path) -> None:
    code, output, errors = assay("program", "show", job)
    assert code == 0, errors
    for expected in (bundle().terms.hash().hex(), "15", "4, 1", "error", bundle().program.file_hash().hex()):
        assert expected in output
    assert "layer" not in output
    code, output, _ = assay("program", "show", job, "--op", "mm")
    assert [line.split()[:2] for line in output.splitlines() if "layer" in line] == [["5", "mm"], ["8", "mm"]]
    code, output, _ = assay("program", "show", job, "--nodes", "--from", "3", "--count", "2")
    assert [line.split()[0] for line in output.splitlines() if "layer" in line] == ["3", "4"]
    assert "10 more" in output
    code, output, _ = assay("program", "show", job, "--nodes", "--count", "0")
    assert output.count("layer") == 15
    assert "data.order" in output


@pytest.mark.parametrize("kind", ["program", "skeleton"])
def test_files_are_shown_as_bundles_are(assay: Assay, tmp_path: Path, kind: str) -> None:
    program = tiny.program()
    graph: Any = program
    if kind == "skeleton":
        skeleton = program.skeleton
        graph = skeleton() if callable(skeleton) else skeleton
    (tmp_path / "file").write_bytes(graph.to_bytes())
    code, output, errors = assay("program", "show", "file", "--nodes")
    assert (code, program.structure_root.hex() in output, "slot:0" in output) == (0, True, True), errors
    code, output, errors = assay("program", "stats", "file")
    assert (code, "48" in output) == (0, True), errors


def test_stats(assay: Assay, job: Path) -> None:
    code, output, errors = assay("program", "stats", job, "--largest", "1")
    assert code == 0, errors
    assert "2 slots, 6 elements, 24 bytes" in output
    assert "48 bytes" in output.split("largest tensors")[1]
    assert "%3 take f32[4, 3]" in output


def test_diff_says_what_and_exits_with_one(assay: Assay, job: Path, tmp_path: Path) -> None:
    assert assay("program", "diff", job, job)[:2] == (0, "the same program\n")
    old = tiny.program().nodes[12]
    rate = type(old).make("full", (), old.outputs, **{**old.attrs, "bits": tiny.f32_bits(0.25)})
    nodes = (*tiny.program().nodes[:12], rate, *tiny.program().nodes[13:])
    other = bundle(dataclasses.replace(tiny.program(), nodes=nodes), steps=8).write(tmp_path / "other")
    code, output, _ = assay("program", "diff", job, other)
    assert code == 1
    for expected in (
        "hyperparameters",
        "layer 12",
        "- 0.05",
        "+ 0.25",
        "steps",
        "- 12",
        "+ 8",
        "the same graph",
    ):
        assert expected in output
    code, output, _ = assay("program", "diff", job, job / "program.cbor")
    assert (code, "the same program" in output) == (0, True), "a file has no terms to compare"
    assert assay("program", "diff", job, tmp_path / "nowhere")[0] == 2


def test_a_canonical_bundle_runs_to_the_same_state_and_keeps_its_names(assay: Assay, job: Path) -> None:
    code, _, errors = assay("program", "canonicalise", job, "form")
    assert code == 0, errors
    before, after = Bundle.read(job), Bundle.read(Path("form"))

    def final(of: Bundle) -> list[bytes]:
        run = Run(of.program, of.constants, of.initial, 12, (1,), repops.backend("reference"))
        return run.advance(run.initial(), 12).slot_hashes()

    assert final(after) == final(before)
    assert after.labels["slots"] == before.labels["slots"]
    assert sorted(after.labels["constants"]) == sorted(before.labels["constants"])
    named: dict[str, Array] = dict(zip(after.labels["constants"], after.constants, strict=True))
    np.testing.assert_array_equal(named["data.x"], before.constants[1])
    place = after.metrics["error"]
    assert after.program.nodes[place.node].name == before.program.nodes[6].name
    assert after.labels["nodes"][place.node] == "layer 6"
    assert assay("program", "canonicalise", "form", "again")[0] == 0
    assert assay("program", "diff", "form", "again")[:2] == (0, "the same program\n")
    code, _, errors = assay("program", "canonicalise", job / "program.cbor", "form.cbor")
    assert code == 0, errors
    assert read_program(Path("form.cbor").read_bytes()) == canonical_program(before.program)[0]


def test_a_program_is_shown_as_json(assay: Assay, job: Path) -> None:
    code, output, errors = assay("program", "show", job, "--json", "--nodes", "--from", "3", "--count", "2")
    told = json.loads(output)
    assert (code, told["nodes"], told["program hash"]) == (0, 15, Bundle.read(job).terms.hash().hex()), errors
    assert [node["node"] for node in told["listed"]] == [3, 4]
    assert "listed" not in json.loads(assay("program", "show", job, "--json")[1])


def test_a_skeleton_has_a_canonical_form(assay: Assay, tmp_path: Path) -> None:
    """That of the skeleton, which knows no constants' values and so merges none of them."""
    skeleton = tiny.program().skeleton
    (tmp_path / "skeleton").write_bytes(skeleton.to_bytes())
    code, _, errors = assay("program", "canonicalise", "skeleton", "form")
    assert code == 0, errors
    assert (tmp_path / "form").read_bytes() == canonical_skeleton(skeleton).skeleton.to_bytes()
    assert assay("program", "canonicalise", "form", "again")[0] == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "form").read_bytes()


HOSTILE = {
    "nothing": b"",
    "break": b"\xff",
    "map": b"\xa0",
    "nested": b"\x80" * 100,
    "zip": b"PK\x03\x04",
    "noise": hashlib.sha512(b"noise").digest(),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("command", ["show", "stats", "canonicalise"])
def test_a_hostile_file_is_one_line_of_error(assay: Assay, tmp_path: Path, data: bytes, command: str) -> None:
    (tmp_path / "file").write_bytes(data)
    more = ("other",) if command == "canonicalise" else ()
    code, output, errors = assay("program", command, "file", *more)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert assay("program", "diff", "file", "file")[0] == 2


@pytest.mark.parametrize("name", ["job.json", "labels.json"])
@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"format":' * 100_000, "NaN", '{"format": 1', "\ud800", "1e999"]
)
def test_a_hostile_bundle_is_one_line_of_error(assay: Assay, job: Path, name: str, text: str) -> None:
    """Deep nesting too: a library that nodes use raises Python's limit so far that its JSON parser would crash."""
    (job / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    code, output, errors = assay("program", "show", job)
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert len(errors) < 1000


def test_hostile_labels_reach_neither_the_terminal_nor_the_reader(assay: Assay, job: Path) -> None:
    path = job / "labels.json"
    for labels in (
        {"format": 1, "nodes": ["\x1b[2J[bold]" + "x" * 10_000] * 15, "metrics": {"\x1b": [0, 0]}},
        {"format": 1, "nodes": 7, "slots": {"a": 1}, "constants": ["one"], "metrics": [1, 2]},
        {"format": 1, "metrics": {"loss": [1 << 70, 0], "other": [0, 5], "third": None}},
    ):
        path.write_text(json.dumps(labels))
        code, output, errors = assay("program", "show", job, "--nodes", "--count", "3")
        assert (code, "\x1b" in output) == (0, False), errors
        assert len(output) < 4000
        assert assay("program", "stats", job)[0] == 0


RUN = """
import sys
sys.modules["torch"] = None  # an import of it fails
from pathlib import Path
import repops
from referee_py.execute import Metrics, Run
from trainer_node.local.bundle import Bundle
bundle = Bundle.read(Path(sys.argv[1]))
metrics = Metrics(bundle.metrics)
terms = bundle.terms
cpu = repops.backend("cpu")
run = Run.of(bundle, cpu, hook=metrics)
print(run.commit_run().root.hex())
from trainer_node.cli.app import application
application([], complete=True)
loaded = {name.split(".")[0] for name, module in sys.modules.items() if module is not None}
assert not loaded & {"torch", "onnx", "transformers", "sklearn"}, loaded
"""


def test_a_bundle_is_executed_without_torch(job: Path) -> None:
    """A node needs only the file: another version of torch, or none, runs the same program."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    result = subprocess.run(
        [sys.executable, "-c", RUN, str(job)], env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    given = bundle()
    run = Run(given.program, given.constants, given.initial, 12, (4, 1), repops.backend("reference"))
    assert result.stdout.strip() == run.commit_run().root.hex()
