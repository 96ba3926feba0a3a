"""Generated hostility: bytes of artifacts, fields of jobs on the chain, servers that send them. All from one seed."""

from __future__ import annotations

import io
import itertools
import random
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import cbor2
import zstandard

from referee_py.errors import AssayError
from referee_py.program.terms import Terms
from tests.support.local_server import LocalServer
from trainer_node.chain import JobView
from trainer_node.network.uri import MAX_URI_BYTES

MIB = 1 << 20
Body = bytes | Iterable[bytes]
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    1 << 63,
    1 << 300,
    -(1 << 64),
    0.5,
    float("nan"),
    float("inf"),
    "",
    "\x1b[2J\x00‮",
    "x" * 70_000,
    "../../etc/passwd",
    b"",
    bytes(70_000),
    [],
    [[]] * 1000,
    {},
    {1: {2: {3: 4}}},
    cbor2.CBORTag(2, b"\xff" * 1000),
    cbor2.CBORTag(258, [1, 1]),
)
"""Values where others are wanted: wrong types, and numbers and texts at and beyond every limit."""


# ------------------------------------------------------------------ bytes


def flipped(draw: random.Random, right: bytes) -> bytes:
    data = bytearray(right or b"\0")
    for _ in range(draw.choice((1, 1, 2, 8, 100))):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def truncated(draw: random.Random, right: bytes) -> bytes:
    return right[: draw.randrange(len(right) + 1)]


def longer(draw: random.Random, right: bytes) -> bytes:
    return right + draw.choice((b"\0", right, draw.randbytes(1000), b"\xff" * 65536))


def spliced(draw: random.Random, right: bytes) -> bytes:
    """A part of the bytes again somewhere else."""
    start, at = draw.randrange(len(right) + 1), draw.randrange(len(right) + 1)
    return right[:at] + right[start : start + draw.randrange(1, 200)] + right[at:]


def noise(draw: random.Random, _right: bytes) -> bytes:
    return draw.randbytes(draw.choice((0, 1, 2, 3, 31, 32, 33, 1000, 100_000)))


def deep(draw: random.Random, _right: bytes) -> bytes:
    """Brackets within brackets, of CBOR or of JSON."""
    depth = draw.choice((100, 5000, 200_000))
    brackets = (b"\x81", b"\x00"), (b"\xa1\x00", b"\x00"), (b"\xc1", b"\x00"), (b"\x9f", b""), (b"[", b"]")
    head, tail = draw.choice(brackets)
    return head * depth + tail


def boastful(draw: random.Random, right: bytes) -> bytes:
    """A header that promises more than any memory holds."""
    size = draw.choice((1 << 20, 1 << 32, (1 << 63) - 1, (1 << 64) - 1))
    head = bytes([draw.choice((0x5B, 0x7B, 0x9B, 0xBB))]) + struct.pack(">Q", size)
    return draw.choice(
        (head, right[:1] + head + right[1:], head + right, b"\x01\x08" + struct.pack(">Q", size) * 8)
    )


def bomb(draw: random.Random, _right: bytes) -> bytes:
    """A little that unpacks to a lot."""
    return zstandard.compress(bytes(draw.choice((1, 64)) * MIB))


def markup(draw: random.Random, _right: bytes) -> bytes:
    heads = b"<html>", b"{}", b"null", b"\x80\x04K\x01.", b"PK\x03\x04", b"\x93NUMPY\x01\0"
    return draw.choice(heads) + draw.randbytes(50)


def retyped(draw: random.Random, right: bytes) -> bytes:
    """Sound CBOR in which one value is another one; noise for what is not CBOR."""
    try:
        tree = cbor2.loads(right)
    except Exception:
        return noise(draw, right)
    places = list(_places(tree))
    if not places:
        return noise(draw, right)
    holder, key = draw.choice(places)
    act = draw.randrange(4)
    if act == 0 and isinstance(holder, dict):
        del holder[key]
    elif act == 1 and isinstance(holder, list):
        holder.insert(key, draw.choice(STRANGE))
    else:
        holder[key] = draw.choice(STRANGE)
    out = io.BytesIO()
    cbor2.CBOREncoder(out, canonical=draw.random() < 0.5).encode(tree)
    return out.getvalue()


def _places(tree: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield tree, key
            yield from _places(value)


BYTES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    flipped,
    truncated,
    longer,
    spliced,
    noise,
    deep,
    boastful,
    bomb,
    markup,
    retyped,
    retyped,
)


# ------------------------------------------------------------------ fields of a job

WIDTHS = {"opset": 32, "mode": 8, "node_count": 32, "slot_count": 32, "constant_count": 32, "steps": 64}
"""Bits of the numbers in the contract's Program struct: it takes any."""


def uri(draw: random.Random) -> str:
    """A text where a server's address is wanted."""
    return draw.choice(
        (
            "",
            "x" * (MAX_URI_BYTES + 1),
            "http://" + "a." * 250,
            "http://127.0.0.1:99999",
            "http://[::1",
            "http://[fe80::1%25eth0]:9",
            "file:///dev/zero",
            "ftp://127.0.0.1",
            "http://user:secret@127.0.0.1",
            "http://127.0.0.1:9/?x=1",
            "http://127.0.0.1:9/\x1b[2J",
            "http://127.0.0.1:9/../../etc",
            "HTTP://127.0.0.1:9/%00",
            "http://xn--\udcff",
            "http://127.0.0.1:9\r\nX: y",
            "".join(chr(draw.randrange(1, 0x3000)) for _ in range(draw.randrange(1, 60))),
        )
    )


def fields(draw: random.Random, job: JobView) -> JobView:
    """A job with some fields of which the contract takes any value of their width."""
    terms, width = job.program, WIDTHS
    changes: dict[str, Any] = {}
    for name in draw.sample(sorted(width), draw.randrange(0, 3)):
        changes[name] = draw.choice((0, 1, 2, (1 << width[name]) - 1, draw.getrandbits(width[name])))
    for name in draw.sample(
        ("structure_root", "slot_root", "constant_root", "initial_root"), draw.randrange(0, 2)
    ):
        changes[name] = draw.randbytes(32)
    if draw.random() < 0.3:
        changes["strides"] = draw.choice(((), (0,), (1, 2), (1 << 63, 1), tuple([1] * 8), (3, 2, 1)))
    try:
        program: Terms = replace(terms, **changes)
    except AssayError:
        program = terms
    big = (1 << 128) - 1
    return replace(
        job,
        program=program,
        uri=uri(draw) if draw.random() < 0.3 else job.uri,
        reward=draw.choice((0, 1, big)),
        stake=draw.choice((0, 1, big)),
        train_period=draw.choice((0, 1, (1 << 64) - 1)),
        client="0x" + draw.randbytes(20).hex(),
    )


# ------------------------------------------------------------------ a server


class HostileServer(LocalServer):
    """Sends whatever it is given for a path: a body and how it is sent."""

    def __init__(self) -> None:
        self.bodies: dict[str, tuple[str, Body]] = {}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                how, body = server.bodies.get(self.path.partition("?")[0], ("plain", None))
                try:
                    _send(self, how, body)
                except OSError:
                    return

        super().__init__(Handler)


WAYS = (
    *("plain", "plain", "plain", "short", "lied-long", "chunks"),
    *("endless", "error", "elsewhere", "packed", "cut", "nothing"),
)
"""How a body is sent; mostly as it is."""


def _send(handler: BaseHTTPRequestHandler, how: str, body: Any) -> None:
    if how == "nothing":
        handler.close_connection = True
        return
    status = {"error": 500, "elsewhere": 302}.get(how, 404 if body is None else 200)
    handler.send_response(status)
    data = bytes(body or b"")
    length = {"short": len(data) // 2, "lied-long": len(data) + 10**15, "cut": len(data) + 10}.get(
        how, len(data)
    )
    if how == "elsewhere":
        handler.send_header("Location", "http://127.0.0.1:9/")
    if how == "packed":
        handler.send_header("Content-Encoding", "gzip")
    if how == "chunks":
        handler.send_header("Transfer-Encoding", "chunked")
    elif how != "endless":
        handler.send_header("Content-Length", str(length))
    handler.end_headers()
    if how == "chunks":
        handler.wfile.write(b"ffffffffffffffff\r\n" + data)
    elif how == "endless":
        for piece in itertools.chain([data], itertools.repeat(bytes(MIB))):
            handler.wfile.write(piece)
    else:
        handler.wfile.write(data)
    handler.close_connection = True
