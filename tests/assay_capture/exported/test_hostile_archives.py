"""Untrusted .pt2 files: refused with a reason, and nothing in them is executed."""

from __future__ import annotations

import copy
import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from assay_capture.capture import SGD, Recipe, build
from assay_capture.capture.errors import CaptureError
from assay_capture.exported import load
from assay_capture.model_files import cross_entropy
from referee_py.errors import AssayError

from .test_exported import CLASSES, ROWS, mlp, save

MODEL, WEIGHTS = "m/models/model.json", "m/data/weights/model_weights_config.json"
Members = dict[str, bytes]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Members:
    path = save(mlp().eval(), ROWS, tmp_path_factory.mktemp("pt2") / "m.pt2")
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(members: Members, path: Path, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def changed(members: Members, name: str, change: Callable[[Any], Any]) -> Members:
    content = json.loads(members[name])
    change(content)
    return {**members, name: json.dumps(content).encode()}


def use(path: Path) -> torch.Tensor:
    result: torch.Tensor = load(path)(torch.from_numpy(ROWS[:4].copy()))
    return result


def first(content: Any) -> Any:
    return content["graph_module"]["graph"]["nodes"][0]


def set_in(at: Callable[[Any], Any], key: Any, value: Any) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        at(content)[key] = value

    return change


def weight(content: Any) -> Any:
    return content["config"]["0.weight"]


def test_a_file_written_again_is_read(members: Members, tmp_path: Path) -> None:
    assert use(write(members, tmp_path / "m.pt2")).shape == (4, 5)


@pytest.mark.parametrize(
    "target",
    [
        "torch.load",
        "torch.hub.load_state_dict_from_url",
        "torch.ops.load_library",
        "torch.ops.aten.__class__.__init__",
        "torch.ops.aten.from_file.default",
        "torch.ops.aten.linear.__init__",
        "torch.ops.aten.linear.nothing",
        "torch.ops.prim.Print.default",
        "torch.ops.higher_order.cond",
        "torch.ops.aten.linear",
        "_operator.attrgetter",
        "_operator.pow",
        "math.factorial",
        "os.system",
        "#extension",
        "",
    ],
)
def test_other_functions_than_operators_are_never_called(
    target: str, members: Members, tmp_path: Path
) -> None:
    path = write(changed(members, MODEL, set_in(first, "target", target)), tmp_path / "m.pt2")
    with pytest.raises(CaptureError, match=r"operator '.*'; export the model with operators of ATen only"):
        use(path)


def test_text_of_the_file_is_not_evaluated(members: Members, tmp_path: Path) -> None:
    """PyTorch's reader executes guards, and gives sizes to sympy, which evaluates them."""
    mark = tmp_path / "mark"
    code = f"__import__('pathlib').Path({str(mark)!r}).touch() or True"
    found = changed(members, MODEL, set_in(lambda content: content, "guards_code", [code]))

    def sizes(content: Any) -> None:
        for value in content["graph_module"]["graph"]["tensor_values"].values():
            for size in value["sizes"]:
                if "as_expr" in size:
                    size["as_expr"]["expr_str"] = code

    path = write(changed(found, MODEL, sizes), tmp_path / "m.pt2")
    assert use(path).shape == (4, 5)
    assert not mark.exists()


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(members: Members, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    torch.save(Touch(mark), tmp_path / "evil.bin")
    evil = (tmp_path / "evil.bin").read_bytes()
    samples = next(name for name in members if "sample_inputs" in name)
    assert use(write({**members, samples: evil}, tmp_path / "m.pt2")).shape == (4, 5)
    found = changed(members, WEIGHTS, set_in(weight, "use_pickle", True))
    found["m/data/weights/" + weight(json.loads(members[WEIGHTS]))["path_name"]] = evil
    with pytest.raises(
        CaptureError, match="a pickled value, which could run code; export the model with plain"
    ):
        use(write(found, tmp_path / "m.pt2"))
    assert not mark.exists()


def test_a_small_file_cannot_ask_for_a_large_value(members: Members, tmp_path: Path) -> None:
    def change(content: Any) -> None:
        node = first(content)
        node["target"] = "torch.ops.aten.full.default"
        sizes, fill = {"as_ints": [1 << 20, 1 << 20]}, {"as_float": 1.0}
        node["inputs"] = [
            {"name": "size", "arg": sizes, "kind": 1},
            {"name": "fill_value", "arg": fill, "kind": 1},
        ]

    module = load(write(changed(members, MODEL, change), tmp_path / "m.pt2"))
    data: dict[str, Any] = {"x": ROWS, "y": CLASSES}
    recipe = Recipe("m", module, cross_entropy, SGD(0.1), data, 1, 8, initial="module", inputs=("x",))
    with pytest.raises(CaptureError, match=r"gives 1099511627776 elements; the limit is 2147483648"):
        build(recipe)


def test_compressed_members_are_refused(members: Members, tmp_path: Path) -> None:
    bomb = {**members, MODEL: members[MODEL] + b" " * (64 << 20)}
    with pytest.raises(CaptureError, match="is compressed"):
        use(write(bomb, tmp_path / "m.pt2", zipfile.ZIP_DEFLATED))


META = ("tensor_meta",)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sizes", [{"as_int": 16}, {"as_int": 1 << 40}], "its file has"),
        ("sizes", [{"as_int": -16}, {"as_int": 12}], "is no size"),
        ("sizes", [{"as_int": 16.5}, {"as_int": 12}], "is no size"),
        ("sizes", [{"as_int": 1 << 70}, {"as_int": 0}], "is no|no program|its file has|not whole"),
        ("strides", [{"as_int": 1 << 50}, {"as_int": 1}], "its file has"),
        ("strides", [{"as_int": 0}, {"as_int": 0}], None),
        ("strides", [{"as_int": 12}], "no program"),
        ("storage_offset", {"as_int": 1 << 40}, "its file has"),
        ("dtype", 9, "ScalarType 9"),
        ("dtype", "7", "ScalarType 7"),
    ],
)
def test_tensors_stay_inside_their_bytes(
    key: str, value: Any, message: str | None, members: Members, tmp_path: Path
) -> None:
    path = write(
        changed(members, WEIGHTS, set_in(lambda c: weight(c)["tensor_meta"], key, value)), tmp_path / "m.pt2"
    )
    if message is None:
        assert use(path).shape == (4, 5)
    else:
        with pytest.raises(CaptureError, match=message):
            use(path)


def test_expanded_tensors_are_bounded_by_their_bytes(members: Members, tmp_path: Path) -> None:
    """Strides of zero would make a tensor of any size out of four bytes."""

    def change(content: Any) -> None:
        meta = weight(content)["tensor_meta"]
        meta["sizes"], meta["strides"] = (
            [{"as_int": 1 << 20}, {"as_int": 1 << 20}],
            [{"as_int": 0}, {"as_int": 0}],
        )

    with pytest.raises(CaptureError, match="its file has"):
        use(write(changed(members, WEIGHTS, change), tmp_path / "m.pt2"))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "weight_99"])
def test_a_tensor_is_read_from_the_archive_alone(name: str, members: Members, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no program that"):
        use(write(changed(members, WEIGHTS, set_in(weight, "path_name", name)), tmp_path / "m.pt2"))


@pytest.mark.parametrize(
    "content",
    [b"", b"PK", b"{}", b"[" * 100_000, json.dumps({"schema_version": {"major": 9, "minor": 0}}).encode()],
)
def test_what_is_no_program_is_named(content: bytes, members: Members, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=r"m\.pt2|version"):
        use(write({**members, MODEL: content}, tmp_path / "m.pt2"))
    (tmp_path / "m.pt2").write_bytes(content)
    with pytest.raises(CaptureError, match=r"no program that torch\.export\.save wrote"):
        use(tmp_path / "m.pt2")


def test_a_file_that_is_not_there_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(AssayError, match="cannot read"):
        load(tmp_path / "m.pt2")


@pytest.mark.parametrize("seed", range(8))
def test_damaged_graphs_are_refused_or_run(seed: int, members: Members, tmp_path: Path) -> None:
    """Values of the JSON are exchanged, removed or replaced; whatever happens, it is an error of ours."""
    rng = random.Random(seed)
    whole = json.loads(members[MODEL])
    junk: list[Any] = [
        None,
        -1,
        1 << 80,
        "x",
        [],
        {},
        1.5,
        True,
        {"as_int": 3},
        {"as_tensor": {"name": "linear"}},
    ]
    for _ in range(40):
        content = copy.deepcopy(whole)
        for _ in range(rng.randint(1, 3)):
            place = content["graph_module"]
            while True:
                keys = list(place) if isinstance(place, dict) else list(range(len(place)))
                if not keys:
                    break
                key = rng.choice(keys)
                if isinstance(place[key], dict | list) and rng.random() < 0.9:
                    place = place[key]
                    continue
                if rng.random() < 0.3:
                    del place[key]
                else:
                    place[key] = rng.choice(junk)
                break
        path = write({**members, MODEL: json.dumps(content).encode()}, tmp_path / "m.pt2")
        try:
            result = use(path)
        except AssayError:
            continue
        assert isinstance(result, torch.Tensor)


def test_two_programs_in_a_file_are_refused(members: Members, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="holds 2 exported programs"):
        use(write({**members, "m/models/other.json": members[MODEL]}, tmp_path / "m.pt2"))


def test_names_of_tensors_are_words(members: Members, tmp_path: Path) -> None:
    """A name may be anything, also that of a method."""
    text = members[MODEL].replace(b'"0.weight"', b'"forward.__class__"')
    config = members[WEIGHTS].replace(b'"0.weight"', b'"forward.__class__"')
    found = load(write({**members, MODEL: text, WEIGHTS: config}, tmp_path / "m.pt2"))
    assert isinstance(found, nn.Module)
    assert "forward_.__class___" in {name for name, _ in found.named_parameters()}
    assert use(tmp_path / "m.pt2").shape == (4, 5)


def _encrypted(data: bytearray) -> None:
    """Say of each member that it is encrypted, before it and in the directory."""
    for mark, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = data.find(mark)
        while at >= 0:
            data[at + place] |= 1
            at = data.find(mark, at + 1)


def _torn(data: bytearray) -> None:
    """Damage the first bytes of each member."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist():
            data[member.header_offset + 30 + len(member.filename) + len(member.extra)] ^= 255


@pytest.mark.parametrize(
    ("change", "message"),
    [(_encrypted, "is encrypted; decrypt it"), (_torn, "is no program that torch.export.save wrote")],
)
def test_a_zip_file_that_cannot_be_read_is_no_question_of_memory(
    members: Members, tmp_path: Path, change: Callable[[bytearray], None], message: str
) -> None:
    path = write(members, tmp_path / "m.pt2")
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)
    with pytest.raises(CaptureError, match=message):
        load(path)
