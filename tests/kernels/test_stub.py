"""kernels/repops/__init__.pyi tells editors and mypy what the module really has."""

import ast
import runpy
from pathlib import Path

import repops
from repops.opset import BY_NAME

ROOT = Path(__file__).resolve().parent.parent.parent
STUB = ROOT / "kernels/repops/__init__.pyi"


def test_the_stub_is_that_of_the_table() -> None:
    built = runpy.run_path(str(ROOT / "scripts/make_stubs.py"))["build"]()
    assert built == STUB.read_text(), "run scripts/make_stubs.py"


def test_the_stub_has_every_export_and_no_more() -> None:
    body = ast.parse(STUB.read_text()).body
    functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    imports = {
        alias.name for node in body if isinstance(node, ast.ImportFrom) and node.level for alias in node.names
    }
    assert functions | imports == {*repops.__all__, *BY_NAME}
    assert all(hasattr(repops, name) for name in functions | imports)
