"""`assay demo` in a folder of others, and what is left of it when a signal ends it. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from trainer_node.local.bundle import Bundle
from trainer_node.storage.made_folders import MARK

LOOK_S = 0.01
"""Seconds between two looks at all processes: looking without a pause takes the processor that those need."""
WAIT_S = 600.0
"""A limit for what never happens; nothing rests on how long it takes."""


def assay(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "trainer_node.cli", *map(str, arguments)]
    # NOTE: what a shell starts in the background ignores SIGINT, and so would all that it starts.
    options |= {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)  # type: ignore[call-overload]


def below(pid: int) -> dict[int, tuple[str, str]]:
    """Return the processes below a process: when they began, and what they are."""
    children = defaultdict[int, dict[int, str]](dict)
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            parent, began = _stat(entry)
        except (OSError, ValueError):
            continue
        children[parent][int(entry.name)] = began
    found, left = dict[int, tuple[str, str]](), [pid]
    while left:
        for child, began in children[left.pop()].items():
            left.append(child)
            with suppress(OSError):
                told = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                found[child] = began, told
    return found


def _stat(entry: Path) -> tuple[int, str]:
    """Return a process's parent, and the tick at which it began. Raises ValueError for one that has ended."""
    fields = (entry / "stat").read_text().rpartition(")")[2].split()
    if fields[0] == "Z":
        raise ValueError("it has ended")
    return int(fields[1]), fields[19]


def alive(seen: dict[int, tuple[str, str]]) -> list[str]:
    """Return those of these processes that still run; another one may have got the number."""
    found = []
    for pid, (began, told) in seen.items():
        try:
            if _stat(Path(f"/proc/{pid}"))[1] == began:
                found.append(told)
        except (OSError, ValueError):
            continue
    return found


class Demonstration:
    """A running `assay demo`, and all processes that it was seen to start."""

    def __init__(self, folder: Path, *options: object) -> None:
        self.folder = folder
        self.process = assay(
            *("demo", "--folder", folder, *options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.seen = dict[int, tuple[str, str]]()

    def until(self, what: Callable[[list[str]], bool]) -> None:
        """Look at its processes until ``what`` holds for what they are."""
        limit = time.monotonic() + WAIT_S
        while not what([told for _, told in self.seen.values()]):
            self.seen |= below(self.process.pid)
            assert self.process.poll() is None, "the demonstration has ended by itself"
            assert time.monotonic() < limit, "it did not happen"
            time.sleep(LOOK_S)

    def tell(self, *numbers: signal.Signals) -> int:
        """Send signals, and return the status with which it ends."""
        for number in numbers:
            self.seen |= below(self.process.pid)
            self.process.send_signal(number)
        while self.process.poll() is None:
            self.seen |= below(self.process.pid)
            time.sleep(LOOK_S)
        return self.process.returncode


@contextmanager
def demonstration(folder: Path, bundle: Bundle | None, *options: object) -> Iterator[Demonstration]:
    given = ["--bundle", bundle.write(folder.parent / "job")] if bundle is not None else []
    played = Demonstration(folder, *given, *options)
    try:
        yield played
    finally:
        played.process.kill()
        played.process.wait()
        for pid in played.seen:
            if alive({pid: played.seen[pid]}):
                os.kill(pid, signal.SIGKILL)


def anvil(told: list[str]) -> bool:
    return any("anvil" in one for one in told)


def a_party(told: list[str]) -> bool:
    return any(" trainer run " in one for one in told)


def everybody(told: list[str]) -> bool:
    return all(
        any(words in one for one in told) for words in (" trainer run ", " lab trainer ", "verifier-2")
    )


def capture(told: list[str]) -> bool:
    return any(" program build " in one for one in told)


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGTERM, anvil),
        pytest.param(signal.SIGTERM, everybody, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, a_party, marks=pytest.mark.slow),
        (signal.SIGINT, everybody),
        pytest.param(signal.SIGTERM, capture, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", getattr(value, "__name__", None)),
)
def test_a_signal_ends_everything_that_was_started(
    tmp_path: Path, bundle: Bundle, number: signal.Signals, moment: Callable[[list[str]], bool]
) -> None:
    captured = None if moment is capture else bundle
    with demonstration(tmp_path / "demo", captured, "--fault", "poison-data") as played:
        played.until(moment)
        assert played.tell(number) != 0
        assert not alive(played.seen)


@pytest.mark.slow
def test_signals_that_come_while_it_ends_change_nothing(tmp_path: Path, bundle: Bundle) -> None:
    with demonstration(tmp_path / "demo", bundle, "--fault", "poison-data") as played:
        played.until(everybody)
        assert played.tell(signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, signal.SIGINT) != 0
        assert not alive(played.seen)


@pytest.mark.slow
def test_a_signal_at_any_moment_of_the_start(tmp_path: Path, bundle: Bundle) -> None:
    """Each time a process more has begun, from the chain to the last party."""
    for count in range(1, 8):
        with demonstration(tmp_path / "demo", bundle, "--fault", "poison-data") as played:
            played.until(lambda told, count=count: len(told) >= count)  # type: ignore[misc]
            assert played.tell(signal.SIGTERM) != 0
            assert not alive(played.seen), count


def test_a_folder_of_keys_by_the_same_name_is_left_alone(tmp_path: Path, bundle: Bundle) -> None:
    """`assay quickstart network` and `assay demo --folder .` use the same name."""
    folder, job = tmp_path / "network", bundle.write(tmp_path / "job")
    assert assay("quickstart", folder, stdout=subprocess.DEVNULL).wait() == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(path.name == "key.json" for path in before)
    refused = assay(
        "demo", "--folder", tmp_path, "--bundle", job, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, told = refused.communicate()
    assert refused.returncode != 0
    said = " ".join(told.decode().split())
    assert f"{folder} was not made by `assay demo`" in said
    assert "name another folder" in said
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_what_an_interrupted_demonstration_leaves_is_removed_by_the_next(
    tmp_path: Path, bundle: Bundle
) -> None:
    for number, moment in ((signal.SIGINT, a_party), (signal.SIGHUP, anvil), (signal.SIGTERM, anvil)):
        with demonstration(tmp_path / "demo", bundle, "--fault", "poison-data") as played:
            played.until(moment)
            played.tell(number)
        assert (tmp_path / "demo" / "network" / MARK).exists()
    assert not list((tmp_path / "demo").glob("network.left-*")), "nothing had to be moved aside"
