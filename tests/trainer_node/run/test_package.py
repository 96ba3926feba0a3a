"""A job's package is untrusted: each kind of unsoundness is refused by name, at little cost."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
import pytest
import repops
from repops.opset import F32

from referee_py.commit.tensor import Array
from referee_py.errors import (
    AssayError,
    HashMismatch,
    InvalidEncoding,
    InvalidProgram,
    Unavailable,
    UnknownVersion,
)
from referee_py.program import Kind, Operand, Program, SlotSource, Structure, TensorDescriptor, TensorType
from referee_py.program.modes import REPOPS_F32, Rounding
from referee_py.program.terms import Terms
from tests.referee_py.program.tiny import Writer, constant, slot
from trainer_node.errors import Corrupt
from trainer_node.network.artifact_server import ArtifactServer
from trainer_node.network.fetcher import Fetcher
from trainer_node.network.sources import Served
from trainer_node.rounded import UNFOLDED_BYTES
from trainer_node.run import package
from trainer_node.run.checkpoints import StoredCheckpoints
from trainer_node.run.package import (
    LEAF_BYTES,
    MAX_NODES,
    MAX_TENSORS,
    Package,
    check_leaves,
    check_operator,
    check_strides,
    load,
    load_program,
    memory_needed,
    takes,
    trees_bytes,
)
from trainer_node.run.replay import Replay
from trainer_node.storage.database import Database
from trainer_node.storage.store import Store

from ..desk import ENOUGH, PROGRAM, TERMS, put_package, serving


@pytest.fixture
def fetcher(tmp_path: Path) -> Fetcher:
    return Fetcher(Store(tmp_path / "node", sync=False), timeout_s=60.0, attempts=1)


def tensors_of(fetcher: Fetcher) -> list[Path]:
    return [path for path in (fetcher.store.root / "tensor").rglob("*") if path.is_file()]


def test_a_sound_package_is_what_the_terms_name(fetcher: Fetcher, tmp_path: Path) -> None:
    with serving(tmp_path / "client") as uri:
        package = load(Served(fetcher, [uri]), TERMS, PROGRAM.file_hash(), ENOUGH)
    assert package.program == PROGRAM
    package.program.check_tensors(package.constants, package.initial)
    load(Served(fetcher, []), TERMS, PROGRAM.file_hash(), ENOUGH)  # everything is in the store now


def edited(change: Callable[[dict], None]) -> bytes:
    """Return the program file, edited and written canonically again."""
    content = cbor2.loads(PROGRAM.to_bytes())
    change(content)
    return cbor2.dumps(content, canonical=True)


def reorder(content: dict) -> None:
    content["nodes"] = content["nodes"][::-1]


def lie(content: dict) -> None:
    dtype, shape, name = content["initial"][0]
    content["initial"][0] = [dtype, [*shape, 1], name]


UNSOUND = [
    (edited(lambda content: content.update(opset=2)), UnknownVersion, "operator set 2"),
    (edited(lambda content: content.update(format=9)), UnknownVersion, "format 9"),
    (edited(reorder), InvalidProgram, "only read earlier ones"),
    (edited(lie), InvalidProgram, "node"),
    (edited(lambda content: content["slots"].append([0, 0])), InvalidProgram, "slots"),
    (
        edited(lambda content: content["nodes"].pop()),
        InvalidProgram,
        "slot 0 is updated by output 0 of node 14",
    ),
    (PROGRAM.to_bytes() + b"\0", InvalidEncoding, "not canonical"),
    (PROGRAM.to_bytes()[:-1], InvalidEncoding, "not CBOR"),
    (b"", InvalidEncoding, "not CBOR"),
]


@pytest.mark.parametrize(("file", "error", "words"), UNSOUND)
def test_an_unsound_program_file_is_refused_and_no_tensor_is_fetched(
    fetcher: Fetcher, tmp_path: Path, file: bytes, error: type[AssayError], words: str
) -> None:
    store = Store(tmp_path / "client", sync=False)
    put_package(store)
    name = store.put_blob(file)
    with ArtifactServer(store) as server, pytest.raises(error, match=words):
        load(Served(fetcher, [server.uri]), TERMS, name, ENOUGH)
    assert not tensors_of(fetcher)


@pytest.mark.parametrize(
    ("terms", "error", "words"),
    [
        (replace(TERMS, opset=2), UnknownVersion, "operator set 2"),
        (replace(TERMS, mode=4), UnknownVersion, "arithmetic mode 4"),
        (replace(TERMS, node_count=TERMS.node_count + 1), InvalidProgram, "node_count"),
        (replace(TERMS, structure_root=bytes(32)), InvalidProgram, "structure_root"),
        (replace(TERMS, initial_root=bytes(32)), InvalidProgram, "initial_root"),
        (replace(TERMS, steps=1 << 62), InvalidProgram, "leaves"),
        (replace(TERMS, steps=1 << 62, strides=(1 << 61, 1)), InvalidProgram, "leaves"),
    ],
)
def test_terms_that_are_not_the_programs_are_refused(
    fetcher: Fetcher, tmp_path: Path, terms: Terms, error: type[AssayError], words: str
) -> None:
    with serving(tmp_path / "client") as uri, pytest.raises(error, match=words):
        load(Served(fetcher, [uri]), terms, PROGRAM.file_hash(), ENOUGH)
    assert not tensors_of(fetcher)


def test_a_file_that_is_not_the_one_named_is_unavailable_not_unsound(
    fetcher: Fetcher, tmp_path: Path
) -> None:
    """NOTE: the failure is the server's, not the job's."""
    store = Store(tmp_path / "client", sync=False)
    put_package(store)
    path = next((store.root / "blob").rglob(PROGRAM.file_hash().hex()))
    path.write_bytes(path.read_bytes()[:-1])
    with ArtifactServer(store) as server:
        with pytest.raises(Corrupt):
            load_program(Served(fetcher, [server.uri]), TERMS, PROGRAM.file_hash())
        with pytest.raises(Unavailable):
            load_program(Served(fetcher, [server.uri]), TERMS, hashlib.sha256(b"unheard of").digest())


def test_tensors_of_another_shape_than_declared_are_refused_before_anything_is_staked(
    fetcher: Fetcher, tmp_path: Path
) -> None:
    """The graph fits the declared shapes, but the tensor with that hash has another."""
    x, y = PROGRAM.constants[1], PROGRAM.constants[2]
    liar = Program(
        PROGRAM.nodes,
        PROGRAM.slots,
        (PROGRAM.constants[0], replace(x, hash=y.hash), y),
        PROGRAM.initial,
    )
    terms = Terms.of(liar, TERMS.steps, TERMS.strides)
    with (
        serving(tmp_path / "client", liar) as uri,
        pytest.raises(HashMismatch, match="constant 1 is") as caught,
    ):
        load(Served(fetcher, [uri]), terms, liar.file_hash(), ENOUGH)
    assert not isinstance(caught.value, Unavailable)


def test_more_memory_than_allowed_is_refused_before_any_tensor_is_fetched(
    fetcher: Fetcher, tmp_path: Path
) -> None:
    with serving(tmp_path / "client") as uri:
        with pytest.raises(InvalidProgram, match="memory_bytes"):
            load(Served(fetcher, [uri]), TERMS, PROGRAM.file_hash(), 100)
        assert not tensors_of(fetcher)
        load(Served(fetcher, [uri]), TERMS, PROGRAM.file_hash(), 50_000)


def test_the_trees_of_a_run_are_reckoned_before_any_tensor_is_fetched(
    fetcher: Fetcher, tmp_path: Path
) -> None:
    """The client says how many checkpoints there are: at each stride they are the leaves of a tree."""
    steps, strides = 1 << 16, (64, 8, 1)
    leaves = (1 << 10) + 8 + 8
    terms = Terms.of(PROGRAM, steps, strides)
    more = memory_needed(PROGRAM, terms) - memory_needed(PROGRAM, TERMS)
    assert more == LEAF_BYTES * leaves - trees_bytes(TERMS)
    assert takes(PROGRAM, terms).step - takes(PROGRAM, TERMS).step == more, "each run has its own"
    rounded = Terms.of(PROGRAM, steps, strides, Rounding().mode)
    assert trees_bytes(rounded) == LEAF_BYTES * (leaves + steps), "and one over the logs of its steps"
    with serving(tmp_path / "client") as uri:
        with pytest.raises(InvalidProgram, match="memory_bytes"):
            load(Served(fetcher, [uri]), terms, PROGRAM.file_hash(), 50_000 + LEAF_BYTES * leaves // 2)
        assert not tensors_of(fetcher)
        load(Served(fetcher, [uri]), terms, PROGRAM.file_hash(), 50_000 + LEAF_BYTES * leaves)


def test_images_that_are_unfolded_count_in_rounded_f64() -> None:
    """Few weights and pixels, but each of 4,096 places reads 4,096 taps: one image takes 256 MiB, twice."""
    small, large = (
        images(np.zeros((1, 2, size, size), np.float32), np.zeros((2, 2, kernel, kernel), np.float32))
        for size, kernel in ((4, 2), (127, 64))
    )
    for program, more in ((small, UNFOLDED_BYTES), (large, 2 * 8 * 2 * 4096 * 4096)):
        plain, rounded = (Terms.of(program, 1, (1,), mode) for mode in (REPOPS_F32.byte, Rounding().mode))
        for node in (0, 1, 2):
            check_operator(program, plain, node, 1 << 20)
            with pytest.raises(InvalidProgram, match="memory_bytes"):
                check_operator(program, rounded, node, more)
            check_operator(program, rounded, node, more + (1 << 22))
        assert memory_needed(program, rounded) > more + memory_needed(program, plain)


def images(x: Array, w: Array) -> Program:
    """Return the program of a convolution and both of its gradients."""
    op = Writer([w], [x])
    attrs: dict[str, Any] = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    y = op("conv2d", slot(0), constant(0), **attrs)
    back = op("conv2d_input_grad", y, constant(0), **attrs, input_hw=x.shape[2:])
    op("conv2d_weight_grad", y, slot(0), **attrs, kernel_hw=w.shape[2:])
    described = TensorDescriptor.of(w), TensorDescriptor.of(x)
    return Program(tuple(op.nodes), (SlotSource(back.index, 0),), described[:1], described[1:])


def test_a_stride_that_makes_a_kernel_search_for_hours_is_refused() -> None:
    """Two small tensors: each of 2^18 positions has taps of its own among 2^22."""
    x, w = np.zeros((1, 1, 512, 512), np.float32), np.zeros((1, 1, 2048, 2048), np.float32)
    attrs: dict[str, Any] = {"stride": (2**30,) * 2, "padding": (1024, 1024), "dilation": (1, 1), "groups": 1}
    for weight, refused in ((w, True), (w[:, :, :64, :64], False)):
        op = Writer([weight], [x])
        dy = op("conv2d", slot(0), constant(0), **{**attrs, "stride": (2**30,) * 2})
        back = op("conv2d_input_grad", dy, constant(0), **attrs, input_hw=(512, 512))
        described = TensorDescriptor.of(weight), TensorDescriptor.of(x)
        program = Program(tuple(op.nodes), (SlotSource(back.index, 0),), described[:1], described[1:])
        if refused:
            with pytest.raises(InvalidProgram, match=r"262144 positions .* 4194304 each to look through"):
                check_strides(program)
        else:
            check_strides(program)


def test_run_trees_are_bounded_at_every_level() -> None:
    check_leaves(replace(TERMS, steps=1 << 40, strides=(1 << 20, 1)))
    check_leaves(replace(TERMS, steps=10, strides=(1 << 40, 1)))
    for steps, strides in (((1 << 40) + 1, (1 << 20, 1)), (1 << 30, (1 << 21, 1)), (1 << 21, (1,))):
        with pytest.raises(InvalidProgram, match="leaves"):
            check_leaves(replace(TERMS, steps=steps, strides=strides))


@pytest.mark.parametrize("strides", [(), (0,), (4, 0, 1)])
def test_strides_that_divide_nothing_are_refused(strides: tuple[int, ...]) -> None:
    """The contract does not post them; an endpoint may say that it did."""
    with pytest.raises(InvalidProgram, match="each is at least 1"):
        check_leaves(replace(TERMS, strides=strides))


def test_one_operator_is_bounded_too() -> None:
    assert check_operator(PROGRAM, TERMS, 8, ENOUGH) == 48  # the gradient: [3, 4] times [4, 1]
    with pytest.raises(InvalidProgram, match="node 8"):
        check_operator(PROGRAM, TERMS, 8, 48)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"node_count": MAX_NODES + 1}, f"{MAX_NODES + 1} nodes, and no node reads more than {MAX_NODES}"),
        ({"slot_count": MAX_TENSORS + 1 - TERMS.constant_count}, "constants and slots"),
    ],
)
def test_a_program_of_more_nodes_or_tensors_than_are_read_is_refused_unread(
    fetcher: Fetcher, more: dict[str, Any], words: str
) -> None:
    """Attack: eight files within the protocol's limits took a hundred gigabytes, and two hours of Python."""
    with pytest.raises(InvalidProgram, match=words):
        load(Served(fetcher, ["http://127.0.0.1:9"]), replace(TERMS, **more), PROGRAM.file_hash(), ENOUGH)


def test_programs_of_strangers_are_read_one_at_a_time(
    fetcher: Fetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, most = [], []

    def read(data: bytes) -> Program:
        reading.append(data)
        most.append(len(reading))
        time.sleep(0.01)
        reading.pop()
        return PROGRAM

    monkeypatch.setattr(package, "read_program", read)
    with serving(tmp_path / "client") as uri, ThreadPoolExecutor(8) as pool:
        name = PROGRAM.file_hash()
        for done in [pool.submit(load_program, Served(fetcher, [uri]), TERMS, name) for _ in range(16)]:
            done.result()
    assert most == [1] * 16


def test_a_run_without_slots_is_on_disk_once_it_is_done(tmp_path: Path) -> None:
    """Attack: its memory was kept until its job was over, as if the disk had refused its last state."""
    x = np.ones(4, np.float32)
    total = Structure.make("sum", [Operand(Kind.CONSTANT, 0)], [TensorType(F32, ())], dims=(0,), keepdim=0)
    program = Program((total,), (), (TensorDescriptor.of(x),), ())
    terms, database = Terms.of(program, 4, (2, 1)), Database(None)
    run = Replay(
        Package(terms, program, (x,), ()),
        repops.backend("cpu"),
        Store(tmp_path),
        StoredCheckpoints(database, 1),
    )
    run.train()
    assert run.on_disk
    database.close()
