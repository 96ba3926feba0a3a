"""Bounds that model and receipts share."""

from __future__ import annotations

MAX_TOKENS = 1 << 16
"""Most tokens of a prompt and its answer together."""
