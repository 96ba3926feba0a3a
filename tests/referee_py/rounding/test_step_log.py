"""A step's logs: what goes into the file comes out of it, under the same root, and nothing else is such a file."""

from __future__ import annotations

import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from referee_py.commit import NO_LOG, Tag, Tree, digest
from referee_py.commit.tensor import data_tree
from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding.book import MemoryBook, run_log_tree
from referee_py.rounding.packing import DENSE, SPARSE, compress
from referee_py.rounding.step_log import NodeLog, Reader, StepLog, content_limit

NODES = 40
ENOUGH = 1 << 20

logs = st.builds(
    NodeLog,
    st.integers(0, 255),
    st.integers(0, (1 << 40) - 1),
    st.one_of(st.binary(max_size=40), st.integers(0, 5000).map(bytes)),
)
step_logs = st.dictionaries(st.integers(0, NODES - 1), logs, max_size=8).map(
    lambda found: StepLog({node: found[node] for node in sorted(found)})
)


def entry(distance: bytes, form: int, elements: bytes, length: bytes, data: bytes = b"") -> bytes:
    return distance + bytes([form]) + elements + length + data


@given(step_logs)
def test_what_was_written_is_read(log: StepLog) -> None:
    assert StepLog.decode(log.encode(), NODES, ENOUGH) == log


@given(step_logs, st.lists(st.integers(1, 30), min_size=1, max_size=40))
def test_it_may_arrive_in_any_pieces(log: StepLog, cuts: list[int]) -> None:
    data, at = log.encode(), 0
    heads: list[tuple[int, ...]] = []
    bodies: list[bytes] = []

    class Sink:
        def begin(self, node: int, form: int, elements: int, length: int) -> None:
            heads.append((node, form, elements, length))
            bodies.append(b"")

        def data(self, piece: bytes) -> None:
            bodies[-1] += piece

        def end(self) -> None:
            assert len(bodies[-1]) == heads[-1][3]

    reader = Reader(NODES, ENOUGH, Sink())
    for size in cuts:
        reader.update(data[at : at + size])
        at += size
    reader.update(data[at:])
    reader.finish()
    assert heads == [(node, at.form, at.elements, len(at.canonical)) for node, at in log.nodes.items()]
    assert bodies == [at.canonical for at in log.nodes.values()]


@given(step_logs)
def test_the_root_is_the_protocols(log: StepLog) -> None:
    leaves = []
    for node in range(NODES):
        known = log.nodes.get(node)
        if known is None:
            leaves.append(NO_LOG)
            continue
        head = struct.pack(">BQQ", known.form, known.elements, len(known.canonical))
        leaves.append(digest(Tag.ROUNDING_LOG, head, data_tree(known.canonical).root))
    assert log.root(NODES) == Tree(Tag.LOG_TREE, leaves).root
    assert log.digests(NODES) == leaves


def test_a_log_is_of_a_node_only_in_its_form_and_for_its_elements() -> None:
    log = StepLog.of(SPARSE, {3: (10, b"x")})
    assert log.canonical(3, SPARSE, 10) == b"x"
    assert log.canonical(3, DENSE, 10) is None
    assert log.canonical(3, SPARSE, 11) is None
    assert log.canonical(4, SPARSE, 10) is None
    assert log.digest(4) == NO_LOG


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x00", "ends inside"),
        (entry(b"\x00", 2, b"\x05", b"\x03", b"ab"), "ends inside"),
        (entry(b"\x80\x00", 2, b"\x05", b"\x00"), "longer than needed"),
        (entry(b"\x00", 2, b"\x80\x80\x80\x80\x80\x80\x01", b"\x00"), "more than 6 bytes"),
        (entry(b"\x00", 2, b"\x80\x80\x80\x80\x80\x40", b"\x00"), "fewer than 2"),
        (entry(bytes([NODES]), 2, b"\x05", b"\x00"), f"has {NODES} nodes"),
        (entry(b"\x00", 2, b"\x05", b"\x00") + entry(bytes([NODES - 1]), 2, b"\x05", b"\x00"), "nodes"),
    ],
)
def test_other_contents_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(InvalidEncoding, match=why):
        StepLog.decode(compress(content), NODES, ENOUGH)


def test_frames_that_lie_are_refused() -> None:
    good = StepLog.of(SPARSE, {0: (9, bytes(range(256)) * 4)}).encode()
    bomb = zstandard.ZstdCompressor().compress(bytes(1 << 24))
    unstated = zstandard.ZstdCompressor(write_content_size=False).compress(b"abc")
    frames = {
        "nothing": b"",
        "no frame": b"not a frame at all, but long enough",
        "truncated": good[:-1],
        "bytes after it": good + b"x",
        "two frames": good + good,
        "more than allowed": bomb,
        "no size": unstated,
        "damaged": good[:40] + bytes([good[40] ^ 1]) + good[41:],
    }
    for name, frame in frames.items():
        with pytest.raises(InvalidEncoding):
            pytest.fail(f"{name}: {StepLog.decode(frame, NODES, ENOUGH)}")


def test_a_frame_that_needs_much_memory_is_refused() -> None:
    content = entry(b"\x00", 2, b"\x05", b"\x80\x80\x80\x10", bytes(1 << 25))
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    with pytest.raises(InvalidEncoding, match="memory"):
        StepLog.decode(
            zstandard.ZstdCompressor(compression_params=parameters).compress(content), NODES, 1 << 30
        )
    assert StepLog.decode(compress(content), NODES, 1 << 30).nodes[0].canonical == bytes(1 << 25)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_log_or_refused(data: bytes) -> None:
    for frame in (data, compress(data)):
        try:
            log = StepLog.decode(frame, NODES, ENOUGH)
        except InvalidEncoding:
            continue
        assert StepLog.decode(log.encode(), NODES, ENOUGH) == log


def test_nodes_and_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="counted from 0"):
        StepLog({-1: NodeLog(SPARSE, 1, b"")})
    with pytest.raises(InvalidInput, match="below 256"):
        NodeLog(256, 1, b"")
    with pytest.raises(InvalidInput, match="40 nodes"):
        StepLog.of(SPARSE, {NODES: (1, b"")}).root(NODES)


def test_the_limit_holds_every_log_of_a_step() -> None:
    elements = [0, 1, 7, 1000]
    longest = StepLog.of(SPARSE, {node: (n, bytes(12 + 10 * n)) for node, n in enumerate(elements)})
    assert StepLog.decode(longest.encode(), NODES, content_limit(elements)) == longest


def test_the_runs_logs_are_the_tree_over_its_steps() -> None:
    book = MemoryBook()
    assert book.get(1) is None
    steps = [StepLog.of(SPARSE, {step: (5, b"abc")}) for step in range(5)]
    for step, log in enumerate(steps, 1):
        book.put(step, log)
    assert book.get(2) == steps[1]
    tree = run_log_tree(book.roots(NODES))
    assert tree.root == Tree(Tag.LOG_RUN_TREE, [log.root(NODES) for log in steps]).root
