"""An RPC endpoint whose answers a test chooses, over real HTTP, and a client that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from tests.support.local_server import LocalServer
from trainer_node.chain import ChainClient, Deployment, connect
from trainer_node.chain.contracts import NAMES

ADDRESS = "0x000000000000000000000000000000000000dEaD"
DEPLOYMENT = Deployment(31337, 0, dict.fromkeys(NAMES, ADDRESS), dict.fromkeys(NAMES, "0x00"))


class Endpoint(LocalServer):
    """Answers `eth_chainId` correctly, so that clients connect, and the rest with `answer(request)`: status, body."""

    def __init__(self) -> None:
        self.answer: Callable[[dict], tuple[int, bytes]] = lambda _: (500, b"")
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = (200, result(request, "0x7a69"))
                if request["method"] != "eth_chainId":
                    status, body = endpoint.answer(request)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)
        self.url = self.uri

    def client(self, timeout_s: float = 60.0) -> ChainClient:
        """Return a client of a deployment whose contracts are all at one address. It asks again without a pause."""
        web3 = connect(self.url, 31337, timeout_s=timeout_s, max_bytes=1 << 20, sleep=lambda _: None)
        return ChainClient(web3, DEPLOYMENT)


def result(request: dict, value: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()
