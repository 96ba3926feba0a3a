"""Whatever strangers send, the service answers with an error of its schema or serves it, and nobody else notices."""

from __future__ import annotations

import json
import select
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from assay_serve import web
from assay_serve.engine import Capacity
from assay_serve.model import Model
from assay_serve.requests import Limits
from assay_serve.web import Service

from . import tiny
from .tiny import HTTP

Running = tuple[Service, str]
JSON = {"content-type": "application/json"}
CHAT: dict[str, Any] = {
    "model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "seed": 1, "temperature": 1,
}  # fmt: skip
TEXT: dict[str, Any] = {"model": "tiny", "prompt": "hi", "max_tokens": 4, "seed": 1}


def post(length: int) -> bytes:
    """Return the head of a request with a body."""
    return (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {length}"
        "\r\n\r\n"
    ).encode()


def chat(**given: Any) -> bytes:
    return json.dumps({**CHAT, **given}).encode()


def said(content: Any, **more: Any) -> bytes:
    return chat(messages=[{"role": "user", "content": content, **more}])


def text(**given: Any) -> bytes:
    return json.dumps({**TEXT, **given}).encode()


NO_CHATS: dict[str, bytes] = {
    "nothing": b"",
    "a space": b" ",
    "a word": b"hello",
    "a number": b"1",
    "a list": b"[]",
    "null": b"null",
    "an empty object": b"{}",
    "half an object": chat()[:-1],
    "two objects": chat() * 2,
    "zeros": bytes(1000),
    "random bytes": bytes(range(256)),
    "utf-16": chat().decode().encode("utf-16"),
    "utf-32": chat().decode().encode("utf-32"),
    "a byte order mark": b"\xef\xbb\xbf" + chat(),
    "bytes that are no utf-8": chat().replace(b'"hi"', b'"\xff\xfe"'),
    "an overlong slash": chat().replace(b'"hi"', b'"\xc0\xaf"'),
    "a surrogate in bytes": chat().replace(b'"hi"', b'"\xed\xa0\x80"'),
    "half a surrogate pair": chat().replace(b'"hi"', b'"\\ud800"'),
    "the other half": chat().replace(b'"hi"', b'"\\udc00 \\ud800"'),
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "a deep field": chat().replace(b'"hi"', b"[" * 5000 + b"]" * 5000),
    "NaN": chat().replace(b'"temperature": 1', b'"temperature": NaN'),
    "infinity": chat().replace(b'"temperature": 1', b'"temperature": Infinity'),
    "a large exponent": chat().replace(b'"temperature": 1', b'"temperature": 1e999'),
    "a large number": chat().replace(b'"seed": 1', b'"seed": ' + b"9" * 5000),
    "a quoted number": chat(max_tokens="4"),
    "a fraction of a token": chat(max_tokens=1.5),
    "a truth as a number": chat(max_tokens=True),
    "a truth as a temperature": chat(temperature=True),
    "a number as a truth": chat(stream=1),
    "negative tokens": chat(max_tokens=-1),
    "tokens beyond i64": chat(max_tokens=1 << 70),
    "negative choices": chat(n=-3),
    "many choices": chat(n=10**9),
    "no model": json.dumps({key: value for key, value in CHAT.items() if key != "model"}).encode(),
    "a model that is a list": chat(model=["tiny"]),
    "messages that are a text": chat(messages="hi"),
    "messages in an object": chat(messages={"0": {"role": "user", "content": "hi"}}),
    "a message that is null": chat(messages=[None]),
    "a message without a role": chat(messages=[{"content": "hi"}]),
    "a role that nobody has": chat(messages=[{"role": "root", "content": "hi"}]),
    "a role with a template in it": chat(messages=[{"role": "{{ 7 * 7 }}", "content": "hi"}]),
    "content that is null": said(None),
    "content that is a number": said(3),
    "content of images": said([{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x"}}]),
    "a part without a type": said([{"text": "hi"}]),
    "a field of a message that nobody knows": said("hi", hidden="x"),
    "too many messages": chat(messages=CHAT["messages"] * 1025),
    "a prompt beyond the window": said("x" * 1000),
    "stops that are numbers": chat(stop=[1]),
    "a long stop": chat(stop="x" * 201),
    "many stops": chat(stop=["x"] * 5),
    "options of a stream that nobody knows": chat(stream=True, stream_options={"include_everything": True}),
    "a field called __class__": chat(**{"__class__": "x"}),
    "a field without a name": chat(**{"": "x"}),
    "a field with a long name": chat(**{"x" * 10_000: 1}),
    "a thousand fields": chat(**{f"field{k}": k for k in range(1000)}),
    "a prompt in a chat": chat(prompt="hi"),
    "tools": chat(tools=[{"type": "function", "function": {"name": "f"}}]),
    "a schema of the answer": chat(response_format={"type": "json_object"}),
}
NO_COMPLETIONS: dict[str, bytes] = {
    "no prompt": text(prompt=None),
    "no prompts": text(prompt=[]),
    "an empty text": text(prompt=""),
    "empty tokens": text(prompt=[[]]),
    "a token below 0": text(prompt=[-1]),
    "a token that the model lacks": text(prompt=[261]),
    "a token beyond i64": text(prompt=[1 << 80]),
    "a token that is a fraction": text(prompt=[1.5]),
    "a token that is a truth": text(prompt=[True]),
    "texts and tokens": text(prompt=["a", 1]),
    "lists of lists of lists": text(prompt=[[[1]]]),
    "many prompts": text(prompt=["a"] * 17),
    "many prompts with many choices": text(prompt=["a"] * 9, n=2),
    "a prompt of the whole window": text(prompt=[5] * tiny.PLACES),
    "many log-probabilities": text(logprobs=6),
    "log-probabilities that are a truth": text(logprobs=True),
    "an echo": text(echo=True),
    "a suffix": text(suffix="x"),
    "the best of many": text(best_of=5),
    "messages": text(messages=CHAT["messages"]),
}
STRANGE_TEXTS = {
    "a zero": "\0",
    "control characters": "".join(map(chr, range(32))),
    "right to left": "\u202e\u2067abc\u2069",
    "marks without letters": "\u0301" * 40,
    "joined faces": "👩‍👩‍👧‍👦" * 3,
    "beyond the plane": "\U0010ffff\U000e0001",
    "no characters": "\ufffe\uffff\ufffd",
    "separators": "\u2028\u2029\x85\r\n\r\n",
    "an event": "data: [DONE]\n\n",
    "special tokens": "</s><|assistant|><|system|>",
    "a template": "{{ messages }}{% for x in y %}{% raw %}",
    "a header": "X-Assay-Receipt: 0\r\n",
    "markup": "<script>alert(1)</script>[red]x[/red]",
    "a path": "../../etc/passwd",
    "nothing but spaces": " " * 50,
}


@pytest.fixture(scope="module")
def hostile(model: Model) -> Iterator[Running]:
    with tiny.service(model, Capacity(rows=2, chunk=8, waiting=8), Limits(tokens=64, body=200_000)) as found:
        yield found


def reference(address: str) -> tuple[str, str]:
    """Return the answer of an honest client, and its log-probabilities."""
    reply = HTTP.post(
        f"{address}/v1/chat/completions", content=chat(logprobs=True, max_tokens=8), headers=JSON
    )
    choice = reply.json()["choices"][0]
    return choice["message"]["content"], json.dumps(choice["logprobs"])


def refused(reply: httpx.Response) -> bool:
    """Return whether a reply is an error in the schema of the API that repeats no long text."""
    error = reply.json()["error"]
    return (
        400 <= reply.status_code < 500
        and set(error) == {"message", "type", "param", "code"}
        and len(reply.content) < 1500
    )


@pytest.mark.parametrize(
    ("path", "bodies"),
    [("chat/completions", NO_CHATS), ("completions", NO_COMPLETIONS)],
    ids=["chat", "text"],
)
def test_bodies_that_are_no_requests_are_refused(
    hostile: Running, path: str, bodies: dict[str, bytes]
) -> None:
    service, address = hostile
    before = reference(address)
    for name, body in bodies.items():
        assert refused(HTTP.post(f"{address}/v1/{path}", content=body, headers=JSON)), name
    assert reference(address) == before
    assert service.engine.counts.failures == service.engine.running == service.engine.waiting == 0


def test_strange_texts_are_texts(hostile: Running) -> None:
    _, address = hostile
    before = reference(address)
    for name, strange in STRANGE_TEXTS.items():
        reply = HTTP.post(f"{address}/v1/chat/completions", content=said(strange[:100]), headers=JSON)
        assert reply.status_code == 200, name
        assert reply.json()["choices"][0]["receipt"]
        streamed = HTTP.post(
            f"{address}/v1/completions", content=text(prompt=strange[:100], stream=True), headers=JSON
        )
        events = [line for line in streamed.text.split("\n") if line]
        assert events[-1] == "data: [DONE]", name
        assert all(line.startswith("data: ") for line in events), name
    assert reference(address) == before


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/chat/completions", {}, 405),
        ("DELETE", "/v1/models", {}, 405),
        ("GET", "/", {}, 404),
        ("GET", "/v1/receipts/", {}, 404),
        ("GET", "/v1/receipts/..%2f..%2fetc%2fpasswd", {}, 404),
        ("GET", "/v1/receipts/" + "a" * 5000, {}, 404),
        ("GET", "/v1/models/%00", {}, 404),
        ("GET", "/v1/models/%ff%fe", {}, 404),
        ("GET", "/v1/models/" + "x" * 5000, {}, 404),
        ("GET", "/openapi.json", {}, 404),
        ("GET", "/docs", {}, 404),
        ("POST", "/v1/chat/completions", {"content-type": "text/plain"}, 415),
        ("POST", "/v1/chat/completions", {"content-type": "multipart/form-data; boundary=x"}, 415),
        ("POST", "/v1/chat/completions", {"content-type": ""}, 415),
        ("POST", "/v1/chat/completions", {**JSON, "authorization": "B " + "x" * 9000}, 200),
    ],
)  # fmt: skip
def test_addresses_and_headers(
    hostile: Running, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    reply = HTTP.request(
        method, hostile[1] + path, content=chat() if method == "POST" else None, headers=headers
    )
    assert reply.status_code == status
    assert status == 200 or refused(reply)


def test_a_body_that_is_too_large_is_not_read_to_its_end(hostile: Running) -> None:
    _, address = hostile
    reply = HTTP.post(f"{address}/v1/chat/completions", content=said("x" * 300_000), headers=JSON)
    assert (reply.status_code, refused(reply)) == (413, True)
    assert reply.headers["connection"] == "close"
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 1 << 26:
            sent += 1 << 16
            yield b" " * (1 << 16)

    try:
        reply = HTTP.post(f"{address}/v1/chat/completions", content=endless(), headers=JSON)
        assert reply.status_code == 413
    except httpx.TransportError:  # NOTE: the connection may be cut while we still write
        pass
    assert sent < 1 << 26


def test_a_body_that_does_not_come_is_given_up(hostile: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "BODY_S", 0.01)
    assert b" 408 " in sent_raw(hostile[1], post(99) + b"{").split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("chat/completions", "text/plain", b" 415 "),
        ("chat/completions", "application/json", b" 401 "),
        ("nowhere", "application/json", b" 404 "),
    ],
)
def test_who_is_refused_before_its_body_has_come_hears_why(
    model: Model, path: str, kind: str, status: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's library sends head and body one after the other: closed in between, the connection is reset."""
    monkeypatch.setattr(web, "SKIP_S", 600.0)
    body, keys = chat(), frozenset({bytes(32)} if status == b" 401 " else ())
    head = (
        post(len(body))
        .replace(b"chat/completions", path.encode())
        .replace(b"application/json", kind.encode())
    )
    with tiny.service(model, keys=keys) as (_, address):
        place = urlsplit(address)
        with socket.create_connection((place.hostname, place.port), timeout=600) as connection:
            connection.sendall(head)
            assert not select.select([connection], [], [], 0.3)[0], "it waits for the body"
            connection.sendall(body)
            found = b""
            while part := connection.recv(65536):
                found += part
    assert status in found.split(b"\r\n")[0]
    assert found.endswith(b"}")


def test_a_body_that_is_refused_unread_is_not_waited_for(
    hostile: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "SKIP_S", 0.01)
    head = post(99).replace(b"application/json", b"text/plain")
    assert b" 415 " in sent_raw(hostile[1], head + b"{").split(b"\r\n")[0]
    before = reference(hostile[1])
    monkeypatch.setattr(web, "SKIP_S", 600.0)
    sent_raw(hostile[1], post(1 << 30).replace(b"application/json", b"text/plain") + b" " * (1 << 17))
    assert reference(hostile[1]) == before


RAW = {
    "no http": b"hello\r\n\r\n",
    "zeros": bytes(200),
    "tls": bytes.fromhex("160301020001000001fc0303") + bytes(200),
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a wrong version": b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    "a negative length": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "two lengths": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length and chunks": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
    "a wrong chunk": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nZZ\r\nx\r\n",
    "a long header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X%d: 1\r\n" % k for k in range(9000)) + b"\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\nConnection: close\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "another's address": b"GET http://example.org/ HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n",
    "a websocket": b"GET /v1/models HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade, close\r\n"
    b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
}  # fmt: skip


def sent_raw(address: str, data: bytes) -> bytes:
    """Send bytes; return what comes until the server closes the connection, or has answered."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=600) as connection:
        found = b""
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                found += part
                if b"\r\n\r\n" in found and b"close" not in data:
                    break
        except OSError:
            pass
        return found


def test_bytes_that_are_no_http_get_no_service(hostile: Running) -> None:
    _, address = hostile
    before = reference(address)
    for name, data in RAW.items():
        assert not sent_raw(address, data).startswith(b"HTTP/1.1 500"), name
    assert reference(address) == before


def test_clients_that_go_away_leave_no_work_behind(hostile: Running) -> None:
    service, address = hostile
    before = reference(address)
    place = urlsplit(address)
    for stream in (True, False) * 6:
        body = chat(stream=stream, max_tokens=60, n=2)
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(post(len(body)) + body)
            if stream:
                connection.recv(10)
    tiny.wait_for(lambda: service.engine.running == service.engine.waiting == 0)
    assert service.engine.counts.failures == 0
    assert reference(address) == before


def test_who_does_not_read_his_stream_holds_up_nobody(hostile: Running) -> None:
    """INVARIANT: the pieces of an answer that nobody reads are at most its tokens."""
    service, address = hostile
    before = reference(address)
    place = urlsplit(address)
    body = chat(stream=True, max_tokens=60, n=2, logprobs=True, top_logprobs=20)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        connection.connect((place.hostname, place.port))
        connection.sendall(post(len(body)) + body)
        assert reference(address) == before
        tiny.wait_for(lambda: service.engine.running == service.engine.waiting == 0)
