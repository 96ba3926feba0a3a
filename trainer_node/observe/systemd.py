"""Reports the state of a daemon to the service manager, by the protocol of sd_notify(3): one datagram to a socket.

READY=1        it has started
WATCHDOG=1     a round is over; if none comes for ``WatchdogSec``, the manager starts the daemon again
STATUS=...     what /readyz says, in one line
STOPPING=1     it has been asked to stop
"""

from __future__ import annotations

import os
import socket

from ..errors import ConfigError

_VARIABLE = "NOTIFY_SOCKET"
MAX_STATUS = 300
"""Characters of a status; it may quote another party."""


class Notifier:
    """Sends to the socket that the manager has named; without a manager it sends nothing."""

    def __init__(self, address: str | None = None) -> None:
        """Take the address, or that of the environment. Raises ConfigError for any other text."""
        given = os.environ.get(_VARIABLE, "") if address is None else address
        if given and given[0] not in "/@":
            raise ConfigError(f"${_VARIABLE} = {given[:80]!r} is not a socket; unset it")
        self._address = "\0" + given[1:] if given.startswith("@") else given
        self._status = ""

    def ready(self) -> None:
        """The daemon has started."""
        self._send("READY=1")

    def alive(self, status: str) -> None:
        """A round is over. ``status``: how it went; sent if it has changed."""
        line = " ".join(status.split())[:MAX_STATUS]
        changed, self._status = line != self._status, line
        self._send("WATCHDOG=1", *([f"STATUS={line}"] if changed else []))

    def stopping(self) -> None:
        """The daemon has been asked to stop."""
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
                out.sendto("\n".join(lines).encode(), self._address)
        except OSError:
            return  # NOTE: a manager that does not listen must not stop a defence
