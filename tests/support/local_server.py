"""An HTTP server of this machine whose answers a test chooses."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """NOTE: with five, as usual, a connection of many at once is tried again after a second."""


class LocalServer:
    """Answers requests by ``handler``, each in a thread, until it is closed, and logs none. A context manager, too."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        # NOTE: an answer is two writes, and the second one would wait 40 ms for the receipt of the first.
        quiet = type("Quiet", (handler,), {"log_message": lambda *_: None, "disable_nagle_algorithm": True})
        self._http = _Server(("127.0.0.1", 0), quiet)
        self.uri = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Answer no more."""
        self._http.shutdown()
        self._http.server_close()
