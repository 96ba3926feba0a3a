"""The pages. Every page is whole without script; with it, a live page asks every two seconds whether it has changed.

SAFETY: a strict policy for what a browser may load (`POLICY`): nothing but our own style sheet, scripts, and answers.
Whatever strangers wrote is cut (`text.said`) and escaped by the templates, and becomes a link only through `text.link`.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool

from referee_py.errors import AssayError, InvalidInput, Unavailable
from trainer_node.errors import ChainError

from .pages import Pages
from .published import RunPages
from .rendering import DIGEST, NotThere

STATIC = Path(__file__).with_name("static")
ASSETS = {
    "style.css": "text/css",
    "app.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_log = structlog.get_logger(__name__)


Show = Callable[[Request, Callable[[], str]], Awaitable[Response]]


def create_app(
    pages: Pages | RunPages, tick: Callable[[], None] | None = None, every_s: float = 1.0
) -> FastAPI:
    """Return the application. ``tick`` is called every ``every_s`` seconds while it runs."""

    @contextlib.asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=_ticking, args=(tick, every_s, stop), name="index", daemon=True)
        if tick is not None:
            thread.start()
        yield
        stop.set()
        pages.close()

    app = FastAPI(title="Assay explorer", openapi_url=None, docs_url=None, redoc_url=None, lifespan=lifespan)

    @app.middleware("http")
    async def guard(request: Request, call_next: Any) -> Response:
        # SAFETY: a page of another site must not read ours through a name that it lets point here (DNS rebinding).
        if pages.hosts and _host(request) not in pages.hosts:
            return PlainTextResponse("this explorer is asked for under another name\n", 421, HEADERS)
        response: Response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    @app.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in ASSETS or not (STATIC / name).is_file():
            return PlainTextResponse("not here\n", 404)
        return FileResponse(STATIC / name, media_type=ASSETS[name])

    async def show(request: Request, make: Callable[[], str]) -> Response:
        try:
            body = await run_in_threadpool(make)
        except (NotThere, InvalidInput) as error:
            return HTMLResponse(pages.failure("Not here", str(error)), 404)
        except (ChainError, Unavailable) as error:
            return HTMLResponse(pages.failure("Not readable now", str(error)), 503)
        except AssayError as error:
            return HTMLResponse(pages.failure("Not shown", f"{type(error).__name__}: {error}"), 500)
        except Exception as error:
            # NOTE: whatever strangers have written, the other pages continue; what failed is in the log.
            _log.exception("explorer.page", path=request.url.path)
            return HTMLResponse(pages.failure("Not shown", f"{type(error).__name__}; see the log"), 500)
        digest = hashlib.sha256(body.encode()).hexdigest()[:16]
        if request.query_params.get("live") == digest:
            return Response(status_code=204)
        return HTMLResponse(body.replace(DIGEST, digest))

    @app.get("/")
    async def home(request: Request, page: int = 1) -> Response:
        return await show(request, lambda: pages.home(page))

    @app.exception_handler(404)
    async def missing(_request: Request, _error: Exception) -> Response:
        return HTMLResponse(pages.failure("Not here", "There is no such page."), 404)

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, _error: Exception) -> Response:
        return HTMLResponse(pages.failure("Not here", "That is no address of a page."), 404)

    if isinstance(pages, Pages):
        _add_pages(app, pages, show)
    return app


def _add_pages(app: FastAPI, pages: Pages, show: Show) -> None:
    """Add the pages of jobs and disputes."""

    @app.get("/job/{job}")
    async def job(request: Request, job: int) -> Response:
        return await show(request, lambda: pages.job(job))

    @app.get("/job/{job}/result")
    async def result(job: int) -> Response:
        try:
            path = await run_in_threadpool(pages.result, job)
        except (NotThere, AssayError) as error:
            return HTMLResponse(pages.failure("No result to download", str(error)), 404)
        return FileResponse(path, media_type="application/octet-stream", filename=f"job-{job}.safetensors")

    @app.get("/job/{job}/dispute/{match}")
    async def dispute(request: Request, job: int, match: str, at: int | None = None) -> Response:
        return await show(request, lambda: pages.dispute(job, match, at))

    @app.get("/job/{job}/dispute/{match}/proof")
    async def proof(request: Request, job: int, match: str) -> Response:
        return await show(request, lambda: pages.proof(job, match))

    @app.get("/job/{job}/dispute/{match}/operator")
    async def operator(
        request: Request, job: int, match: str, node: int | None = None, q: str = "", group: str = ""
    ) -> Response:
        return await show(request, lambda: pages.operator(job, match, node, q, group))

    @app.get("/job/{job}/dispute/{match}/element")
    async def element(request: Request, job: int, match: str) -> Response:
        return await show(request, lambda: pages.element(job, match))


def _host(request: Request) -> str:
    """Return the name that a request is addressed to, without its port."""
    host = request.headers.get("host", "")
    name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return name.strip("[]").lower()


def _ticking(tick: Callable[[], None] | None, every_s: float, stop: threading.Event) -> None:
    while tick is not None and not stop.wait(every_s):
        tick()
