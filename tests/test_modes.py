"""Where the sources decide by an arithmetic mode: only in the files that docs/architecture.md lists, section 5."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from referee_py.program import modes
from referee_py.program.modes import MODES, ArithmeticMode, UnknownMode

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = (
    "referee_py",
    "trainer_node",
    "assay_capture",
    "assay_lab",
    "assay_explorer",
    "assay_serve",
    "scripts",
    "examples",
)
"""NOTE: benchmarks and tests name the mode that they measure or test."""
NAMES = {mode.name for mode in MODES}
ONE_MODE = {
    name
    for name, value in vars(modes).items()
    if (isinstance(value, ArithmeticMode) and name != "USUAL")
    or (
        inspect.isclass(value)
        and issubclass(value, ArithmeticMode)
        and value not in (ArithmeticMode, UnknownMode)
    )
}
"""The names that stand for a single mode."""
OTHER_MODES = {"assay_capture/capture/replacements/assignment.py", "trainer_node/operate/doctor.py"}
"""Files in which a mode is an option of an operator, or the permissions of a file."""
RETIRED = {"is_rounded", "MODE_EXACT", "MODE_REPOPS_F32"}


def listed() -> dict[str, bool]:
    """Return the places of the list, and whether they are for one mode alone."""
    (block,) = re.findall(r"```modes\n(.*?)```", (ROOT / "docs/architecture.md").read_text(), re.DOTALL)
    rows = [line.split(maxsplit=1) for line in block.splitlines() if line.strip()]
    return {path: text.startswith("rounded-f64 alone") for path, text in rows}


def sources() -> list[str]:
    made = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *(f"{package}/*.py" for package in PACKAGES)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [path for path in made.stdout.split() if (ROOT / path).is_file()]


def mappings() -> list[str]:
    """Return the files that map the modes to parts of their own."""
    return [
        path
        for path in sources()
        if "referee_py/program/modes/" not in path and "= Parts(" in (ROOT / path).read_text()
    ]


def decisions(text: str) -> Iterator[str]:
    """Yield each place of a source that decides by the mode itself, and not by what follows from it."""
    for node in ast.walk(ast.parse(text)):
        if _decides(node):
            yield f"line {node.lineno}: {ast.unparse(node)}"  # type: ignore[attr-defined]


def _decides(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module=str(module)) if re.search(r"(^|\.)(program|modes)(\.|$)", module):
            return bool({alias.name for alias in node.names} & (ONE_MODE | RETIRED))
        case ast.Name(id=name) if name in RETIRED:
            return True
        case ast.Attribute(value=ast.Name(id="Rounding"), attr="of"):
            return True
        case ast.Attribute(attr=name, value=ast.Name(id="modes")) if name in ONE_MODE:
            return True
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, kind]):
            return bool(
                {"Rounded", *ONE_MODE} & {part.id for part in ast.walk(kind) if isinstance(part, ast.Name)}
            )
        case ast.Compare():
            return _compares(node.left, *node.comparators)
        case ast.Match(subject=subject):
            return _is_byte(subject)
        case ast.BinOp(op=ast.BitAnd() | ast.RShift()):
            return _is_byte(node.left) or _is_byte(node.right)
        case ast.Subscript(slice=place):
            return _is_byte(place)
    return False


def _compares(*parts: ast.expr) -> bool:
    """Return whether a byte is compared with anything but a byte, or a mode's name with that of one mode.

    NOTE: other things are called modes, too: a setting of daemons (`Mode`), and options of operators, which are words.
    """
    if any(isinstance(part, ast.Constant) and part.value in NAMES for part in parts):
        return True
    if any(
        ast.unparse(part).startswith("Mode.") or ast.unparse(part).endswith((".name", "None"))
        for part in parts
    ):
        return False
    if any(
        isinstance(at, ast.Constant) and isinstance(at.value, str) for part in parts for at in ast.walk(part)
    ):
        return False
    return any(map(_is_byte, parts)) and not all(map(_is_byte, parts))


def _is_byte(part: ast.expr) -> bool:
    return (isinstance(part, ast.Name) and part.id in ("mode", "mode_byte")) or (
        isinstance(part, ast.Attribute) and part.attr in ("mode", "byte")
    )


def test_only_listed_files_decide_by_the_mode() -> None:
    places, elsewhere = listed(), []
    for path in set(sources()) - OTHER_MODES:
        if not any(path == place or (place.endswith("/") and path.startswith(place)) for place in places):
            elsewhere += [f"{path}, {found}" for found in decisions((ROOT / path).read_text())]
    assert not elsewhere, "ask the mode what follows from it (terms.arithmetic), or list the file"


def test_each_listed_place_exists_and_decides() -> None:
    for place in listed():
        assert (ROOT / place).exists(), place
        if place.startswith(PACKAGES):
            files = sorted((ROOT / place).rglob("*.py")) if place.endswith("/") else [ROOT / place]
            assert any(any(decisions(file.read_text())) for file in files), place


def test_each_package_has_at_most_one_place_for_all_modes() -> None:
    rooms = [place.rstrip("/").rpartition("/")[0] for place, alone in listed().items() if not alone]
    assert len(rooms) == len(set(rooms)), rooms
    assert set(mappings()) <= set(listed())


@pytest.mark.parametrize(
    "text",
    [
        "from referee_py.program.modes import EXACT",
        "from ..program.modes.rounded_f64 import RoundedF64",
        "from ..program import MODE_REPOPS_F32",
        "from .modes import is_rounded",
        "flag = is_rounded(terms.mode)",
        "rounding = Rounding.of(mode)",
        "exact = terms.mode == 2",
        "if job.program.mode >= 0x80: pass",
        "plain = mode in (1, 2)",
        "logs = terms.arithmetic.byte != 1",
        "logs = mode & 0x80",
        "way = WAYS[terms.mode]",
        "rounded = isinstance(backend, Rounded)",
        "rounded = isinstance(terms.arithmetic, (modes.RoundedF64, int))",
        "rounded = terms.arithmetic.name == 'rounded-f64'",
        "match terms.mode:\n    case 2: pass",
    ],
)
def test_a_new_place_is_found(text: str) -> None:
    assert any(decisions(text))


@pytest.mark.parametrize(
    "text",
    [
        "from referee_py.program.modes import USUAL, Bounds, Rounding, mode_of",
        "logs = terms.arithmetic.follows_logs",
        "same = receipt.mode == run.terms.mode",
        "watches = settings.mode is not Mode.WATCH",
        "default = flags.mode is None or flags.mode == usual.name",
        "padded = mode in ('SAME_UPPER', 'SAME_LOWER')",
        "rounding = Rounding(bits)",
    ],
)
def test_what_asks_the_mode_is_no_place(text: str) -> None:
    assert not any(decisions(text))
