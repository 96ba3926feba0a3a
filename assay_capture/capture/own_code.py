"""Code of whoever wrote the model: which it is, and the names that a function of it takes from outside.

Libraries keep much in Python that no step depends on, such as loggers and tables of backends, so it is not followed
into: neither their functions, classes and modules, nor the standard library's.
"""

from __future__ import annotations

import dis
import functools
import sys
import sysconfig
import types
from collections.abc import Iterator

_OURS = frozenset({"assay_capture", "assay_lab", "referee_py", "repops", "trainer_node"})
_LIBRARIES = tuple(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
_GLOBALS = frozenset({"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"})
_IMPORTS = frozenset({"IMPORT_NAME", "IMPORT_FROM"})
_NO_VALUES = frozenset(
    {
        *(
            "torch",
            "numpy",
            "builtins",
            "abc",
            "ast",
            "asyncio",
            "concurrent",
            "ctypes",
            "importlib",
            "inspect",
        ),
        *(
            "io",
            "_io",
            "logging",
            "multiprocessing",
            "pathlib",
            "re",
            "socket",
            "ssl",
            "subprocess",
            "sys",
            "typing",
        ),
        *("datetime", "unittest", "uuid", "warnings", "zoneinfo"),
    }
)
"""Packages of whose objects none is state: most are of the process, and the rest never changes."""


def is_own(value: types.FunctionType | type | types.ModuleType) -> bool:
    """Return whether a function, class or module is somebody's own, and no library's."""
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    if (name or "").partition(".")[0] in _OURS:
        return False
    if isinstance(value, types.FunctionType):
        file: str | None = value.__code__.co_filename
    else:
        module = value if isinstance(value, types.ModuleType) else sys.modules.get(value.__module__)
        file = getattr(module, "__file__", None) or ("" if name == "__main__" else None)
    return file is not None and not _is_library(file)


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen")) or "site-packages" in file or "dist-packages" in file


def holds_values(kind: type) -> bool:
    """Return whether what an instance of a class holds may be state."""
    return kind.__module__.partition(".")[0] not in _NO_VALUES


@functools.cache
def outer_names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of globals and of imported modules in a function's code, and in that of functions made in it."""
    found = [
        (instruction.opname, instruction.argval)
        for part in _codes(code)
        for instruction in dis.get_instructions(part)
    ]
    return (
        frozenset(name for kind, name in found if kind in _GLOBALS),
        frozenset(name for kind, name in found if kind in _IMPORTS),
    )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
