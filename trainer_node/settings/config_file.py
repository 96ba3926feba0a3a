"""The configuration file: which one it is, what is in it, and settings that know whether there was one."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import PrivateAttr
from pydantic_settings import BaseSettings

from ..errors import ConfigError

DEFAULT_FILE = Path("assay.toml")
FILE_VARIABLE = "ASSAY_CONFIG"
MAX_FILE_BYTES = 256 << 10


class ReadSettings(BaseSettings):
    """Settings that know whether there was a configuration file."""

    _without_file: bool = PrivateAttr(default=False)

    def read_from(self, path: Path | None) -> None:
        """Note from which file they come; None for no file."""
        self._without_file = path is None

    @property
    def lost(self) -> str | None:
        """Words and remedy where no file was found, and none was named: what a default of theirs does not find may be
        in another folder. None if there was a file, or they are not from a command."""
        if not self._without_file:
            return None
        return (
            f"no assay.toml was found in {Path.cwd()}; change to the folder that `assay quickstart FOLDER` made, name "
            "its file with --config FILE"
        )


def config_file(config: Path | None = None) -> tuple[Path | None, dict[str, Any]]:
    """Return the configuration file, None if there is none, and its content. Raises ConfigError."""
    named = config or (Path(os.environ[FILE_VARIABLE]) if os.environ.get(FILE_VARIABLE) else None)
    path = named or DEFAULT_FILE
    if named is None and not path.exists():
        return None, {}
    remedy = "it has to be TOML, as `assay quickstart` writes it; choose another one with --config"
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"configuration file {path} is longer than {MAX_FILE_BYTES} bytes; {remedy}")
        # NOTE: one that a full disk has cut off would silently stand for the defaults: another key, another chain.
        if not content and path.is_file():
            raise ConfigError(
                f"configuration file {path} is empty; write it again, or remove it to have the defaults"
            )
        return path, tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(
            f"configuration file {path} cannot be read: {error.strerror}; choose another one with --config"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"configuration file {path} cannot be read: {error}; {remedy}") from error
