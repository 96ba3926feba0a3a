"""The notebook of the tour: made from the script, and its own cells show what its text promises."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from scripts.make_notebook import NOTEBOOK, SCRIPT, cells, notebook

ROOT = Path(__file__).resolve().parents[2]
CHAIN = "chain"


def played(folder: Path, *without: str) -> str:
    """Execute the notebook in an empty folder; return what its cells wrote. A kernel of Jupyter asks for colours."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.examples.cells", str(NOTEBOOK), *without],
        cwd=folder,
        env={
            **os.environ,
            **{"PYTHONPATH": str(ROOT), "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"},
            **{"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            told, _ = process.communicate()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
    assert process.returncode == 0, told
    assert "\x1b" not in told, "a kernel's output is no terminal, and has a line for each turn of a spinner"
    assert list(folder.glob("assay-tour-*")) == [], "the tour leaves nothing behind"
    return told


def shows_the_lie(told: str) -> None:
    """Check that the audit and the comparison name the place of the lie, and both numbers."""
    assert len(set(re.findall(r"run root +([0-9a-f]{64})", told))) == 1
    assert [int(count) for count in re.findall(r"^ *MATCH +(\d+)$", told, re.M)] == [4, 3]
    found = re.search(
        r"DIFFERS, step 23, node (\d+) \((\w+)\), output 0, element 0: claimed (\S+), computed (\S+)$",
        told,
        re.M,
    )
    assert found is not None, told
    node, operator = found[1], found[2]
    claimed, computed = map(np.float32, found.groups()[2:])
    assert claimed == np.nextafter(computed, np.float32(np.inf)), "one unit in the last place"
    assert re.search(
        rf"first at step 23, operator {node} \({operator}, optimizer 0.weight\), output 0, element 0: "
        rf"A {re.escape(found[4])}, B {re.escape(found[3])}; B claims what",
        told,
    ), told
    assert told.count("exit code 1") == 2


def test_the_cells_show_the_lie(tmp_path: Path) -> None:
    shows_the_lie(played(tmp_path, CHAIN))


@pytest.mark.slow
def test_all_cells_with_a_dispute_on_a_chain(tmp_path: Path) -> None:
    told = played(tmp_path)
    shows_the_lie(told)
    assert re.search(r"step 23 is the first step that differs", told)
    assert re.search(r"trainer \d \(liar\) loses", told)
    assert "✗" not in told
    assert told.count("✓") >= 7


def test_each_page_about_the_notebook_says_how_to_open_it_and_names_the_script() -> None:
    """Nothing that `make setup` installs opens a notebook."""
    about = [path for path in ROOT.glob("docs/**/*.md") if "examples/tour.ipynb" in path.read_text()]
    assert {path.name for path in about} >= {"index.md", "ten-minutes.md", "train.md"}
    first, *_ = cells(SCRIPT.read_text())
    for told in (*(path.read_text() for path in about), "".join(first["source"])):
        assert "`.venv/bin/pip install jupyterlab`" in told
        assert "`.venv/bin/jupyter lab examples/tour.ipynb`" in told
        assert "python examples/tour.py`" in told


def test_script_and_notebook_agree() -> None:
    assert NOTEBOOK.read_text() == notebook(SCRIPT.read_text()), "python -m scripts.make_notebook"


def test_the_notebook_has_the_cells_of_the_format_and_no_outputs() -> None:
    """As nbformat 4.5 requires: an id for each cell, and outputs of cells of code."""
    made = json.loads(NOTEBOOK.read_text())
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    for cell in made["cells"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
    kinds = [cell["cell_type"] for cell in made["cells"]]
    assert set(kinds) == {"code", "markdown"}
    assert sum(CHAIN in cell["metadata"].get("tags", ()) for cell in made["cells"]) == 1


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("print(1)\n", "begins with"),
        ("print(1)\n# %%\nprint(2)\n", "begins with"),
        ("# %% [raw]\nprint(2)\n", "known here"),
        ("# %% [markdown]\n# text\nprint(1)\n", "does not begin with a #"),
    ],
)
def test_a_script_that_is_no_notebook_is_refused(script: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cells(script)


def test_cells_keep_their_lines() -> None:
    text, code = cells('# %% [markdown]\n# # Head\n#\n# text\n\n# %% tags=["chain"]\nx = 1\n\nprint(x)\n')
    assert "".join(text["source"]) == "# Head\n\ntext"
    assert "".join(code["source"]) == "x = 1\n\nprint(x)"
    assert code["metadata"] == {"tags": ["chain"]}
