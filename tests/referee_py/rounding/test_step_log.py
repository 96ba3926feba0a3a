"""A step's logs are read from the file as they were written, under the same root; other bytes are no such file."""

from __future__ import annotations

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from referee_py.commit import NO_LOG, Tag, Tree
from referee_py.errors import InvalidEncoding, InvalidInput
from referee_py.rounding import Form, Log
from referee_py.rounding.blocks import log_digest
from referee_py.rounding.log_source import MemoryLogs, run_log_tree
from referee_py.rounding.step_log import ELEMENTS_A_BYTE, NodeLog, Reader, StepLog, compress, content_limit

from .logs import log_of, node_log, same

NODES = 40
ENOUGH = 1 << 20

said = st.integers(1, 3000).flatmap(
    lambda elements: st.dictionaries(
        st.integers(0, elements - 1), st.one_of(st.booleans(), st.floats(width=32)), max_size=30
    ).map(
        lambda found: log_of(
            elements,
            {k: v for k, v in found.items() if isinstance(v, bool)},
            {k: v for k, v in found.items() if not isinstance(v, bool)},
        )
    )
)
logs = st.builds(NodeLog.of, said, st.sampled_from(list(Form)))
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
    found: dict[int, NodeLog] = {}

    def keep(node: int, one: NodeLog, says: Log) -> None:
        assert same(one.read(), says)
        found[node] = one

    reader = Reader(NODES, ENOUGH, keep)
    for size in cuts:
        reader.update(data[at : at + size])
        at += size
    reader.update(data[at:])
    reader.finish()
    assert found == log.nodes


@given(step_logs)
def test_the_root_is_the_protocols_and_does_not_depend_on_forms(log: StepLog) -> None:
    leaves = [log_digest(log.nodes[k].read()) if k in log.nodes else NO_LOG for k in range(NODES)]
    assert log.digests(NODES) == leaves
    assert log.root(NODES) == Tree(Tag.LOG_TREE, leaves).root
    for form in Form:
        other = StepLog({node: NodeLog.of(one.read(), form) for node, one in log.nodes.items()})
        assert other.root(NODES) == log.root(NODES)


def test_a_log_is_of_a_node_only_for_its_elements() -> None:
    log = StepLog({3: node_log(10, {4: True})})
    assert log.entries(3, 10).narrow.tolist() == [4]
    assert log.entries(3, 11).count == 0
    assert log.entries(4, 10).count == 0
    assert log.digest(4) == NO_LOG


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x00", "ends inside"),
        (entry(b"\x00", 0, b"\x05", b"\x03", b"ab"), "ends inside"),
        (entry(b"\x80\x00", 0, b"\x05", b"\x00"), "longer than needed"),
        (entry(b"\x00", 0, b"\x80\x80\x80\x80\x80\x80\x01", b"\x00"), "more than 6 bytes"),
        (entry(b"\x00", 0, b"\x80\x80\x80\x80\x80\x40", b"\x00"), "fewer than 2"),
        (entry(bytes([NODES]), 0, b"\x05", b"\x00"), f"has {NODES} nodes"),
        (entry(b"\x00", 0, b"\x05", b"\x03", b"\1\0\4") * 2, "does not decode"),
        (
            entry(b"\x00", 0, b"\x05", b"\x04", b"\1\0\4\1") + entry(bytes([NODES - 1]), 0, b"\x05", b"\x00"),
            "nodes",
        ),
        (entry(b"\x00", 0, b"\x05", b"\x00"), "does not decode"),
        (entry(b"\x00", 1, b"\x05", b"\x04", b"\1\0\4\1"), "does not decode"),
        (entry(b"\x00", 2, b"\x05", b"\x04", b"\1\0\4\1"), "form 2"),
        (entry(b"\x00", 0, b"\x80\x80\x80\x80\x80\x10", b"\x04", b"\1\0\4\1"), "are left"),
    ],
)
def test_other_contents_are_refused(content: bytes, why: str) -> None:
    with pytest.raises(InvalidEncoding, match=why):
        StepLog.decode(compress(content), NODES, ENOUGH)


def test_frames_that_lie_are_refused() -> None:
    good = StepLog({0: node_log(900, {}, {k: k * 0.25 for k in range(300)})}).encode()
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
    content = entry(b"\x00", 0, b"\x05", b"\x80\x80\x80\x10", bytes(1 << 25))
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    with pytest.raises(InvalidEncoding, match="memory"):
        StepLog.decode(
            zstandard.ZstdCompressor(compression_params=parameters).compress(content), NODES, 1 << 30
        )
    with pytest.raises(InvalidEncoding, match="does not decode"):
        StepLog.decode(compress(content), NODES, 1 << 30)


def test_elements_cost_nothing_so_their_number_is_limited() -> None:
    most = ELEMENTS_A_BYTE * 1000
    for first, second in ((most, 0), (most - 7, 7)):
        log = StepLog({3: node_log(first, {5: True}), 4: node_log(second)})
        assert StepLog.decode(log.encode(), NODES, 1000) == log
        longer = StepLog({**log.nodes, 4: node_log(second + 1)})
        with pytest.raises(InvalidEncoding, match=f"where {second} are left"):
            StepLog.decode(longer.encode(), NODES, 1000)


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
        StepLog({-1: node_log(1)})
    with pytest.raises(InvalidInput, match="2\\^40"):
        NodeLog(Form.SPARSE, 1 << 40, b"\0\0")
    with pytest.raises(InvalidInput, match="40 nodes"):
        StepLog({NODES: node_log(1)}).root(NODES)


def test_the_limit_holds_every_log_of_a_step() -> None:
    elements = [0, 1, 7, 1000]
    longest = StepLog({k: node_log(n, {}, dict.fromkeys(range(n), 1.0)) for k, n in enumerate(elements)})
    assert StepLog.decode(longest.encode(), NODES, content_limit(elements)) == longest


def test_the_runs_logs_are_the_tree_over_its_steps() -> None:
    log_source = MemoryLogs()
    assert log_source.get(1) is None
    steps = [StepLog({step: node_log(5, {step: True})}) for step in range(5)]
    for step, log in enumerate(steps, 1):
        log_source.put(step, log)
    assert log_source.get(2) == steps[1]
    tree = run_log_tree(log_source.roots(NODES))
    assert tree.root == Tree(Tag.LOG_RUN_TREE, [log.root(NODES) for log in steps]).root
