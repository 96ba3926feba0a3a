"""Messages to the operator when a job that concerns the node is disputed: a webhook, or a command, by the settings.

    loop     sees a job with an open match  ─> a queue of at most `MAX_WAITING`
    thread   takes from it: POST of JSON to the webhook, and the command with the same JSON as its input

SAFETY: the loop never waits for a receiver. One that hangs, refuses or floods costs messages, and no move: what finds
no room is dropped, and said in the log. Strangers cause disputes, so a job makes at most `MAX_OF_JOB` messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import httpx
import structlog

from ..chain import JobView
from ..ids import whole
from ..observe.problems import Problems
from ..settings.sections import Notify

MAX_WAITING = 64
"""Messages that wait to be sent."""
MAX_OF_JOB = 16
"""Messages about one job."""
TRIES, WAIT_S = 3, 1.0
"""Attempts at the webhook, and seconds before the second; before the third four times as many."""
EVENT = "job.disputed"
TOPIC = "notices"

_log = structlog.get_logger(__name__)


class Notices:
    """Sends messages about disputes. ``about``: what each says of the node; ``told``: matches by job, kept elsewhere
    until a job is over."""

    def __init__(
        self,
        rule: Notify,
        about: Mapping[str, Any],
        told: defaultdict[int, set[int]],
        problems: Problems,
    ) -> None:
        self._rule, self._about, self._told, self._problems = rule, dict(about), told, problems
        self._waiting: queue.Queue[dict[str, Any]] = queue.Queue(MAX_WAITING)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if rule.url is not None or rule.command:
            # NOTE: a daemon's end does not wait for a receiver.
            self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
            self._thread.start()

    def see(self, job: JobView) -> None:
        """Tell of the open matches of a job, each once. Returns at once, and raises nothing."""
        if self._thread is None:
            return
        told = self._told[job.id]
        for match in job.match_ids():
            if match in told or len(told) >= MAX_OF_JOB:
                continue
            told.add(match)
            try:
                self._waiting.put_nowait(self._message(job, match))
            except queue.Full:
                _log.warning("notice.dropped", job=job.id, match=whole(match), waiting=MAX_WAITING)

    def close(self) -> None:
        """Send nothing more. Waits for nobody; a command that runs is ended by its time limit."""
        self._stop.set()

    def _message(self, job: JobView, match: int) -> dict[str, Any]:
        pair = job.pair(match)
        roots = [group.root.hex() for group in pair] if pair is not None else []
        text = (
            f"Job {job.id} is disputed: match {whole(match)}. Look at it with `assay dispute show {job.id}`."
        )
        return {
            "event": EVENT,
            "text": text,
            "job": job.id,
            "match": whole(match),
            "roots": roots,
            **self._about,
        }

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._waiting.get(timeout=0.5)
            except queue.Empty:
                continue
            failures = list(filter(None, (self._post(message), self._run(message))))
            if failures:
                reason = "; ".join(failures)
                _log.warning("notice.failed", job=message["job"], match=message["match"], reason=reason)
                self._problems.note(TOPIC, reason)
            else:
                _log.info("notice.sent", job=message["job"], match=message["match"])
                self._problems.clear(TOPIC)

    def _post(self, message: Mapping[str, Any]) -> str:
        """Send a message to the webhook. Return why it was not taken; "" if it was, or there is none."""
        if self._rule.url is None:
            return ""
        reason = ""
        for attempt in range(TRIES):
            if attempt and self._stop.wait(WAIT_S * 4 ** (attempt - 1)):
                break
            try:
                code = asyncio.run(
                    asyncio.wait_for(self._answer(self._rule.url, message), self._rule.timeout_s)
                )
            except TimeoutError:
                reason = f"the webhook has not answered within {self._rule.timeout_s:g} s"
            except Exception as error:
                # SAFETY: an address may hold a key, and so may what libraries say of it.
                reason = f"the webhook cannot be asked: {type(error).__name__}"
            else:
                if 200 <= code < 300:
                    return ""
                reason = f"the webhook answers {code}"
                if code < 500 and code != 429:
                    break
        return reason

    async def _answer(self, url: str, message: Mapping[str, Any]) -> int:
        """Post a message; return the code of the answer, whose body is not read."""
        each = self._rule.timeout_s
        async with (
            httpx.AsyncClient(timeout=each, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", url, json=dict(message)) as response,
        ):
            return response.status_code

    def _run(self, message: Mapping[str, Any]) -> str:
        """Run the command with a message. Return why it failed; "" if it did not, or there is none."""
        if not self._rule.command:
            return ""
        try:
            child = subprocess.Popen(
                self._rule.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                # SAFETY: the settings of the node, its password among them, are none of the command's business.
                env={
                    name: value for name, value in os.environ.items() if not name.upper().startswith("ASSAY_")
                },
            )
        except (OSError, ValueError) as error:
            return f"the command cannot be started: {error}"
        try:
            child.communicate(json.dumps(message).encode() + b"\n", timeout=self._rule.timeout_s)
        except subprocess.TimeoutExpired:
            # NOTE: with what it has started itself. It is a group of its own, and not reaped yet.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return f"the command took longer than {self._rule.timeout_s:g} s and was ended"
        return "" if child.returncode == 0 else f"the command ended with code {child.returncode}"
