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
from typing import Annotated, Any

import structlog
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, RedirectResponse
from starlette.concurrency import run_in_threadpool

from referee_py.errors import AssayError, InvalidInput, Unavailable
from trainer_node.audit.certificate import Certificate
from trainer_node.errors import ChainError

from .certificate_pages import MEDIA
from .pages import Pages
from .published import RunPages
from .rendering import DIGEST, NotThere
from .unfinished import UnfinishedPages

STATIC = Path(__file__).with_name("static")
ASSETS = {
    "style.css": "text/css",
    "app.js": "text/javascript",
    "chart.js": "text/javascript",
    "graph.js": "text/javascript",
    "cytoscape.min.js": "text/javascript",
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


AnyPages = Pages | RunPages | UnfinishedPages
Show = Callable[[Request, Callable[[], str]], Awaitable[Response]]


def create_app(pages: AnyPages, tick: Callable[[], None] | None = None, every_s: float = 1.0) -> FastAPI:
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

    @app.exception_handler(404)
    async def missing(_request: Request, _error: Exception) -> Response:
        return HTMLResponse(pages.failure("Not here", "There is no such page."), 404)

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, _error: Exception) -> Response:
        return HTMLResponse(pages.failure("Not here", "That is no address of a page."), 404)

    if isinstance(pages, Pages):
        _add_pages(app, pages, show)
    else:
        _add_run(app, pages, show)
    return app


def _add_run(app: FastAPI, pages: RunPages | UnfinishedPages, show: Show) -> None:
    """Add the pages of a published run."""

    @app.get("/")
    async def home(request: Request) -> Response:
        return await show(request, pages.home)

    @app.get("/certificate")
    async def certificate(request: Request) -> Response:
        return await show(request, pages.certificate)

    @app.get("/compare")
    async def compare(request: Request) -> Response:
        return await show(request, pages.compare)

    @app.get("/graph")
    async def whole(
        request: Request, node: int | None = None, q: str = "", group: int | None = None
    ) -> Response:
        return await show(request, lambda: pages.whole(node, q, group))

    @app.get("/graph.json")
    async def picture(group: int | None = None) -> Response:
        return await _picture(pages, lambda: pages.picture(group))

    @app.get("/metrics.{kind}")
    async def metrics(kind: str) -> Response:
        if kind not in ("csv", "json"):
            return HTMLResponse(pages.failure("Not here", "There is no such page."), 404)
        found = await run_in_threadpool(pages.run_metrics)
        media = {"csv": "text/csv; charset=utf-8", "json": "application/json"}
        data = await run_in_threadpool(found.as_csv if kind == "csv" else found.as_json)
        return Response(data, media_type=media[kind])

    @app.get("/{name}")
    async def file(name: str) -> Response:
        return await _certificate_file(pages, name, pages.run_certificate)


async def _certificate_file(pages: AnyPages, name: str, make: Callable[[], Certificate]) -> Response:
    """Answer with a file of a certificate."""
    if name not in MEDIA:
        return HTMLResponse(pages.failure("Not here", "There is no such page."), 404)
    kind, content = MEDIA[name]
    try:
        return Response(content(await run_in_threadpool(make)), media_type=kind)
    except (NotThere, AssayError) as error:
        return HTMLResponse(pages.failure("No certificate", str(error)), 404)


async def _picture(pages: AnyPages, make: Callable[[], bytes]) -> Response:
    """Answer with the data of a graph."""
    try:
        return Response(await run_in_threadpool(make), media_type="application/json")
    except (NotThere, AssayError) as error:
        return HTMLResponse(pages.failure("No graph", str(error)), 404)


def _add_pages(app: FastAPI, pages: Pages, show: Show) -> None:
    """Add the pages of jobs and disputes."""

    @app.get("/")
    async def home(
        request: Request, page: int = 1, show_only: Annotated[str, Query(alias="show")] = "all"
    ) -> Response:
        return await show(request, lambda: pages.home(page, show_only))

    @app.get("/find")
    async def find(request: Request, q: str = "") -> Response:
        to: list[str] = []

        def make() -> str:
            one, page = pages.find(q)
            to.extend([] if one is None else [one])
            return page

        shown = await show(request, make)
        return RedirectResponse(to[0], 303) if to else shown

    @app.get("/account/{address}")
    async def account(request: Request, address: str, page: int = 1) -> Response:
        return await show(request, lambda: pages.account(address, page))

    @app.get("/job/{job}")
    async def job(request: Request, job: int) -> Response:
        return await show(request, lambda: pages.job(job))

    @app.get("/deployment.json")
    async def deployment() -> Response:
        try:
            return PlainTextResponse(pages.deployment(), media_type="application/json")
        except (NotThere, AssayError) as error:
            return HTMLResponse(pages.failure("No deployment file", str(error)), 404)

    @app.get("/job/{job}/result")
    async def result(job: int) -> Response:
        try:
            path = await run_in_threadpool(pages.result, job)
        except (NotThere, AssayError) as error:
            return HTMLResponse(pages.failure("No result to download", str(error)), 404)
        return FileResponse(path, media_type="application/octet-stream", filename=f"job-{job}.safetensors")

    @app.get("/job/{job}/certificate")
    async def certificate(request: Request, job: int) -> Response:
        return await show(request, lambda: pages.certificate(job))

    @app.get("/job/{job}/{name}")
    async def file(job: int, name: str) -> Response:
        return await _certificate_file(pages, name, lambda: pages.job_certificate(job))

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

    @app.get("/job/{job}/dispute/{match}/graph")
    async def whole(
        request: Request, job: int, match: str, node: int | None = None, q: str = "", group: int | None = None
    ) -> Response:
        return await show(request, lambda: pages.whole(job, match, node, q, group))

    @app.get("/job/{job}/dispute/{match}/graph.json")
    async def picture(job: int, match: str, group: int | None = None) -> Response:
        return await _picture(pages, lambda: pages.picture(job, match, group))

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
