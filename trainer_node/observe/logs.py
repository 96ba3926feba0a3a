"""Structured logging for all roles: one event per line, as JSON for machines or in colour for people."""

from __future__ import annotations

import contextlib
import logging
import sys
from functools import cache
from typing import Any, TextIO, cast

import structlog


class _Lossy:
    """A stream whose failures are swallowed. SAFETY: a log on a full disk must not stop a defence."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


_lossy = cache(_Lossy)
"""NOTE: structlog keeps a lock for each stream, so there must be one of these for each."""


def configure_logging(form: str = "console", level: str = "info") -> None:
    """Send every log, including libraries' warnings, to standard error. ``form`` is "json" or "console"."""
    number = getattr(logging, level.upper())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        shared.append(structlog.processors.format_exc_info)
        renderer: Any = structlog.processors.JSONRenderer()
    else:
        # SAFETY: a rich traceback would print local variables, which include keys.
        renderer = structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # NOTE: looked up when a line is logged: today's standard error may be closed by then.
        logger_factory=lambda *_: structlog.PrintLogger(cast(TextIO, _lossy(sys.stderr))),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(_lossy(sys.stderr))
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processor=renderer, foreign_pre_chain=shared))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
