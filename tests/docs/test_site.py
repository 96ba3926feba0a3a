"""The check of the built site, and the generated reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs import code, commands, contracts
from scripts.docs.links import problems, within

from .pages import ROOT

GUIDE = (ROOT / "docs/operating.md").read_text()


def site(folder: Path, **pages: str) -> Path:
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return folder


def test_a_sound_site_has_no_problem(tmp_path: Path) -> None:
    text = '<a href="b.html#x">b</a><a href="https://example.org">elsewhere</a><img src="data:image/png;base64,">'
    assert problems(site(tmp_path, a=text, b='<p id="x">')) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('<a href="c.html">', "c.html: no such file"),
        ('<a href="../outside.html">', "no such file"),
        ('<a href="b.html#y">', "b.html#y: no such anchor"),
        ('<a href="#y">', "#y: no such anchor"),
        ('<img src="missing.png">', "missing.png: no such file"),
        ('<script src="https://example.org/x.js"></script>', "another host"),
        ('<link rel="preconnect" href="https://example.org">', "another host"),
        ('<img src="//example.org/x.png">', "another host"),
        ('<img srcset="https://example.org/x.png 2x">', "another host"),
        ("<style>@import 'https://example.org/x.css'</style>", "another host"),
        ('<p style="background: url(//example.org/x.png)">', "another host"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, reason: str) -> None:
    (found,) = problems(site(tmp_path, a=text, b='<p id="x">'))
    assert found.startswith("a.html")
    assert reason in found


def test_a_site_without_pages_is_a_problem(tmp_path: Path) -> None:
    assert problems(tmp_path)


def test_links_that_leave_the_docs_become_words_and_broken_ones_are_refused() -> None:
    page = ROOT / "docs/economics.md"
    assert within("see [funds](../trainer_node/stake/funds.py).", page, ROOT) == "see funds."
    with pytest.raises(ValueError, match=r"no_such\.py leads nowhere"):
        within("see [that](../trainer_node/no_such.py)", page, ROOT)


def test_every_command_is_in_the_reference() -> None:
    text = commands.page()
    for words in ("## assay demo", "### assay job post", "### assay dispute show", "`--watch`"):
        assert words in text


def test_every_setting_and_its_limits() -> None:
    text = code.settings(GUIDE)
    assert "| `limits.log_range` |  | `ASSAY_LIMITS__LOG_RANGE` | `10000` | `≥ 1` |" in text
    with pytest.raises(ValueError, match=r"no row for the setting poll_s"):
        code.settings(GUIDE.replace("| `poll_s`", "| `other`"))


def test_links_of_the_guide_lead_on_from_a_folder_below_it() -> None:
    text = "[a](security.md#waits) [b](#settings) [c](economics.md) [d](../README.md) [e](https://example.org/x.md)"
    assert code.below(text) == (
        "[a](../security.md#waits) [b](../operating.md#settings) [c](../economics.md) [d](../README.md) "
        "[e](https://example.org/x.md)"
    )


def test_every_logged_event_with_its_fields() -> None:
    found = {event.name: event for event in code.logged(ROOT)}
    assert found["train.start"].fields == ("job", "after", "of")
    assert found["sample.differs"].level == "error"
    assert "| `train.start` | info |" in code.events(ROOT, GUIDE)


def test_metrics_and_errors_and_contracts() -> None:
    assert "`assay_gas_used_total`" in code.metrics(GUIDE)
    assert "| `RpcUnavailable` | `ChainError`, `Unavailable` |" in code.errors()
    text = contracts.page(ROOT)
    assert "### IJobs.finalize" in text
    assert "**Errors**" in text
