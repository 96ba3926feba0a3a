"""Servers that answer right and slowly, by a clock that a test moves."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from tests.support.local_server import LocalServer
from trainer_node.storage.artifacts import Kind, Name, parse_hash, parse_tag
from trainer_node.storage.store import Store


class Hand:
    """A clock that stands still until somebody moves it. Safe for several threads."""

    def __init__(self) -> None:
        self.now = 0.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def to(self, instant: float) -> None:
        """Move on to an instant; never back."""
        with self._lock:
            self.now = max(self.now, instant)

    def on(self, seconds: float) -> None:
        self.to(self.now + seconds)


class SlowServer(LocalServer):
    """Serves a store: each answer comes ``late`` seconds of ``clock`` after its request, and those that are open at the
    same time come together. With ``holds`` it answers nothing until ``release`` is set.

    A base address may have a path, which is a name of whom the server is asked for.
    """

    def __init__(self, store: Store | None, clock: Hand, late: float = 0.0, *, holds: bool = False) -> None:
        self.late, self.seen = late, list[tuple[str, Name]]()
        self.release, self.lost = threading.Event(), set[Name]()
        if not holds:
            self.release.set()
        slow = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                arrived, (of, name) = clock(), _asked(self.path)
                slow.seen.append((of, name))
                slow.release.wait(120)
                clock.to(arrived + slow.late)
                if store is None or not store.has(name) or name in slow.lost:
                    self.send_error(404)
                    return
                data = bytes(store.get(name))
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(data)

        super().__init__(Handler)

    @property
    def asked_for(self) -> set[str]:
        """For whom the server was asked."""
        return {of for of, _ in self.seen}

    def close(self) -> None:
        self.release.set()
        super().close()


def _asked(path: str) -> tuple[str, Name]:
    parts = urlsplit(path)
    of, _, rest = parts.path.partition("/v1/")
    kind, *tag, digest = rest.split("/")
    count = parse_qs(parts.query).get("count")
    name = Name(
        Kind(kind), parse_hash(digest), parse_tag(tag[0]) if tag else None, int(count[0]) if count else None
    )
    return of.strip("/"), name
