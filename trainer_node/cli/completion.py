"""Words that a shell completes besides commands and options: names from a list, and numbers of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from typer import Context

MOST_JOBS = 100
"""Number of jobs, the newest, that are offered."""
PATIENCE_S = 2.0
"""Seconds that an endpoint has for each answer while somebody waits at a prompt."""


def among(words: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what completes a word from a list."""
    known = list(words)

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def job_numbers(ctx: Context, incomplete: str) -> list[str]:
    """Complete a job's number from the chain that the flags so far, or the settings, name; nothing if it cannot be
    asked."""
    from ..daemon.access import open_client
    from ..observe.logs import configure_logging
    from ..settings.settings import Settings, load_settings

    known = {"config", *Settings.model_fields}
    given: dict[str, Any] = {name: value for name, value in ctx.params.items() if name in known}
    try:
        settings = load_settings(**given)
        configure_logging(settings.log_format, "error")
        limits = settings.limits.model_copy(update={"rpc_timeout_s": PATIENCE_S})
        count = open_client(settings.model_copy(update={"limits": limits})).snapshot().job_count()
    except Exception:
        # NOTE: whatever is wrong, the command itself says it; here it would stand in the middle of a line.
        return []
    newest = map(str, range(count, max(0, count - MOST_JOBS), -1))
    return [number for number in newest if number.startswith(incomplete)]
