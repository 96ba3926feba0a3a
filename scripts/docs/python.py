"""Pages of the Python API: which modules are on which page. mkdocstrings reads their docstrings."""

from __future__ import annotations

PAGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "python-repops.md": (
        "Python: operators",
        "`repops` gives the same bits on every machine; it depends on nothing else of Assay ([use](../kernels.md)).",
        ("repops", "repops.torch", "repops.torch.functional", "repops.torch.optim"),
    ),
    "python-programs.md": (
        "Python: programs and data",
        "What a [recipe](../programs.md) is made of, and how programs are read and run.",
        (
            "assay_capture.capture.recipe",
            "assay_capture.capture.optimizers.builtin",
            "assay_capture.capture.optimizers.update_rules",
            "assay_capture.datasets.dataset",
            "trainer_node.local.bundle",
            "referee_py.program.program",
            "referee_py.program.read",
            "referee_py.program.terms",
        ),
    ),
    "python-audit.md": (
        "Python: audits",
        "The parts of [`assay audit`](../audits.md).",
        (
            "trainer_node.audit.published",
            "trainer_node.audit.selection",
            "trainer_node.audit.interval",
            "trainer_node.audit.receipt",
            "trainer_node.audit.coverage",
        ),
    ),
}


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    return {
        name: f"# {title}\n\n{text}\n\n" + "\n".join(f"## {module}\n\n::: {module}\n" for module in modules)
        for name, (title, text, modules) in PAGES.items()
    }
