"""An artifact server of a trainer that answers requests for its rounding logs with other content."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

import numpy as np
import zstandard

from referee_py.commit import NO_LOG, Tag
from referee_py.program.modes import Form
from referee_py.rounding.step_log import NodeLog, StepLog
from tests.support.local_server import LocalServer
from trainer_node.storage.artifacts import Kind, Name, parse_hash
from trainer_node.storage.store import Store

from .brink import COUNT, Y
from .forgeries import DAMAGES

MIB = 1 << 20
Response = bytes | Iterable[bytes] | None
"""The body; in pieces if it has no length header; None: 404."""
Lie = Callable[[bytes, int], Response]
"""Makes an answer from the right bytes and the number of earlier requests for the file."""


class HostileServer(LocalServer):
    """Serves a store except for files of one kind, as a context manager."""

    def __init__(self, kind: str, lie: Lie) -> None:
        self.store: Store | None = None
        self.lies = 0
        asked: Counter[str] = Counter()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(handler) -> None:  # noqa: N805
                path = handler.path
                answer: Response = self._file(path)
                if isinstance(answer, bytes) and path.startswith(kind):
                    answer = lie(answer, asked[path])
                    asked[path] += 1
                    self.lies += 1
                _send(handler, answer)

        super().__init__(Handler)

    def _file(self, path: str) -> bytes | None:
        parts = urlsplit(path)
        kind, *tag, digits = parts.path.removeprefix("/v1/").split("/")
        count = int(parts.query.removeprefix("count=")) if parts.query else None
        name = Name(Kind(kind), parse_hash(digits), Tag(int(tag[0], 16)) if tag else None, count)
        found = self.store.find(name) if self.store else None
        return found.read_bytes() if found else None


def _send(handler: BaseHTTPRequestHandler, answer: Response) -> None:
    handler.send_response(404 if answer is None else 200)
    if answer is None or isinstance(answer, bytes):
        handler.send_header("Content-Length", str(len(answer or b"")))
        handler.end_headers()
        handler.wfile.write(answer or b"")
        return
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    try:
        for piece in answer:
            handler.wfile.write(piece)
    except OSError:
        return  # the client has closed the connection


# ---------------------------------------------------------------------------------------------- step logs


def bomb(_right: bytes, _before: int) -> bytes:
    """64 MiB of zeros in a few thousand bytes, with a header that states the size."""
    return zstandard.compress(bytes(64 * MIB))


def quiet_bomb(right: bytes, before: int) -> bytes:
    """The bomb with a header that states 100 bytes."""
    frame = bytearray(bomb(right, before))
    single = frame[4] >> 5 & 1
    assert frame[4] >> 6 == 2, "the size takes four bytes"
    at = 5 + (not single)
    assert int.from_bytes(frame[at : at + 4], "little") == 64 * MIB
    frame[at : at + 4] = (100).to_bytes(4, "little")
    return bytes(frame)


def nameless_bomb(_right: bytes, _before: int) -> bytes:
    """The bomb without a stated size."""
    packer = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return packer.compress(bytes(64 * MIB)) + packer.flush()


def flood(right: bytes, _before: int) -> Iterable[bytes]:
    """Endless noise after a right beginning."""
    noise = np.random.default_rng(9).bytes(MIB)
    return itertools.chain([right], itertools.repeat(noise, 1 << 20))


def another_log(right: bytes, _before: int) -> bytes:
    """A well-formed log of a step, but another one."""
    return StepLog({Y: NodeLog(Form.SPARSE, COUNT, b"\1\0\3\1")}).encode()


def a_node_too_far(_right: bytes, _before: int) -> bytes:
    return StepLog({1 << 30: NodeLog(Form.SPARSE, COUNT, b"\1\0\3\1")}).encode()


def damaged(damage: Callable[[NodeLog], NodeLog]) -> Lie:
    """The right file, except that one node's log cannot be read."""

    def lie(right: bytes, _: int) -> bytes:
        nodes = StepLog.decode(right, 1 << 24, 1 << 30).nodes
        return StepLog({**nodes, Y: damage(nodes[Y])}).encode()

    return lie


def fickle(right: bytes, before: int) -> bytes:
    """A different answer each time; the fourth is right."""
    return right if before >= 3 else (another_log, bomb, a_node_too_far)[before](right, before)


OF_STEPS: dict[str, Lie] = {
    "bomb": bomb,
    "bomb-in-disguise": quiet_bomb,
    "bomb-without-a-size": nameless_bomb,
    "flood": flood,
    "another-log": another_log,
    "a-node-too-far": a_node_too_far,
    "cut-off": lambda right, _: right[:-3],
    "trailing": lambda right, _: right + b"\0",
    "two-frames": lambda right, _: right + right,
    "not-zstd": lambda right, _: b"<html>" + right,
    "empty": lambda *_: b"",
    "missing": lambda *_: None,
    **{name.replace(" ", "-"): damaged(damage) for name, damage in DAMAGES.items()},
}
OF_RUNS: dict[str, Lie] = {
    "another-root": lambda right, _: right[32:] + right[:32],
    "a-leaf-more": lambda right, _: right + NO_LOG,
    "a-leaf-less": lambda right, _: right[:-32],
    "half-a-leaf": lambda right, _: right[:-5],
    "flood": flood,
    "missing": lambda *_: None,
}
