"""Configurations without entries that have the library fetch and run code, or load other files than their own."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from referee_py.errors import InvalidEncoding

CODE = ("auto_map", "custom_pipelines", "custom_generate", "transformers_weights")
"""Classes and pipelines in files of Python, there or in a repository; and a file of weights by another name."""
IMPLEMENTATIONS = (
    *("attn_implementation", "_attn_implementation"),
    *("experts_implementation", "_experts_implementation"),
)
"""Names of kernels: with a slash they are packages of code on a hub."""


def asks_for_code(part: dict[str, Any]) -> list[str]:
    """Return the names in an object of JSON that ask for code or for other weights."""
    kernels = (name for name in IMPLEMENTATIONS if "/" in str(part.get(name, "")))
    found = [name for name in CODE if part.get(name)] + list(kernels)
    auto = part.get("auto_mapping")  # NOTE: peft imports the package that it names
    if auto and not (isinstance(auto, dict) and str(auto.get("parent_library")).startswith("transformers.")):
        found.append("auto_mapping")
    return found


def without_code(name: str, data: bytes) -> tuple[bytes, list[str]]:
    """Return a file without such lines, and what was left out. Raises InvalidEncoding for JSON that cannot be read."""
    if not name.endswith(".json"):
        return data, []
    try:
        # SAFETY: this parser limits nesting; json.loads overflows the C stack on a file of brackets.
        root = from_json(data)
    except ValueError as error:
        raise InvalidEncoding(f"{name} of the bundle is not JSON: {error}; build it again") from error
    if not isinstance(root, dict):
        return data, []
    parts = [root, *(part for part in root.values() if isinstance(part, dict))]
    found = [(part, line) for part in parts for line in asks_for_code(part)]
    if not found:
        return data, []
    for part, line in found:
        del part[line]
    return json.dumps(root, indent=2).encode(), [f"{line} of {name}" for _, line in found]
