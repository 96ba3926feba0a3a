"""What a small .pt2 file asks for: sizes without end, values that fill the memory together, impossible quotients."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assay_capture.capture import untrusted
from assay_capture.capture.errors import CaptureError
from assay_capture.exported import load

from .test_exported import ROWS, mlp, save
from .test_hostile_archives import MODEL, WEIGHTS, Members, changed, first, use, weight, write


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Members:
    path = save(mlp().eval(), ROWS, tmp_path_factory.mktemp("pt2") / "m.pt2")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def node_like(content: Any, target: str, args: list[Any], output: dict[str, Any]) -> dict[str, Any]:
    given = [{"name": name, "arg": arg, "kind": 1} for name, arg in args]
    return {**first(content), "target": target, "inputs": given, "outputs": [output]}


def added(members: Members, *nodes: tuple[str, list[Any], dict[str, Any]]) -> Members:
    """Return a program with nodes before its first."""

    def change(content: Any) -> None:
        graph = content["graph_module"]["graph"]
        graph["nodes"] = [*(node_like(content, *node) for node in nodes), *graph["nodes"]]

    return changed(members, MODEL, change)


def size_named(name: str) -> dict[str, Any]:
    return {"as_sym_int": {"as_name": name}}


def test_squares_of_sizes_have_an_end(members: Members, tmp_path: Path) -> None:
    """Each doubles the length of a number: forty need the memory of a thousand computers."""
    names = [size_named(f"n{k}") for k in range(41)]
    nodes = [
        ("_operator.mul", [("a", a), ("b", a)], b)
        for a, b in zip([{"as_int": 3}, *names], names, strict=False)
    ]
    with pytest.raises(
        CaptureError, match=r"_operator\.mul: a whole number of 102 bits; the limit is 92.*sizes"
    ):
        use(write(added(members, *nodes), tmp_path / "m.pt2"))


@pytest.mark.parametrize(
    ("target", "a", "b"),
    [
        ("_operator.mod", {"as_string": "%1000000d"}, {"as_int": 1}),
        ("_operator.mul", {"as_string": "x"}, {"as_int": 1 << 20}),
        ("_operator.mul", {"as_ints": [0]}, {"as_int": 1 << 20}),
        ("_operator.add", {"as_ints": [0]}, {"as_ints": [0]}),
        ("_operator.mul", {"as_int": 1 << 63}, {"as_int": 1}),
        ("_operator.getitem", {"as_string": "text"}, {"as_int": 1}),
        ("torch.ops.aten.mul.left_t", {"as_ints": [0]}, {"as_int": 1 << 20}),
        ("torch.ops.aten.add.str", {"as_string": "x"}, {"as_string": "x"}),
    ],
)
def test_sizes_are_computed_of_numbers_alone(
    target: str, a: dict[str, Any], b: dict[str, Any], members: Members, tmp_path: Path
) -> None:
    names = ("self", "other") if "left_t" not in target else ("l", "n")
    node = (target, list(zip(names, (a, b), strict=True)), size_named("n"))
    with pytest.raises(
        CaptureError, match=r"sizes are numbers|the limit is|which is no list|operators of ATen"
    ):
        use(write(added(members, node), tmp_path / "m.pt2"))


def test_a_quotient_that_has_no_number_ends_no_process(members: Members, tmp_path: Path) -> None:
    """The processor's division of the least integer by -1 is a signal, not a result."""
    nodes = [
        (
            "torch.ops.aten.full.default",
            [("size", {"as_ints": [9]}), ("fill_value", {"as_int": value}), ("dtype", {"as_scalar_type": 5})],
            {"as_tensor": {"name": name}},
        )
        for name, value in (("least", -(1 << 63)), ("minus", -1))
    ]
    operands = [(place, {"as_tensor": {"name": n}}) for place, n in (("self", "least"), ("other", "minus"))]
    mode = ("rounding_mode", {"as_string": "trunc"})
    divided = ("torch.ops.aten.div.Tensor_mode", [*operands, mode], {"as_tensor": {"name": "q"}})
    assert use(write(added(members, *nodes, divided), tmp_path / "m.pt2")).shape == (4, 5)


def full(name: str, count: int) -> tuple[str, list[Any], dict[str, Any]]:
    given = [("size", {"as_ints": [count]}), ("fill_value", {"as_float": 1.0})]
    return "torch.ops.aten.full.default", given, {"as_tensor": {"name": name}}


def test_all_values_together_have_a_limit(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(untrusted, "MAX_CONSTANT_BYTES", 1 << 20)
    fulls = [full(f"f{k}", 1 << 16) for k in range(8)]
    assert use(write(added(members, *fulls), tmp_path / "m.pt2")).shape == (4, 5), (
        "what nothing reads is dropped"
    )
    every = [{"name": f"f{k}"} for k in range(8)]
    joined = (
        "torch.ops.aten.cat.default",
        [("tensors", {"as_tensors": every})],
        {"as_tensor": {"name": "j"}},
    )
    message = (
        "gives 262144 bytes, with which the constants of the model take 1310720 at once; the limit is 1048576"
    )
    with pytest.raises(CaptureError, match=message):
        use(write(added(members, *fulls, joined), tmp_path / "m.pt2"))
    monkeypatch.setattr(untrusted, "MAX_CONSTANT_BYTES", 1 << 30)
    monkeypatch.setattr(untrusted, "MAX_HELD_BYTES", 1 << 20)
    with pytest.raises(
        CaptureError, match="with which the values of the model take 2097152 at once; the limit"
    ):
        use(write(added(members, *fulls, joined), tmp_path / "m.pt2"))


def test_a_member_is_read_once_and_only_if_the_program_takes_it(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    plain = zipfile.ZipFile.read

    def read(archive: zipfile.ZipFile, name: Any, *given: Any) -> bytes:
        reads.append(getattr(name, "filename", name))
        return plain(archive, name, *given)

    def change(content: Any) -> None:
        content["config"] |= {f"t{k}": weight(content) for k in range(1000)}

    path = write(changed(members, WEIGHTS, change), tmp_path / "m.pt2")
    monkeypatch.setattr(zipfile.ZipFile, "read", read)
    assert use(path).shape == (4, 5)
    assert len(reads) == len(set(reads)) <= len(members)


def test_a_member_is_not_many_tensors(members: Members, tmp_path: Path) -> None:
    """A thousand inputs that are views of one member, each a little different."""

    def inputs(content: Any) -> None:
        specs = content["graph_module"]["signature"]["input_specs"]
        for k in range(1000):
            spec = {"arg": {"name": f"t{k}"}, "buffer_name": f"t{k}", "persistent": True}
            specs.append({"buffer": spec})

    def views(content: Any) -> None:
        for k in range(1000):
            meta = copy.deepcopy(weight(content))
            meta["tensor_meta"] |= {
                "sizes": [{"as_int": 192 - k % 190}],
                "strides": [{"as_int": 1}],
                "storage_offset": {"as_int": k % 190},
            }
            content["config"][f"t{k}"] = meta

    path = write(changed(changed(members, MODEL, inputs), WEIGHTS, views), tmp_path / "m.pt2")
    assert load(path)
    big = {**members, "m/data/weights/" + weight(json.loads(members[WEIGHTS]))["path_name"]: bytes(1 << 20)}

    def large(content: Any) -> None:
        views(content)
        for k in range(1000):
            content["config"][f"t{k}"]["tensor_meta"]["sizes"] = [{"as_int": (1 << 18) - k}]

    path = write(changed(changed(big, MODEL, inputs), WEIGHTS, large), tmp_path / "m.pt2")
    with pytest.raises(
        CaptureError, match=r"the tensors of m\.pt2 take .*; the limit is .*; store each tensor once"
    ):
        load(path)
