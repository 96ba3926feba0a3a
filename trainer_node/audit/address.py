"""Address of a published run's bytes: a folder, a web server or a bucket, read by fsspec.

    <address>/claim.json
    <address>/artifacts/...       the files of a Store (`trainer_node.storage.store`)

SAFETY: whoever publishes may send anything, endlessly or never. Each file has a limit in bytes and a least rate, names
are made of hashes, redirects are not followed, and bytes come into a store only under the hash that they have. A
request that fails is made again, `TRIES` times in all; one that is slow, or answered with something else, is not.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.http import HTTPFileSystem

from referee_py.errors import InvalidInput, Unavailable

from ..errors import PIP
from ..storage.artifacts import Name, check_for
from ..storage.store import Store
from ..storage.store_files import path_of

PROTOCOLS = ("file", "http", "https", "s3")
TRIES, WAIT_S = 3, 0.5
"""Requests for a file until one is answered, and seconds before the second; before each further one twice as many."""
_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Answers of a web server after which the same request may be answered."""
T = TypeVar("T")


class _Passing(Unavailable):
    """A failure that the next request may not have."""


class Address:
    """A folder of files at a path or address. Raises InvalidInput for another kind of address.

    timeout_s  longest wait for the next bytes
    min_rate   least bytes per second of a file, after the timeout
    """

    def __init__(self, address: str, *, timeout_s: float = 30.0, min_rate: float = 1e5) -> None:
        protocol = address.partition("://")[0] if "://" in address else "file"
        if protocol not in PROTOCOLS or "::" in address or not address.isprintable():
            raise InvalidInput(f"{address[:80]!r}: a folder, or an address of {', '.join(PROTOCOLS[1:])}")
        self.text = address.rstrip("/")
        self._timeout_s, self._min_rate = timeout_s, min_rate
        self._web = protocol in ("http", "https")
        self._files, self._path = _open(self.text, protocol)

    @property
    def folder(self) -> Path | None:
        """The folder, if it is one of this machine."""
        return Path(self._path) if self._files is None else None

    def read(self, name: str, limit: int) -> bytes:
        """Return a small file. Raises Unavailable if it is not there, or longer than `limit` bytes."""
        return self._again(lambda: b"".join(self._chunks(name, limit)))

    def fetch(self, name: Name, store: Store, limit: int) -> None:
        """Bring an artifact of at most `limit` bytes into a store. Raises Unavailable, or Corrupt for other bytes."""
        if store.has(name):
            return

        def bring() -> None:
            with store.incoming(name, limit) as incoming:
                for chunk in self._chunks(_path(name, store), limit):
                    incoming.write(chunk)

        self._again(bring)

    def checked(self, name: Name, store: Store, limit: int) -> bytearray:
        """Return an artifact of at most `limit` bytes, which the store has not. Raises as :meth:`fetch`."""

        def read() -> bytearray:
            check, data = check_for(name, limit), bytearray()
            for chunk in self._chunks(_path(name, store), limit):
                check.update(chunk)
                data += chunk
            check.finish()
            return data

        return self._again(read)

    def _again(self, act: Callable[[], T]) -> T:
        """Call ``act``, which reads one file from its beginning, until it does not fail in passing."""
        for attempt in range(1, TRIES):
            try:
                return act()
            except _Passing:
                time.sleep(WAIT_S * 2 ** (attempt - 1))
        return act()

    def _file(self, path: str, limit: int) -> Any:
        """Open a file to read. SAFETY: in a folder only a regular one, since a pipe may never say anything."""
        if self._web:
            # SAFETY: the least rate bounds what comes before the first byte, too: a server can drip headers.
            # NOTE: with a size, of which nothing is made here, fsspec sends one request and not two.
            file = self._files.open(path, "rb", block_size=0, size=limit, timeout=self._timeout(limit))
            self._refuse_other(file.r)
            return file
        if self._files is not None:
            return self._files.open(path, "rb", block_size=0)
        # NOTE: looked at before, since some devices act when they are opened, and after, since it may be another then.
        if stat.S_ISREG(Path(path).stat().st_mode):
            number = os.open(path, _READ)
            if stat.S_ISREG(os.fstat(number).st_mode):
                return os.fdopen(number, "rb")
            os.close(number)
        raise Unavailable(f"{path} is not a regular file")

    def _refuse_other(self, answer: Any) -> None:
        """Raise Unavailable unless a web server answers with the file itself."""
        if 300 <= answer.status < 400:
            raise Unavailable(
                f"{self.text} redirects to {answer.headers.get('Location', 'nowhere')[:200]!r}; redirects are not "
                "followed: audit that address, if you mean it"
            )
        coding = answer.headers.get("Content-Encoding", "identity")
        if coding.lower() != "identity":
            raise Unavailable(
                f"{self.text} sends its files compressed ({coding[:20]!r}), which nobody has asked for: its "
                "publisher has to turn that off"
            )

    def _timeout(self, limit: int) -> Any:
        import aiohttp

        each, whole = self._timeout_s, self._timeout_s + limit / self._min_rate
        return aiohttp.ClientTimeout(total=whole, sock_connect=each, sock_read=each)

    def _chunks(self, name: str, limit: int) -> Iterator[bytes]:
        began, size = time.monotonic(), 0
        try:
            with self._file(f"{self._path}/{name}", limit) as file:
                while chunk := file.read(min(_CHUNK, limit + 1)):
                    size += len(chunk)
                    if size > limit:
                        raise Unavailable(f"{name} at {self.text} is longer than {limit} bytes")
                    if time.monotonic() - began > self._timeout_s + size / self._min_rate:
                        raise Unavailable(
                            f"{name} at {self.text} comes slower than {self._min_rate:.0f} bytes per second"
                        )
                    yield chunk
        except Unavailable:
            raise
        except Exception as error:  # NOTE: each back end of fsspec has errors of its own
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            said = said.splitlines()[0][:200]
            kind = _Passing if self._web and _passes(error) else Unavailable
            raise kind(f"{name} cannot be read from {self.text}: {said}") from error


def _passes(error: Exception) -> bool:
    """Return whether the same request to a web server may go well. NOTE: a slow one has had its time."""
    import aiohttp

    if isinstance(error, aiohttp.ClientResponseError):
        return error.status in _PASSING
    return isinstance(error, aiohttp.ClientError | ConnectionError) and not isinstance(error, TimeoutError)


def _path(name: Name, store: Store) -> str:
    return f"artifacts/{path_of(store.root, name).relative_to(store.root).as_posix()}"


def _open(address: str, protocol: str) -> tuple[Any, str]:
    if protocol in ("http", "https"):
        options = {"trust_env": False, "auto_decompress": False, "headers": {"Accept-Encoding": "identity"}}
        # NOTE: a file system of its own, since fsspec keeps instances and their connections for ever.
        return HTTPFileSystem(client_kwargs=options, allow_redirects=False, skip_instance_cache=True), address
    if protocol == "file":
        return None, str(Path(address.removeprefix("file://")).absolute())
    try:
        files, path = fsspec.core.url_to_fs(address)
    except ImportError as error:
        raise InvalidInput(
            f"{address}: {error}; install what that names with `{PIP} install PACKAGE`"
        ) from error
    return files, path
