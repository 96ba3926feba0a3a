"""Extensions: parts of packages above this one, which commands here must not import, found by entry points.

assay.recipes     `capture`: the bundle of a recipe, by its name
assay.exporters   `huggingface`: a trained state as a folder that `from_pretrained` loads
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigError

if TYPE_CHECKING:
    from referee_py.commit.tensor import Array

    from ..local.bundle import Bundle
    from ..local.provenance import Provenance


if TYPE_CHECKING:
    from referee_py.commit.tensor import Array

    from ..local.bundle import Bundle
    from ..local.provenance import Provenance


class Exporter(Protocol):
    """Writes trained states in a library's own form. Both raise InvalidInput, or InvalidEncoding for a wrong bundle."""

    def check_export(self, bundle: Bundle, folder: Path) -> None:
        """Raise what `export` would, for any state of the program."""

    def export(
        self,
        bundle: Bundle,
        state: Sequence[Array],
        folder: Path,
        known: Provenance,
        *,
        optimizer_state: bool = False,
    ) -> list[str]:
        """Write the folder from the slots in order; return the names of its files."""
        ...


def captured(recipe: str) -> Bundle:
    """Return the bundle of a recipe as it stands. Raises ConfigError without torch, CaptureError for no recipe."""
    capture: Callable[[str], Bundle] = _entry("assay.recipes", "capture")
    return capture(recipe)


def exporter() -> Exporter:
    """Return the exporter of `--hf`."""
    found: Exporter = _entry("assay.exporters", "huggingface")
    return found


def _entry(group: str, name: str) -> Any:
    """Return what an installed package offers. Raises ConfigError if none does."""
    for entry in metadata.entry_points(group=group, name=name):
        return entry.load()
    raise ConfigError(f"no installed package offers {name} of {group}; install assay-referee again")
