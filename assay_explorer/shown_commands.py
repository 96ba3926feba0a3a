"""Commands that the pages offer: whole, quoted for a shell, with all that they need.

Commands about a chain name its endpoint and its contracts. The pages offer the contracts' addresses as the file `FILE`;
the endpoint is the explorer's own if that is on this machine, else a word to replace, since addresses of providers hold
keys.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from trainer_node.settings.settings import Settings

FILE = "deployment.json"
ENDPOINT = "YOUR_ENDPOINT"
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine."""


def shell(*words: object) -> str:
    """Return a command as a shell reads it."""
    return shlex.join(["assay", *map(str, words)])


def chain_flags(settings: Settings) -> tuple[str, ...]:
    """Return the flags that name the chain of these settings and its contracts."""
    chain = ("--chain-id", str(settings.chain_id), "--rpc-url", _endpoint(settings.rpc_url))
    if settings.releases is None:
        return (*chain, "--deployment", FILE)
    release = () if settings.release is None else ("--release", settings.release)
    return (*chain, "--releases", settings.releases, *release)


def _endpoint(urls: Sequence[str]) -> str:
    """Return the endpoint to name on a page: one on this machine, without a user's name; else `ENDPOINT`."""
    for url in urls:
        parts = urlsplit(url)
        if parts.hostname in LOCAL and "@" not in parts.netloc:
            return url
    return ENDPOINT
