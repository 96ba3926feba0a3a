"""The address of a server, as others write it on the chain: http and https only."""

from __future__ import annotations

from urllib.parse import urlsplit

from referee_py.errors import InvalidInput

MAX_URI_BYTES = 512
"""Matches the limit of a claim; longer URIs are refused unread."""


def check_uri(uri: str) -> str:
    """Return the base URI without its trailing slash. Raises InvalidInput unless it is a plain http(s) address."""
    if not uri.isascii() or not uri.isprintable() or len(uri) > MAX_URI_BYTES:
        raise InvalidInput(
            f"URI {uri[:80]!r}: it must be printable ASCII of at most {MAX_URI_BYTES} characters"
        )
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise InvalidInput(f"URI {uri!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInput(f"URI {uri!r}: only http://host and https://host addresses are fetched from")
    if parts.username is not None or parts.query or parts.fragment or "\\" in uri or " " in uri:
        raise InvalidInput(f"URI {uri!r}: a base address has no user, query, fragment, space or backslash")
    return uri.rstrip("/")
