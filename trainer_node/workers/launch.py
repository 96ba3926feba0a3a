"""Processes of a run: those that worker 0 starts on this machine, and those that `torchrun` has started.

assay program run JOB --workers 4     starts three processes `assay worker run JOB ...`
torchrun ... assay program run JOB    each process finds its number in the environment
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from referee_py.errors import InvalidInput

from ..errors import PIP, ConfigError
from .channel import MEET_S

if TYPE_CHECKING:
    from .gloo import Gloo

MAX_WORKERS = 1024
END_S = 10.0
"""Seconds in which a worker that was told to stop, or whose leader has failed, ends by itself."""
_STORE = "store"


@dataclass(frozen=True, slots=True)
class Place:
    """A process's number among ``size`` workers, and where they meet: a folder of this machine, or host and port."""

    rank: int
    size: int
    meet: Path | tuple[str, int]


def under_torchrun(environment: Mapping[str, str] = os.environ) -> Place | None:
    """Return this process's place if `torchrun` has started it. Raises ConfigError for a place that cannot be."""
    if "TORCHELASTIC_RUN_ID" not in environment:
        return None
    try:
        rank, size, port = (int(environment[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
        host = environment["MASTER_ADDR"]
    except (KeyError, ValueError) as error:
        raise ConfigError(f"torchrun's environment is incomplete: {error}; start with torchrun") from error
    if not 0 <= rank < size <= MAX_WORKERS:
        raise ConfigError(f"worker {rank} of {size}; there may be {MAX_WORKERS} workers, numbered from 0")
    return Place(rank, size, (host, port))


def check_torch() -> None:
    """Raise ConfigError if the package is missing with which processes reach each other."""
    if importlib.util.find_spec("torch") is None:
        raise ConfigError(
            f"more than one worker needs torch; install it with `{PIP} install 'assay-referee[torch]'`"
        )


def join(place: Place, timeout_s: float, explain: Any = lambda _: None, meet_s: float = MEET_S) -> Gloo:
    """Return the channel to the other workers. ``meet_s``: seconds in which they must come.

    Raises WorkerLost if they do not come; ConfigError without torch.
    """
    check_torch()
    import torch.distributed

    from .gloo import Gloo

    dist: Any = torch.distributed  # its stores are not in its list of exports
    local = isinstance(place.meet, Path)
    if isinstance(place.meet, Path):
        store = dist.FileStore(str(place.meet / _STORE), place.size)
    else:
        held_by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        store = dist.TCPStore(*place.meet, place.size, place.rank == 0 and not held_by_agent)
        store = dist.PrefixStore("assay", store)
    # SAFETY: by default gloo listens on the interface of the machine's name, where anybody may connect.
    return Gloo(
        *(store, place.rank, place.size, timeout_s, explain),
        loopback=local,
        meet_s=meet_s,
    )


@contextlib.contextmanager
def local_workers(
    arguments: Sequence[str], size: int, timeout_s: float, meet_s: float = MEET_S
) -> Iterator[Gloo]:
    """Start ``size`` - 1 processes of the command ``arguments`` on this machine, and yield the channel to them.

    ``meet_s`` as for `join`. Raises WorkerLost if they do not come, InvalidInput for a number that cannot be. They end
    with the block: by themselves if they were told to, and at once if it has failed.
    """
    if not 2 <= size <= MAX_WORKERS:
        raise InvalidInput(f"{size} workers; between 2 and {MAX_WORKERS} can be started")
    with contextlib.ExitStack() as stack:
        # NOTE: only this user can read a folder that mkdtemp makes.
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="assay-workers-")))
        processes: dict[int, subprocess.Popen[bytes]] = {}
        stack.push(partial(_end, processes))
        # SAFETY: a worker needs no password of the node.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        for rank in range(1, size):
            told = ["--rank", str(rank), "--of", str(size), "--meet", str(folder)]
            command = [sys.executable, "-m", "trainer_node.cli", *arguments, *told]
            processes[rank] = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)

        def explain(rank: int) -> str | None:
            return _how_it_ended(processes.get(rank))

        channel = join(Place(0, size, folder), timeout_s, explain, meet_s)
        stack.callback(channel.close)
        yield channel


def _how_it_ended(process: subprocess.Popen[bytes] | None) -> str | None:
    """Return how a worker's process has ended, in words; None if it has not, or is another's."""
    code = None if process is None else process.poll()
    if process is None or code is None:
        return None
    if code < 0:
        return f"(process {process.pid}) was ended by {signal.Signals(-code).name}"
    return f"(process {process.pid}) has ended with exit code {code}; see what it said above"


def _end(
    processes: Mapping[int, subprocess.Popen[bytes]], failed: type[BaseException] | None, *_: Any
) -> None:
    until = time.monotonic() + (END_S if failed is None else 0.0)
    for process in processes.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
    for process in processes.values():
        if process.poll() is None:
            process.kill()
            process.wait()
