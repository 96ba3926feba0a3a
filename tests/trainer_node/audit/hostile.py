"""Ways to damage a published run: in its folder, or on the way from a web server."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.local_server import LocalServer

Damage = Callable[[Path], None]


def claim(**changes: Any) -> Damage:
    """Return what changes fields of claim.json; None removes one."""

    def damage(run: Path) -> None:
        told = json.loads((run / "claim.json").read_text())
        for name, value in changes.items():
            value = value(told) if callable(value) else value
            told = (
                {**told, name: value} if value is not None else {k: v for k, v in told.items() if k != name}
            )
        (run / "claim.json").write_text(json.dumps(told))

    return damage


def text(make: Callable[[str], str | bytes]) -> Damage:
    """Return what makes another claim.json of the right one."""

    def damage(run: Path) -> None:
        made = make((run / "claim.json").read_text())
        (run / "claim.json").write_bytes(made if isinstance(made, bytes) else made.encode())

    return damage


def every(kind: str, change: Callable[[Path], None]) -> Damage:
    """Return what changes all artifacts of a kind."""

    def damage(run: Path) -> None:
        found = [path for path in (run / "artifacts" / kind).rglob("*") if path.is_file()]
        assert found, kind
        for path in found:
            change(path)

    return damage


def swapped(kind: str) -> Damage:
    """Return what gives each artifact of a kind the bytes of another one."""

    def damage(run: Path) -> None:
        found = sorted(path for path in (run / "artifacts" / kind).rglob("*") if path.is_file())
        data = [path.read_bytes() for path in found]
        for path, other in zip(found, data[1:] + data[:1], strict=True):
            path.write_bytes(other)

    return damage


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def longer(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def huge(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # NOTE: a hole, which takes no disk


def empty(path: Path) -> None:
    path.write_bytes(b"")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def nan(path: Path) -> None:
    """Give a tensor a NaN with other bits than the canonical one."""
    data = bytearray(path.read_bytes())
    data[-4:] = np.uint32(0x7FC00001).tobytes()
    path.write_bytes(data)


def upper(path: Path) -> None:
    path.rename(path.with_name(path.name.upper()))


# ------------------------------------------------------------------------------------------------ a web server

Serve = Callable[[BaseHTTPRequestHandler, bytes, int], None]
"""Answers a request for a file with these bytes; the number counts requests."""


def _head(handler: BaseHTTPRequestHandler, length: int | None, **headers: str) -> None:
    handler.send_response(200)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


def plain(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    _head(handler, len(data))
    handler.wfile.write(data)


def breaks_off(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    _head(handler, len(data) + 10)
    handler.wfile.write(data)
    handler.close_connection = True


def says_less(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    _head(handler, len(data) // 2)
    handler.wfile.write(data)
    handler.close_connection = True


def bomb(handler: BaseHTTPRequestHandler, _: bytes, __: int) -> None:
    packed = gzip.compress(bytes(64 << 20))
    _head(handler, len(packed), Content_Encoding="gzip")
    handler.wfile.write(packed)


def unpacked(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    packed = gzip.compress(data)
    _head(handler, len(packed), Content_Encoding="gzip")
    handler.wfile.write(packed)


def floods(handler: BaseHTTPRequestHandler, _: bytes, __: int) -> None:
    _head(handler, None)
    while True:
        handler.wfile.write(bytes(1 << 16))


def drips(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    _head(handler, len(data))
    for byte in data:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.2)


def drips_headers(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
    for number in range(200):
        handler.wfile.write(b"X-%d: 1\r\n" % number)
        handler.wfile.flush()
        time.sleep(0.2)
    handler.wfile.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)


def sleeps(_: BaseHTTPRequestHandler, __: bytes, ___: int) -> None:
    time.sleep(30)


def hangs_up(handler: BaseHTTPRequestHandler, _: bytes, __: int) -> None:
    handler.close_connection = True


def redirects(handler: BaseHTTPRequestHandler, _: bytes, __: int) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/copy" + handler.path)
    handler.end_headers()


def fails(handler: BaseHTTPRequestHandler, _: bytes, __: int) -> None:
    handler.send_error(500)


def junk(handler: BaseHTTPRequestHandler, data: bytes, _: int) -> None:
    plain(handler, bytes(255 - byte for byte in data), 0)


@contextmanager
def served(run: Path, victim: str, serve: Serve) -> Iterator[str]:
    """Serve a folder. Files whose address contains ``victim`` are answered by ``serve``."""
    asked: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = run / self.path.removeprefix("/copy").lstrip("/")
            if not path.is_file():
                self.send_error(404)
                return
            asked[self.path] = asked.get(self.path, 0) + 1
            hit = victim in self.path and not self.path.startswith("/copy")
            try:
                (serve if hit else plain)(self, path.read_bytes(), asked[self.path])
            except OSError:
                self.close_connection = True  # the other side has hung up

    with LocalServer(Handler) as server:
        yield server.uri
