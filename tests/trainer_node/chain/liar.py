"""An endpoint that answers what it likes, before a real chain."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.campaigns.proxy import FaultProxy

ENDLESS = "0x" + "f" * 5000
"""A number of more digits than Python prints."""


class Liar(FaultProxy):
    """Answers some methods as it likes: with a value, or with a function of the true answer."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.lies: dict[str, object] = {}

    def answer(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        lie = self.lies.get(request["method"])
        if lie is None:
            super().answer(handler, request)
            return
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": lie}
        if callable(lie):
            answer |= lie(self._client.post(self.upstream, json=request).json())
        self._send(handler, 200, json.dumps(answer).encode())
