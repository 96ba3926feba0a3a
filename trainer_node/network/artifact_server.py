"""The artifact server: immutable files by hash over HTTP, with health and metrics.

    GET /v1/blob/<sha256>   /v1/tensor/<hash>   /v1/tree/<tag>/<root>[?count=n]   /v1/record/<hash>
        /v1/log/<root>?count=n
    GET /v1/progress/<job>  a report about a run, as the node wrote it last (:mod:`trainer_node.observe.run_reports`)
    GET /healthz  the process lives        /readyz  it can work: 200, or 503 with the reasons; what else is wrong
    GET /metrics  Prometheus text

It serves the content of the store and computes nothing but its own readings, whose time is bounded, so a peer can cost
it only bandwidth. It needs no trust: the receiver checks every byte (:mod:`trainer_node.network.download`). Its
connections are bounded (`bounded_http`), and so are its threads, which share the interpreter with runs.
"""

from __future__ import annotations

import socket
import threading

import anyio.to_thread
import uvicorn
from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import FileResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.types import Message, Receive, Scope, Send

from referee_py.errors import InvalidInput

from ..errors import ConfigError
from ..observe.problems import Problems, Shown
from ..observe.run_reports import Board
from ..storage.artifacts import Kind, Name, parse_hash, parse_tag
from ..storage.incoming import Usage
from ..storage.store import Store
from .bounded_http import BACKLOG, BoundedHttp, allow_files
from .shared_reading import SharedReading

_IMMUTABLE = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
_START_TIMEOUT_S = 10.0
THREADS = 4
"""Threads that answer requests at the same time."""


def create_app(
    store: Store,
    *,
    problems: Problems | None = None,
    registry: CollectorRegistry | None = None,
    board: Board | None = None,
) -> FastAPI:
    """Return the ASGI application that serves a store, and the reports on a board."""
    app = FastAPI(title="Assay artifacts", openapi_url=None, docs_url=None, redoc_url=None)

    shown = SharedReading(lambda: problems.shown() if problems is not None else Shown())
    series = SharedReading(lambda: generate_latest(registry) if registry is not None else b"")

    def send(name: Name) -> FileResponse:
        path = store.find(name)
        if path is None:
            raise HTTPException(404, f"{name} is not here")
        return FileResponse(path, media_type="application/octet-stream", headers=_IMMUTABLE)

    @app.exception_handler(InvalidInput)
    def refuse(_request: object, error: InvalidInput) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, status_code=400)

    @app.get("/v1/blob/{sha256}")
    def blob(sha256: str) -> FileResponse:
        return send(Name(Kind.BLOB, parse_hash(sha256)))

    @app.get("/v1/tensor/{tensor}")
    def tensor(tensor: str) -> FileResponse:
        return send(Name(Kind.TENSOR, parse_hash(tensor)))

    @app.get("/v1/record/{record}")
    def record(record: str) -> FileResponse:
        return send(Name(Kind.RECORD, parse_hash(record)))

    @app.get("/v1/tree/{tag}/{root}")
    def tree(tag: str, root: str, count: int | None = None) -> FileResponse:
        return send(Name(Kind.TREE, parse_hash(root), parse_tag(tag), count))

    @app.get("/v1/log/{root}")
    def log(root: str, count: int) -> FileResponse:
        return send(Name(Kind.LOG, parse_hash(root), count=count))

    @app.get("/v1/progress/{job}")
    def progress(job: int) -> Response:
        report = board.get(job) if board is not None else None
        if report is None:
            raise HTTPException(404, f"nothing is known about a run of job {job}")
        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        return Response(report.model_dump_json(), media_type="application/json", headers=headers)

    @app.get("/healthz")
    def health() -> dict[str, str]:
        return {"status": "alive"}

    @app.get("/readyz")
    def ready() -> JSONResponse:
        told = shown()
        content = {"ready": told.ready, "reasons": told.reasons, "notices": told.notices}
        return JSONResponse(content, status_code=200 if told.ready else 503)

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(series(), media_type=CONTENT_TYPE_LATEST)

    return app


class _Counting:
    """An ASGI application with few threads, which counts the bytes of the bodies that it sends."""

    def __init__(self, app: FastAPI, usage: Usage) -> None:
        self._app, self._usage = app, usage

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS

        async def counted(message: Message) -> None:
            await send(message)
            self._usage.sent += len(message.get("body", b""))

        await self._app(scope, receive, counted)


class ArtifactServer:
    """The server in its own thread. Use it as a context manager, or call :meth:`start` and :meth:`stop`."""

    def __init__(
        self,
        store: Store,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        problems: Problems | None = None,
        registry: CollectorRegistry | None = None,
        board: Board | None = None,
    ) -> None:
        app = _Counting(create_app(store, problems=problems, registry=registry, board=board), store.usage)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            http=BoundedHttp,
            log_level="error",  # whatever strangers send is no warning
            backlog=BACKLOG,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._address = host, port
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port it listens on (the actual one if 0 was requested). Raises ConfigError before the start."""
        if self._socket is None:
            raise ConfigError("the artifact server has not been started")
        port: int = self._socket.getsockname()[1]
        return port

    @property
    def uri(self) -> str:
        """Base URI as this machine sees it."""
        host = self._address[0]
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def start(self) -> ArtifactServer:
        """Listen and serve. Raises ConfigError if the address is not available."""
        host, port = self._address
        allow_files()
        try:
            self._socket = socket.create_server(
                (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=128
            )
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror}; set another host or port"
            ) from error
        self._thread = threading.Thread(target=self._run, name="artifact-server", daemon=True)
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(_START_TIMEOUT_S / 0.01)):
            if self._server.started:
                return self
            if not self._thread.is_alive():
                break
            waited.wait(0.01)
        self.stop()
        raise ConfigError(f"the artifact server on {host}:{port} did not start within {_START_TIMEOUT_S} s")

    def stop(self) -> None:
        """Finish running responses (within 2 s) and stop. Idempotent."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout=5)
        if self._socket is not None:
            self._socket.close()

    def __enter__(self) -> ArtifactServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket] if self._socket else None)
