"""A signer that speaks Web3Signer's HTTP interface for eth1 keys, over real HTTP; it can be told to misbehave."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils.crypto import keccak

from tests.support.local_server import LocalServer

_LIST, _SIGN = "/api/v1/eth1/publicKeys", "/api/v1/eth1/sign/"
Answer = tuple[int, bytes]


class Web3Signer(LocalServer):
    """Signs keccak-256 of whatever it is asked to, with the named key, as ``r ‖ s ‖ v`` in hexadecimal text.

    ``lie`` turns a right answer to a request to sign into another one.
    """

    def __init__(self, *keys: str | bytes) -> None:
        self._accounts: dict[str, LocalAccount] = {}
        for key in keys:
            account = Account.from_key(key)
            self._accounts["0x" + account._key_obj.public_key.to_bytes().hex()] = account
        self.signed: list[bytes] = []
        self.lie: Callable[[Answer], Answer] = lambda answer: answer
        self.keys = [*self._accounts]
        signer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                known = self.path == _LIST
                self._send(
                    (200, json.dumps(signer.keys).encode()) if known else (404, b""), "application/json"
                )

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                account = signer._accounts.get(self.path.removeprefix(_SIGN).lower())
                if account is None or not self.path.startswith(_SIGN):
                    self._send((404, b""))
                    return
                data = bytes.fromhex(json.loads(body)["data"].removeprefix("0x"))
                signer.signed.append(data)
                signed = account.unsafe_sign_hash(keccak(data))  # type: ignore[arg-type]
                self._send(signer.lie((200, b"0x" + bytes(signed.signature).hex().encode())))

            def _send(self, answer: Answer, kind: str = "text/plain; charset=utf-8") -> None:
                status, body = answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)
