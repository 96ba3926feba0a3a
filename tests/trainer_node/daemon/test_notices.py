"""Messages about disputes: what they say, that they are bounded, and that no receiver holds up the loop."""

from __future__ import annotations

import json
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from referee_py.errors import AssayError
from tests.support.local_server import LocalServer
from trainer_node.chain import Group, JobView
from trainer_node.daemon import notices
from trainer_node.daemon.notices import MAX_OF_JOB, MAX_WAITING, Notices
from trainer_node.observe.problems import Problems
from trainer_node.settings.sections import Notify
from trainer_node.settings.settings import load_settings

from ..desk import job, until

ABOUT = {"role": "trainer", "account": "0x" + "aa" * 20, "chain_id": 31337}


def disputed(number: int, *matches: int) -> JobView:
    """Return a job in which pairs of roots play these matches."""
    groups = [
        Group(2 * k + side, bytes([2 * k + side]) * 32, bytes(32), match, 0, 0, 0, (2 * k + side,))
        for k, match in enumerate(matches)
        for side in (0, 1)
    ]
    return replace(job(number), groups=tuple(groups))


class Receiver:
    """A webhook that answers with ``codes``, one after the other, the last of them again and again."""

    def __init__(self, *codes: int) -> None:
        self.got: list[dict[str, Any]] = []
        self.kinds: list[str] = []
        told, given = self, iter(codes)
        self._last = codes[-1]

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                told.kinds.append(self.headers["Content-Type"])
                told.got.append(json.loads(body))
                self.send_response(next(given, told._last))
                self.send_header("Location", told.server.uri)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.server = LocalServer(Handler)


class Node:
    """Notices with what surrounds them in a daemon."""

    def __init__(self, **rule: Any) -> None:
        self.problems, self.told = Problems(), defaultdict[int, set[int]](set)
        self.notices = Notices(Notify(**rule), ABOUT, self.told, self.problems)

    def see(self, *jobs: JobView) -> None:
        for one in jobs:
            self.notices.see(one)

    @property
    def told_wrong(self) -> str:
        return " ".join(self.problems.shown().notices)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "WAIT_S", 0.01)


def test_a_webhook_gets_each_match_once() -> None:
    receiver = Receiver(200)
    node = Node(url=f"{receiver.server.uri}/hook?key=secret")
    with receiver.server:
        node.see(disputed(7, 5), disputed(7, 5), disputed(7, 5, 6), disputed(8, 9), job(9))
        until(lambda: len(receiver.got) == 3)
        node.notices.close()
    assert receiver.got[0] == {
        "event": "job.disputed",
        "text": f"Job 7 is disputed: match 0x{5:064x}. Look at it with `assay dispute show 7`.",
        "job": 7,
        "match": f"0x{5:064x}",
        "roots": ["00" * 32, "01" * 32],
        **ABOUT,
    }
    assert [(one["job"], int(one["match"], 16)) for one in receiver.got] == [(7, 5), (7, 6), (8, 9)]
    assert set(receiver.kinds) == {"application/json"}
    assert node.told_wrong == ""


@pytest.mark.parametrize(
    ("codes", "asked", "wrong"),
    [
        ((503, 429, 204), 3, ""),
        ((503,), 3, "the webhook answers 503"),
        ((404,), 1, "the webhook answers 404"),
        ((307,), 1, "the webhook answers 307"),
    ],
)
def test_what_may_pass_is_tried_again(codes: tuple[int, ...], asked: int, wrong: str) -> None:
    """And a redirect is not followed."""
    receiver = Receiver(*codes)
    node = Node(url=receiver.server.uri)
    with receiver.server:
        node.problems.note(notices.TOPIC, "before")
        node.see(disputed(1, 2))
        until(lambda: "before" not in node.told_wrong)
    assert len(receiver.got) == asked
    assert node.told_wrong == (f"notices: {wrong}" if wrong else "")
    assert node.problems.shown().ready, "it keeps the node from nothing"


def test_a_receiver_that_hangs_holds_up_nobody() -> None:
    """The loop goes on, what finds no room is dropped, and the reason names no key of the address."""
    release = threading.Event()

    class Hanging(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            release.wait(60)

    with LocalServer(Hanging) as server:
        node = Node(url=f"{server.uri}/secret", timeout_s=0.2)
        hung = Node(url=f"{server.uri}/secret", timeout_s=60)
        hung.see(*(disputed(number, 1) for number in range(1, 4 * MAX_WAITING)))
        assert hung.notices._waiting.qsize() in (MAX_WAITING - 1, MAX_WAITING)
        node.see(disputed(1, 2))
        until(lambda: node.told_wrong != "")
        hung.notices.close()
        release.set()
    assert node.told_wrong == "notices: the webhook has not answered within 0.2 s"
    unreachable = Node(url=f"{server.uri}/secret")
    unreachable.see(disputed(1, 2))
    until(lambda: unreachable.told_wrong != "")
    assert unreachable.told_wrong == "notices: the webhook cannot be asked: ConnectError"


def test_a_job_makes_so_many_messages_and_no_more() -> None:
    """SAFETY: strangers open matches. A job that is over is forgotten, and may come back."""
    receiver = Receiver(200)
    node = Node(url=receiver.server.uri)
    with receiver.server:
        node.see(disputed(1, *range(1, MAX_OF_JOB + 9)), disputed(2, 3))
        until(lambda: len(receiver.got) == MAX_OF_JOB + 1)
        node.see(disputed(1, MAX_OF_JOB + 8))
        del node.told[1]
        node.see(disputed(1, 99))
        until(lambda: len(receiver.got) == MAX_OF_JOB + 2)
    assert [one["job"] for one in receiver.got] == [1] * MAX_OF_JOB + [2, 1]


def script(folder: Path, text: str) -> tuple[str, ...]:
    (folder / "receive.py").write_text(text)
    return sys.executable, str(folder / "receive.py"), str(folder / "got"), "; touch injected"


def test_a_command_gets_the_message_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PASSWORD", "secret")
    monkeypatch.setenv("HARMLESS", "1")
    command = script(
        tmp_path,
        "import json, os, sys\n"
        "told = {'got': json.load(sys.stdin), 'names': sorted(os.environ), 'words': sys.argv[2:]}\n"
        "open(sys.argv[1] + '.new', 'w').write(json.dumps(told))\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n",
    )
    node = Node(command=command)
    node.see(disputed(7, 5))
    until((tmp_path / "got").exists)
    told = json.loads((tmp_path / "got").read_text())
    assert (told["got"]["job"], told["got"]["event"]) == (7, "job.disputed")
    assert "HARMLESS" in told["names"]
    assert not [name for name in told["names"] if name.startswith("ASSAY")]
    assert told["words"] == ["; touch injected"], "no shell reads it"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("raise SystemExit(3)", "the command ended with code 3"),
        ("import time\ntime.sleep(600)", "the command took longer than 0.5 s and was ended"),
    ],
)
def test_a_command_that_fails_is_told(tmp_path: Path, text: str, wrong: str) -> None:
    node = Node(command=script(tmp_path, text), timeout_s=0.5 if "sleep" in text else 60)
    node.see(disputed(7, 5))
    until(lambda: node.told_wrong != "")
    assert node.told_wrong == f"notices: {wrong}"


def test_a_command_that_hangs_is_ended_with_what_it_has_started(tmp_path: Path) -> None:
    text = (
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1] + '.new', 'w').write(str(child.pid))\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)\n"
    )
    node = Node(command=script(tmp_path, text), timeout_s=10)
    node.see(disputed(7, 5))
    until(lambda: node.told_wrong != "")
    child = Path("/proc") / (tmp_path / "got").read_text()
    until(lambda: not child.exists() or "\nState:\tZ" in (child / "status").read_text())


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    node = Node(command=(str(tmp_path / "nothing"),))
    node.see(disputed(7, 5))
    until(lambda: node.told_wrong != "")
    assert "the command cannot be started: " in node.told_wrong


def test_without_settings_nothing_is_kept_nor_started() -> None:
    before = threading.active_count()
    node = Node()
    node.see(disputed(7, 5))
    assert threading.active_count() == before
    assert not node.told


@pytest.mark.parametrize(
    "rule",
    [
        {"url": "ftp://x"},
        {"url": "https://"},
        {"url": "https://x y"},
        {"url": "https://x:0"},
        {"url": "http://[x"},
        {"url": "https://x/" + "y" * 2048},
        {"command": "mail me"},
        {"command": ["x"] * 65},
        {"timeout_s": 0},
        {"timeout_s": 61},
    ],
)
def test_settings_are_bounded(rule: dict[str, Any]) -> None:
    with pytest.raises(AssayError, match="notify"):
        load_settings(notify=rule)
    sound: Callable[..., Any] = load_settings
    assert sound(notify={"url": "https://x/y?z", "command": ["mail", "me"]}).notify.command == ("mail", "me")
