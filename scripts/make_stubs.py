"""Write kernels/repops/__init__.pyi: what `repops` exports, with a function for each operator of the table.

The module makes these functions when they are asked for, so only the stub tells editors and mypy that `repops.mm` takes
two tensors and `repops.sum` the attributes `dims` and `keepdim`. The same table gives the same bytes.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import repops
from repops.opset import OPS, Op, lookup
from repops.random_calls import random_call
from repops.tensors import spec_of

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "kernels/repops/__init__.pyi"
SOURCE = TARGET.with_suffix(".py")
KINDS = {"int": "int", "ints": "_Ints", "dtype": "_Dtype"}
HEAD = '''"""Exports of repops, and every operator of the table as a function of tensors and attributes.

Written by scripts/make_stubs.py; the module's documentation is in __init__.py.
"""

# ruff: noqa: A001  (operators are called as in the table)

from typing import Any, TypeAlias, TypeVar, overload

import numpy.typing as npt
import torch
'''
TYPES = """
_Array: TypeAlias = npt.NDArray[Any]
_Tensor = TypeVar("_Tensor", _Array, torch.Tensor)
_Out: TypeAlias = _Tensor | list[_Tensor] | tuple[_Tensor, ...]
_Ints: TypeAlias = tuple[int, ...] | list[int]
_Dtype: TypeAlias = opset.Dtype | int
"""


def exports() -> str:
    """Return imports and functions of `repops.__all__`, as __init__.py has them."""
    names, lines = set(repops.__all__), [f"__all__ = {repops.__all__!r}"]
    functions = []
    for node in ast.parse(SOURCE.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            found = sorted(alias.name for alias in node.names if alias.name in names)
            names -= set(found)
            if found:
                lines.insert(-1, f"from .{node.module or ''} import {', '.join(found)}")
        elif isinstance(node, ast.FunctionDef) and node.name in names:
            names.remove(node.name)
            docstring = ast.get_docstring(node)
            node.body = [ast.Expr(ast.Constant(docstring))]
            functions.append(ast.unparse(node))
    if names:
        raise ValueError(f"{SOURCE} exports {sorted(names)}, but neither imports nor defines them")
    return "\n".join([*lines, TYPES, *functions])


def results(row: Op) -> int:
    """Return the operator's number of outputs."""
    inputs, attrs = random_call(row.name, 0)
    specs = [spec_of(array, row.argument(place)) for place, array in enumerate(inputs)]
    return len(lookup(row.name).infer(specs, attrs))


def function(row: Op) -> str:
    """Return the operator as a function."""
    attrs = [f"{name}: {KINDS[kind]}" for name, kind in row.attrs]
    doc = f'"""Operator {row.id}, {row.name}({row.args}): see docs/opset.md."""'
    if row.arity == 0:  # an array, unless the output is in tensors
        return (
            f"@overload\ndef {row.name}(*, {', '.join(attrs)}, out: None = None) -> _Array:\n    {doc}\n"
            f"@overload\ndef {row.name}(*, {', '.join(attrs)}, out: _Out[_Tensor]) -> _Tensor: ..."
        )
    inputs = [f"{name}: _Tensor" for name in row.args.removesuffix("*").split()]
    after = ["/", "*" if row.arity else "*more: _Tensor"]
    arguments = ", ".join([*inputs, *after, *attrs, "out: _Out[_Tensor] | None = None"])
    returned = "_Tensor" if results(row) == 1 else "list[_Tensor]"
    return f"def {row.name}({arguments}) -> {returned}:\n    {doc}"


def build() -> str:
    """Return the file's text."""
    text = "\n".join([HEAD, exports(), *map(function, OPS)])
    ruff: list[str | Path] = [Path(sys.executable).parent / "ruff", "format", "--stdin-filename", TARGET, "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True, cwd=ROOT).stdout


if __name__ == "__main__":
    TARGET.write_text(build())
