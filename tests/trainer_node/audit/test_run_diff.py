"""Pairs of runs with one planted difference each: `assay run diff` finds it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from repops.opset import F32

from assay_lab.faults.executors import executor_of
from assay_lab.faults.kinds import Target
from assay_lab.names import Fault
from referee_py.commit.tensor import Array
from referee_py.execute import Executor
from referee_py.program import Program, Structure, TensorDescriptor
from referee_py.program.modes import EXACT, REPOPS_F32
from referee_py.program.terms import Terms
from tests.conftest import Assay
from tests.referee_py.program import tiny
from tests.trainer_node.cli.growing import growing
from trainer_node.audit.address import Address
from trainer_node.audit.published import PublishedRun
from trainer_node.cli.arithmetic import mode_words
from trainer_node.local.bundle import Bundle
from trainer_node.local.local_run import LocalRun
from trainer_node.local.run_folder import KeepRule, open_run
from trainer_node.run.modes import backend_of
from trainer_node.run.replay import Replay
from trainer_node.storage.store import Store

LABELS = {
    "nodes": [f"layer {k}" for k in range(15)],
    "slots": ["weight", "velocity"],
    "constants": ["data.order", "data.x", "data.y"],
    "metrics": {"error": [6, 0]},
}
STRIDES, RATE = (4, 1), 12
Change = Callable[[list[Array], list[Array]], None]


def line(
    change: Change = lambda *_: None,
    *,
    steps: int = tiny.STEPS,
    strides: tuple[int, ...] = STRIDES,
    mode: int = REPOPS_F32.byte,
    rate: float = 0.05,
) -> Bundle:
    """Return the tiny program with changed tensors, rate or terms."""
    constants, initial = tiny.tensors()
    change(constants, initial)
    program = tiny.program()
    nodes = list(program.nodes)
    nodes[RATE] = Structure.make(
        "full", (), nodes[RATE].outputs, shape=(), dtype=F32, bits=tiny.f32_bits(rate)
    )
    told = tuple(map(TensorDescriptor.of, constants)), tuple(map(TensorDescriptor.of, initial))
    program = Program(tuple(nodes), program.slots, *told)
    terms = Terms.of(program, steps, strides, mode)
    return Bundle("line", program, terms, tuple(constants), tuple(initial), LABELS)


class _Lying(Replay):
    """A run that gets one element of a node wrong from a step on."""

    lie = (0, 0)

    def _executor(self) -> Executor | None:
        step, node = self.lie
        tensors = self.program, self._package.constants, self._package.initial
        return executor_of(Fault.WRONG_OP_OUTPUT, Target(*tensors, self._backend, step, node))


def run_of(bundle: Bundle, folder: Path, lie: tuple[int, int] | None = None) -> Path:
    """Compute a run into a folder, as `assay program run` does, or with a lie (step, node), and publish all of it."""
    terms = bundle.terms
    made = open_run(folder, terms, mode_words(terms.mode), resume=False, keep_s=60, keeps=KeepRule(every=1))
    with made as opened:
        if lie is None:
            run = LocalRun(bundle, terms.steps, folder=opened)
            run.compute(lambda state, told: opened.metrics.append(state.step, 1.0, told), lambda: False)
            return folder
        kind = type("Lying", (_Lying,), {"lie": lie})
        replay = kind(bundle, backend_of("cpu"), opened.store, opened)
        opened.publish(bundle, replay.train(due=opened.due))
        opened.show(replay, -(-lie[0] // STRIDES[0]), *lie)
    return folder


def _set(kind: int, number: int, index: tuple[int, ...], value: float) -> Change:
    def change(*tensors: list[Array]) -> None:
        tensors[kind][number][index] = value

    return change


@dataclass(frozen=True)
class Pair:
    """A planted difference: how the second run comes about, and what must be told of it."""

    name: str
    make: Callable[[Path], Path]
    finds: dict[str, Any]
    kinds: tuple[str, ...] = ()
    """Kinds of configuration that must be listed, and no others."""


def _bundle(**options: Any) -> Callable[[Path], Path]:
    return lambda folder: run_of(line(**options), folder)


def _lie(step: int, node: int) -> Pair:
    end = -(-step // STRIDES[0]) * STRIDES[0]
    finds = {"start": end - STRIDES[0], "end": end, "step": step, "node": node, "output": 0}
    return Pair(
        f"lie in step {step}, node {node}", lambda folder: run_of(line(), folder, (step, node)), finds
    )


def _first_use(example: int) -> int:
    """Return the first step that takes an example."""
    order = tiny.tensors()[0][tiny.ORDER]
    return next(k for k, row in enumerate(order, 1) if example in row)


def _data(what: str, constant: int, example: int) -> Pair:
    change, step = _set(0, constant, (example, 0), 9.5), _first_use(example)
    return Pair(f"{what} of example {example}", _bundle(change=change), {"step": step}, ("data",))


LIES = [
    _lie(step, node) for step, node in ((1, 8), (2, 5), (4, 14), (5, 6), (7, 8), (8, 9), (10, 3), (12, 14))
]
DATA = [
    _data("label", tiny.Y, 3),
    _data("label", tiny.Y, 11),
    _data("input", tiny.X, 0),
    _data("input", tiny.X, 7),
]
OTHERS = [
    Pair("order of one batch", _bundle(change=_set(0, tiny.ORDER, (6, 0), 15)), {"step": 7}, ("data",)),
    Pair("order of the last batch", _bundle(change=_set(0, tiny.ORDER, (11, 3), 2)), {"step": 12}, ("data",)),
    Pair(
        "initial weight", _bundle(change=_set(1, 0, (2, 0), 0.25)), {"step": 1, "node": 5}, ("initial state",)
    ),
    Pair("initial velocity", _bundle(change=_set(1, 1, (1, 0), 0.5)), {"step": 1}, ("initial state",)),
    Pair("learning rate", _bundle(rate=0.25), {"step": 1, "operator": "full"}, ("hyperparameters",)),
    Pair("number of steps", _bundle(steps=8), {}, ("terms",)),
    Pair("strides", _bundle(strides=(2, 1)), {}, ("terms",)),
    Pair("arithmetic", _bundle(mode=EXACT.byte), {}, ("terms",)),
]
PAIRS = [*LIES, *DATA, *OTHERS]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(line(), tmp_path_factory.mktemp("honest") / "run")


def told(assay: Assay, *words: object, code: int = 1) -> dict[str, Any]:
    done, output, errors = assay("run", "diff", *words, "--json")
    assert done == code, errors or output
    found: dict[str, Any] = json.loads(output)
    return found


def test_there_are_twenty_pairs() -> None:
    assert len(PAIRS) == 20


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_planted_difference_is_found(assay: Assay, honest: Path, tmp_path: Path, pair: Pair) -> None:
    other = pair.make(tmp_path / "other")
    found = told(assay, honest, other)
    kinds = tuple(kind for kind, differs in found["configuration"].items() if differs and kind != "claims")
    assert kinds == pair.kinds
    if pair.finds:
        place = {name: found["place"][name] for name in pair.finds}
        assert place == pair.finds, found["place"]
    claims = [json.loads((folder / "claim.json").read_text()) for folder in (honest, other)]
    last = "checkpoint after the last step", claims[0]["last"], claims[1]["last"]
    listed = [tuple(one.values()) for one in found["configuration"]["claims"]]
    assert (last in listed) == (claims[0]["last"] != claims[1]["last"])
    swapped = told(assay, other, honest)
    if pair in LIES:
        assert "B claims what its program does not compute" in found["place"]["note"]
        assert "A claims what its program does not compute" in swapped["place"]["note"]
    if found["place"] is not None and found["place"]["element"] is not None:
        assert found["place"]["first"] != found["place"]["second"]
        pairs = found["place"]["first"], found["place"]["second"]
        assert (swapped["place"]["second"], swapped["place"]["first"]) == pairs


def test_equal_runs_are_equal(assay: Assay, honest: Path, tmp_path: Path) -> None:
    again = run_of(line(), tmp_path / "again")
    assert told(assay, honest, again, code=0)["same"] is True
    code, output, _ = assay("run", "diff", honest, again)
    assert (code, output.splitlines()[-1]) == (
        0,
        "no difference (configuration and claims compared)",
    )


def test_lines_for_people(assay: Assay, honest: Path, tmp_path: Path) -> None:
    other = run_of(line(change=_set(0, tiny.Y, (3, 0), 9.5), rate=0.25), tmp_path / "other")
    job = line().write(tmp_path / "job")
    code, output, errors = assay("run", "diff", honest, other, "--bundle", job)
    assert code == 1, errors
    assert "hyperparameters: node 12 (layer 12): A 0.05, B 0.25" in output
    assert "data: constant 2 (data.y), element 3 (1 differ)" in output
    assert "first at step 1, operator 4 (take, layer 4), output 0, element 3: A -1.4217154, B 9.5" in output


def test_metrics_are_compared(assay: Assay, tmp_path: Path) -> None:
    runs = [run_of(growing(8, (4, 1), factor), tmp_path / str(factor)) for factor in (1.0, 1.5)]
    step, differs = told(assay, *runs)["metric"]
    assert (step, differs) == (1, {"what": "loss", "first": "4.0", "second": "6.0"})


def test_a_lie_that_is_not_published_is_found_as_an_interval(
    assay: Assay, honest: Path, tmp_path: Path
) -> None:
    other = run_of(line(), tmp_path / "other", (6, 8))
    claim = json.loads((other / "claim.json").read_text())
    (other / "claim.json").write_text(json.dumps({**claim, "refinements": []}))
    place = told(assay, honest, other)["place"]
    assert (place["start"], place["end"], place["step"]) == (4, 8, None)
    assert "B claims what its program does not compute: the search ends here" in place["note"]
    assert told(assay, honest, other, "--no-replay")["place"]["note"].startswith("nothing was replayed")


def test_claims_and_bundles_alone(assay: Assay, honest: Path, tmp_path: Path) -> None:
    other = run_of(line(rate=0.25), tmp_path / "other")
    found = told(assay, honest / "claim.json", other / "claim.json")
    assert found["configuration"]["program"]
    assert found["place"]["note"] == "of a claim alone only the root is known"
    jobs = line().write(tmp_path / "a"), line(change=_set(0, tiny.X, (2, 1), 0.125)).write(tmp_path / "b")
    found = told(assay, *jobs)
    (differs,) = found["configuration"]["data"]
    assert differs["what"] == "constant 1 (data.x), element 7 (1 differ)"
    assert found["unparted"] == ""
    assert differs["second"] == "0.125"
    assert found["place"] is None
    assert told(assay, honest, jobs[0], code=0)["same"] is True


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"format": 1}', "\x00"])
def test_what_is_no_claim_is_refused(assay: Assay, honest: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "claim.json").write_text(text)
    code, _, errors = assay("run", "diff", honest, tmp_path / "claim.json")
    assert code == 2
    assert "is not a claim.json" in errors
    assert assay("run", "diff", honest, tmp_path / "nothing")[0] == 2


def test_runs_that_do_not_part_say_so(assay: Assay, honest: Path, tmp_path: Path) -> None:
    longer = run_of(line(strides=(2, 1)), tmp_path / "strides")
    code, output, _ = assay("run", "diff", honest, longer)
    assert code == 1
    assert output.splitlines()[-1] == "the runs do not part at any of the 3 checkpoints that both have"
    apart = run_of(line(steps=8, strides=(5, 1)), tmp_path / "five"), run_of(line(steps=4), tmp_path / "four")
    code, output, _ = assay("run", "diff", *apart)
    assert code == 1
    assert output.splitlines()[-1] == (
        "whether the runs part is not known: they have no checkpoint after the same step"
    )


def test_states_that_cannot_be_read_are_no_states_that_differ(
    assay: Assay, honest: Path, tmp_path: Path
) -> None:
    other = run_of(line(change=_set(0, tiny.ORDER, (6, 0), 15)), tmp_path / "other")
    whole = told(assay, honest, other)["place"]
    assert (whole["start"], whole["end"]) == (4, 8)
    _drop_state(other, 2)
    place = told(assay, honest, other, "--no-replay")["place"]
    assert (place["start"], place["end"]) == (4, 12)
    _drop_state(other, 1)
    _drop_state(other, 3)
    found = told(assay, honest, other)
    assert found["place"] is None
    assert "not known: not read: the states at 3 of 3 checkpoints, from step 1 on" in found["unparted"]


def _drop_state(folder: Path, interval: int) -> None:
    """Delete the step tree at the end of an interval, without which no record of its state is found."""
    run = PublishedRun(Address(str(folder)), Store(folder.parent / f"cache {interval}", sync=False))
    name = run.tree.leaves[interval - 1].hex()
    (found,) = [path for path in (folder / "artifacts").rglob("*") if path.is_file() and name in path.name]
    found.unlink()


def test_a_tensor_that_cannot_be_had_is_not_read(assay: Assay, honest: Path, tmp_path: Path) -> None:
    other = run_of(line(change=_set(0, tiny.Y, (3, 0), 9.5)), tmp_path / "other")
    run = PublishedRun(Address(str(other)), Store(tmp_path / "cache", sync=False))
    (differs,) = told(assay, honest, other, "--no-replay", "--memory", 8)["configuration"]["data"]
    assert "constant 2, not read (it has 64 bytes, the limit is 8: raise --memory)" in differs["what"]
    name = run.program.constants[tiny.Y].hash.hex()
    for path in (other / "artifacts").rglob("*"):
        if path.is_file() and name in path.name:
            path.write_bytes(path.read_bytes()[:-1])
    found = told(assay, honest, other)
    (differs,) = found["configuration"]["data"]
    assert differs["what"].startswith("constant 2, not read (")
    assert differs["second"].endswith(name)
    assert found["place"]["note"].startswith("the search ends here: ")


def test_an_interval_that_is_too_long_is_not_searched(
    assay: Assay, honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = run_of(line(rate=0.25), tmp_path / "other")
    monkeypatch.setattr("trainer_node.audit.parting.MAX_STEPS", 3)
    place = told(assay, honest, other)["place"]
    assert (place["start"], place["end"], place["step"]) == (0, 4, None)
    assert place["note"].startswith("these 4 steps are not searched, the limit is 3")


def test_a_run_in_the_folder_of_its_bundle_is_a_run(assay: Assay, honest: Path, tmp_path: Path) -> None:
    other = line(rate=0.25).write(tmp_path / "other")
    shutil.copytree(run_of(line(rate=0.25), tmp_path / "run"), other, dirs_exist_ok=True)
    assert (other / "job.json").is_file()
    assert told(assay, honest, other)["place"]["step"] == 1


def test_a_claim_and_a_bundle_are_compared_by_the_file_of_the_program(
    assay: Assay, honest: Path, tmp_path: Path
) -> None:
    same, other = line().write(tmp_path / "same"), line(rate=0.25).write(tmp_path / "other")
    assert told(assay, honest / "claim.json", same, code=0)["same"] is True
    (differs,) = told(assay, other, honest / "claim.json")["configuration"]["program"]
    assert (differs["first"], differs["second"]) == (
        line(rate=0.25).program.file_hash().hex(),
        line().program.file_hash().hex(),
    )


def test_claims_with_one_root_and_other_last_states_or_logs_differ(
    assay: Assay, honest: Path, tmp_path: Path
) -> None:
    claim = json.loads((honest / "claim.json").read_text())
    changed = {**claim, "last": "11" * 32, "logs": "22" * 32}
    (tmp_path / "claim.json").write_text(json.dumps(changed))
    found = told(assay, honest / "claim.json", tmp_path / "claim.json")
    assert [one["what"] for one in found["configuration"]["claims"]] == [
        "checkpoint after the last step",
        "root of the rounding logs",
    ]
    assert (found["place"], found["unparted"]) == (None, "the runs do not part: both have the same root")


def test_labels_of_another_program_are_refused(assay: Assay, honest: Path, tmp_path: Path) -> None:
    bundle = line(rate=0.25)
    folder = bundle.write(tmp_path / "other")
    code, _, errors = assay("run", "diff", honest, honest, "--bundle", folder)
    assert code == 2
    for words in ("'line'", bundle.program.file_hash().hex(), line().program.file_hash().hex(), "leave out"):
        assert words in errors.replace("\n", " ")


def test_labels_of_the_smaller_program_do_not_reach_beyond_it(assay: Assay, tmp_path: Path) -> None:
    small, large = line().write(tmp_path / "small"), growing(8, (4, 1), 1.5).write(tmp_path / "large")
    for pair in ((small, large), (large, small)):
        assert told(assay, *pair)["configuration"]["operators"]


def test_published_metrics_of_strangers_are_compared(assay: Assay, honest: Path, tmp_path: Path) -> None:
    folders = [shutil.copytree(honest, tmp_path / name) for name in "ab"]

    def publish(*rows: str) -> None:
        for folder, text in zip(folders, rows, strict=True):
            (folder / "metrics.jsonl").write_text(text)

    publish('{"step": 1, "x": NaN, "y": "NaN"}', '{"step": 1, "x": NaN, "y": NaN}')
    assert told(assay, *folders, code=0)["metric"] is None
    publish('{"step": 1, "b": 1, "a": 1, "c": 1}', '{"step": 1, "c": 2, "b": 2, "a": 2}')
    assert told(assay, *folders)["metric"] == [1, {"what": "a", "first": "1", "second": "2"}]
    large = "9" * 4000
    publish(f'{{"step": 1, "a": {large}}}\n{"[" * 9999}\n', '{"step": 1, "a": [1]}')
    assert told(assay, *folders)["metric"] == [1, {"what": "a", "first": large, "second": "[1]"}]
