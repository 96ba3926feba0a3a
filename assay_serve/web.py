"""The service over HTTP: models, completions, receipts, health and metrics.

    request ── key, size, schema ──> answers ──> Engine ── pieces ──> reply, whole or as server-sent events
                  └─ Refused: an error in the schema of the API

SAFETY: connections, slow senders and slow readers are bounded below this (`trainer_node.network.bounded_http`); a body
by its size and time, here; what waits and what one request asks for by `Limits` and the engine's `Capacity`. A client
that goes away is noticed, and its answers are taken out of the engine.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, generate_latest
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from trainer_node.network.shared_reading import SharedReading

from .answer import Answer, Piece
from .engine import Engine, Full
from .replies import Reply, event
from .requests import ChatRequest, CompletionRequest, Kind, Limits, Refused, checked, parse
from .store import Receipts

BODY_S = 10.0
"""Seconds in which a body has to be complete."""
SKIPPED, SKIP_S = 1 << 16, 1.0
"""Bytes of a body that is refused unread, and seconds for them, which are read all the same."""
UNREAD = frozenset((401, 404, 405, 408, 413, 415))
"""Statuses of requests whose body may not have come whole.

SAFETY: the connection is closed, or the rest would be read.
"""
HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
RECEIPT_HEADER = "X-Assay-Receipt"
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Service:
    """Parts that the pages need. ``keys``: SHA-256 of the keys of users; empty: everybody may ask."""

    engine: Engine
    receipts: Receipts
    limits: Limits = field(default_factory=Limits)
    keys: frozenset[bytes] = frozenset()

    def check_key(self, request: Request) -> None:
        """Raise Refused for a request without a key of a user."""
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        digest = hashlib.sha256(key.strip().encode("utf-8", "replace")).digest()
        known = [hmac.compare_digest(digest, other) for other in self.keys]
        if self.keys and not (kind.lower() == "bearer" and any(known)):
            raise Refused("this server needs one of its API keys", code="invalid_api_key", status=401)


def create_app(service: Service) -> FastAPI:
    """Return the application."""
    app = FastAPI(title="Assay serve", openapi_url=None, docs_url=None, redoc_url=None)
    meters = _Meters(service)
    series = SharedReading(lambda: generate_latest(meters.registry))

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        meters.refused.labels(error.status).inc()
        more = {"Retry-After": "1"} if error.status in (429, 503) else {}
        if request.method != "GET" and error.status in UNREAD:
            more["Connection"] = "close"
        return JSONResponse(error.body(), error.status, {**HEADERS, **more})

    @app.exception_handler(404)
    @app.exception_handler(405)
    async def missing(request: Request, error: Any) -> Response:
        await _skip(request)
        return await refused(
            request, Refused("there is no such address here", code="not_found", status=error.status_code)
        )

    @app.exception_handler(Exception)
    async def failed(request: Request, _error: Exception) -> Response:
        # NOTE: whatever a stranger has sent, the others are served; what failed is in the log.
        _log.exception("serve.request", path=request.url.path)
        return await refused(request, Refused("the server failed; see its log", status=500))

    @app.get("/healthz")
    async def health() -> Response:
        alive = service.engine.alive
        return JSONResponse(
            {"status": "ok" if alive else "the engine has stopped"}, 200 if alive else 503, HEADERS
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(series(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/v1/models")
    async def models(request: Request) -> Response:
        service.check_key(request)
        return JSONResponse({"object": "list", "data": [_model(service)]}, headers=HEADERS)

    @app.get("/v1/models/{name:path}")
    async def model(request: Request, name: str) -> Response:
        service.check_key(request)
        if name != service.engine.model.name:
            raise Refused(f"the model {name[:80]!r} does not exist", "model", "model_not_found", 404)
        return JSONResponse(_model(service), headers=HEADERS)

    @app.get("/v1/receipts/{name}")
    async def receipt(request: Request, name: str) -> Response:
        service.check_key(request)
        found = service.receipts.get(name.lower())
        if found is None:
            raise Refused(
                "this server has no such receipt, or not any more", code="receipt_not_found", status=404
            )
        return Response(found, media_type="application/json", headers=HEADERS)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Response:
        return await _completed(service, request, ChatRequest)

    @app.post("/v1/completions")
    async def completions(request: Request) -> Response:
        return await _completed(service, request, CompletionRequest)

    return app


class _Meters:
    """Numbers that `/metrics` shows."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        counts = service.engine.counts
        for name, text, read in (
            ("waiting_answers", "Answers that wait for a row.", lambda: service.engine.waiting),
            ("running_answers", "Answers that are computed.", lambda: service.engine.running),
            ("kept_receipts", "Receipts that are kept.", lambda: len(service.receipts)),
            ("written_tokens_total", "Tokens written since the start.", lambda: counts.tokens),
            ("ended_answers_total", "Answers that have ended since the start.", lambda: counts.answers),
            ("cancelled_answers_total", "Answers whose clients went away.", lambda: counts.cancelled),
            ("engine_steps_total", "Steps that wrote a token of each row.", lambda: counts.steps),
            ("engine_failures_total", "Turns of the engine that failed.", lambda: counts.failures),
        ):
            Gauge(f"assay_serve_{name}", text, registry=self.registry).set_function(partial(_number, read))
        self.refused = Counter(
            "assay_serve_refused_requests", "Requests refused, by status.", ["status"], registry=self.registry
        )


def _number(read: Any) -> float:
    return float(read())


def _model(service: Service) -> dict[str, Any]:
    model, identity = service.engine.model, service.engine.model.identity
    return {
        "id": model.name,
        "object": "model",
        "created": 0,
        "owned_by": service.receipts.account.address,
        "assay": {
            "root": identity.root.hex(),
            "step": identity.step.hex(),
            "weights": identity.weights.hex(),
            "tokenizer": identity.tokenizer.hex(),
            "template": identity.template.hex(),
            "places": model.places,
        },
    }


def _check_type(request: Request) -> None:
    """Raise Refused for a body that is said to be no JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        # SAFETY: a page of another site can send other types without asking the browser.
        raise Refused("the body has to be application/json", code="unsupported_media_type", status=415)


async def _skip(request: Request) -> None:
    """Read a body that nobody wants, if it is small and comes soon.

    NOTE: a connection that is closed while its client sends is reset, and the client loses the reply that says why.
    """
    left = SKIPPED
    with contextlib.suppress(TimeoutError, ClientDisconnect):
        async with asyncio.timeout(SKIP_S):
            async for part in request.stream():
                left -= len(part)
                if left < 0:
                    return


async def _body(request: Request, limit: int) -> bytes:
    """Return the body of a request. Raises Refused."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                data += part
                if len(data) > limit:
                    raise Refused(f"the body has more than {limit} bytes", code="body_too_large", status=413)
    except ClientDisconnect as error:
        raise Refused("the client went away", code="client_closed_request", status=499) from error
    except TimeoutError as error:
        raise Refused("the body did not come in time", code="body_too_slow", status=408) from error
    return bytes(data)


async def _completed(service: Service, request: Request, kind: Kind) -> Response:
    try:
        service.check_key(request)
        _check_type(request)
    except Refused:
        await _skip(request)
        raise
    body = await _body(request, service.limits.body)
    # NOTE: a tokenizer takes milliseconds for a long text, in which others should be heard.
    asked = await run_in_threadpool(parse, kind, body)
    prompts, most = await run_in_threadpool(checked, asked, service.engine.model, service.limits)
    pieces = _Pieces()
    model, choices = service.engine.model, asked.n or 1
    answers = [
        Answer(model, tuple(prompt), parameters, most, asked.stops, model.ends, partial(pieces.tell, p * choices + c),
               asked.alternatives)
        for p, prompt in enumerate(prompts)
        for c, parameters in enumerate(asked.parameters(choices))
    ]  # fmt: skip
    try:
        service.engine.submit(answers)
    except Full as error:
        raise Refused("the queue is full; try again", code="queue_full", status=429) from error
    name = ("chatcmpl-" if kind is ChatRequest else "cmpl-") + secrets.token_hex(12)
    reply = Reply(model, asked, name, int(time.time()), answers)
    if asked.stream:
        return StreamingResponse(
            _events(service, reply, pieces), media_type="text/event-stream", headers=HEADERS
        )
    with _cancelled_after(answers):
        await _until_gone(request, _all(service, reply, pieces))
    return JSONResponse(
        reply.whole(), headers={**HEADERS, RECEIPT_HEADER: ", ".join(reply.receipts.values())}
    )


class _Pieces:
    """The pieces of the answers of one request, from the engine's thread to the loop. INVARIANT: at most one for each
    token that was asked for, so a reader who does not read takes bounded memory."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[int, Piece]] = asyncio.Queue()

    def tell(self, index: int, piece: Piece) -> None:
        with contextlib.suppress(RuntimeError):  # NOTE: the loop is closed where the server has stopped
            self._loop.call_soon_threadsafe(self._queue.put_nowait, (index, piece))

    async def next(self, service: Service, reply: Reply) -> tuple[int, Piece]:
        """Return the next piece; if it is the last of its answer, the receipt is made. Raises Refused."""
        index, piece = await self._queue.get()
        if piece.failure:
            raise Refused(piece.failure, code="answer_failed", status=503)
        if piece.end is not None:
            made = await run_in_threadpool(service.receipts.make, reply.answers[index])
            reply.receipts[index] = made
        return index, piece


async def _all(service: Service, reply: Reply, pieces: _Pieces) -> None:
    while len(reply.receipts) < len(reply.answers):
        await pieces.next(service, reply)
    reply.receipts = dict(sorted(reply.receipts.items()))


async def _events(service: Service, reply: Reply, pieces: _Pieces) -> AsyncIterator[str]:
    begun: set[int] = set()
    with _cancelled_after(reply.answers):
        try:
            while len(reply.receipts) < len(reply.answers):
                index, piece = await pieces.next(service, reply)
                end = None if piece.end is None else piece.end.value
                yield reply.chunk(index, piece.text, piece.written, end, index not in begun)
                begun.add(index)
            yield reply.last()
        except Refused as error:
            yield event(error.body())


async def _until_gone(request: Request, work: Any) -> None:
    """Do some work, as long as the client is there."""

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.create_task(work), asyncio.create_task(gone())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0] not in done:
            raise Refused("the client went away", code="client_closed_request", status=499)
        tasks[0].result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _cancelled_after(answers: Sequence[Answer]) -> Iterator[None]:
    """Let the engine drop what has not ended when nobody waits for it any more."""
    try:
        yield
    finally:
        for answer in answers:
            answer.cancelled = answer.end is None
