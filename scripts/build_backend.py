"""The hooks that pip calls: scikit-build-core's. But wheels and sdists need the compiled contracts of their sources,
and the script libraries of the explorer's pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from build_contracts import not_compiled  # type: ignore[import-not-found] # pip puts this folder on the path
from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403

LIBRARIES = [Path("assay_explorer/static") / name for name in ("htmx.min.js", "cytoscape.min.js")]


def build_wheel(*arguments: Any) -> str:  # type: ignore[no-redef]
    _require_made()
    return build.build_wheel(*arguments)


def build_sdist(*arguments: Any) -> str:  # type: ignore[no-redef]
    _require_made()
    return build.build_sdist(*arguments)


def _require_made() -> None:
    """Exit with the reason. An editable install has no such condition: `make setup` compiles the contracts after it."""
    if missing := not_compiled():
        names = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        sys.exit(
            f"{len(missing)} contracts are not compiled, or from other sources than these ({names}): "
            "run `make setup`, then build again"
        )
    for library in LIBRARIES:
        if not library.is_file():
            sys.exit(f"{library} is missing: run `make setup`, then build again")
