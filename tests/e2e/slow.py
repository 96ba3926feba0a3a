"""A server of right artifacts, each of which takes its time: seconds of the chain, which a test moves."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.local_server import LocalServer
from trainer_node.storage.artifacts import Kind, Name, parse_hash, parse_tag
from trainer_node.storage.store import Store


class SlowServer(LocalServer):
    """Serves a store. ``delay_s``: between a request and its answer, on the clock that `pass_s` moves."""

    def __init__(self, folder: Path, delay_s: int) -> None:
        self.delay_s = delay_s
        self._folder = folder
        self._now = self._waiting = 0
        self._closed = False
        self._moved = threading.Condition()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._wait()
                parts = urlsplit(self.path)
                words = parts.path.strip("/").split("/")[1:]
                count = parse_qs(parts.query).get("count")
                tag = parse_tag(words[1]) if words[0] == Kind.TREE else None
                name = Name(Kind(words[0]), parse_hash(words[-1]), tag, int(count[0]) if count else None)
                found = None if server._closed else Store(server._folder, sync=False).find(name)
                data = b"" if found is None else found.read_bytes()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        super().__init__(Handler)

    def _wait(self) -> None:
        with self._moved:
            until = self._now + self.delay_s
            self._waiting += 1
            self._moved.wait_for(lambda: self._closed or self._now >= until)
            self._waiting -= 1

    @property
    def waiting(self) -> int:
        """Requests that wait for their answers."""
        with self._moved:
            return self._waiting

    def pass_s(self, seconds: int) -> None:
        """Let time pass."""
        with self._moved:
            self._now += seconds
            self._moved.notify_all()

    def vanish(self) -> None:
        """Answer everything at once, that it is not here."""
        with self._moved:
            self._closed = True
            self._moved.notify_all()

    def close(self) -> None:
        self.vanish()
        super().close()
