"""The library of models: loaded when it is needed, which takes seconds, and quiet while a command runs."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from trainer_node.errors import PIP, ConfigError


def load() -> Any:
    """Return `transformers`. Raises ConfigError if it, or what it needs to train, is missing."""
    # NOTE: read when the library is imported; what is loaded later gets the same as an argument.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        importlib.import_module("accelerate")
        return importlib.import_module("transformers")
    except ImportError as error:
        raise ConfigError(
            f"this needs {error.name}; install it with `{PIP} install 'assay-referee[huggingface]'`"
        ) from error


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep warnings and progress bars of `transformers` off the terminal, if it is loaded; errors pass."""
    talk = sys.modules.get("transformers.utils.logging")
    if talk is None:
        yield
        return
    level, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    try:
        talk.set_verbosity_error()
        talk.disable_progress_bar()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"(transformers|peft|accelerate)(\.|$)")
            yield
    finally:
        talk.set_verbosity(level)
        if bars:
            talk.enable_progress_bar()
