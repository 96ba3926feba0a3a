"""Artifacts that were drawn in a job, and do not go for a stake in it: those of an interval that is replayed.

with using(store, *names):      # from before the replay until it is known whether it is wrong
    ...
    rests_on(store, *names)     # it is: they are work of the job from now on
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from .artifacts import Name
from .job_holds import DRAWN
from .store import Store
from .store_files import path_of


@contextlib.contextmanager
def using(store: Store, *names: Name) -> Iterator[None]:
    """Keep artifacts of the job whose view of a store is given from going."""
    _use(store, names, 1)
    try:
        yield
    finally:
        _use(store, names, -1)


def rests_on(store: Store, *names: Name) -> None:
    """Let the job whose view of a store is given hold what was drawn in it as its work.

    Raises DiskFailed; then it stays in use, as long as this process runs.
    """
    _use(store, names, 1)
    store.hold(*names)
    paths = {str(path_of(Path(), name)) for name in names}
    if store.job is not None:
        store.holders.let_go(store.job, lambda stage, path: stage == DRAWN and path in paths)
    _use(store, names, -1)


def _use(store: Store, names: Iterable[Name], more: int) -> None:
    if store.job is None:
        return
    in_use = store.holders.in_use
    with store.holders.lock:
        for name in names:
            key = store.job, str(path_of(Path(), name))
            in_use[key] += more
            if not in_use[key]:
                del in_use[key]
