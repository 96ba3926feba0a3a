"""The page of messages: messages that commands really give are on it, with their remedy."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from assay_capture.capture import remedies
from scripts.docs.messages import GAP, PARTS, Message, messages, page, reasons
from scripts.docs.words import cell
from tests.conftest import Assay
from trainer_node.reason import Reason
from trainer_node.stake.policy import Crowded

from .pages import ROOT


@functools.cache
def every() -> list[Message]:
    """Return the messages of all packages that name a remedy."""
    return [message for package, _, _ in PARTS for message in messages(ROOT, package)]


@pytest.mark.parametrize(
    ("command", "error", "remedy"),
    [
        (
            ("program", "build", "gpt2-tyni", "job"),
            "CaptureError",
            "give path/to/file.py:function or one of …",
        ),
        (("program", "run", "nothing", "--resume"), "InvalidInput", None),
        (("program", "build", "digits-mlp"), None, None),
        (("run", "diff", "a", "b", "--device", "tpu"), "InvalidInput", "choose cpu or cuda"),
        (("program", "build", "a.onnx", "job"), "InvalidInput", "add --…"),
        (("explorer", "--receipts", "a", "--port", "0"), "InvalidInput", "add --run"),
    ],
)
def test_what_a_command_says_is_on_the_page(
    assay: Assay, command: tuple[str, ...], error: str | None, remedy: str | None
) -> None:
    code, _, errors = assay(*command)
    assert code == 2
    told = errors.removeprefix("error: ").strip()
    found = [message for message in every() if message.means(told)]
    if remedy is not None:
        assert (error, remedy) in {(message.error, message.remedy) for message in found}, told


def test_a_message_is_found_by_its_words_and_no_other_is_taken_for_it() -> None:
    one = Message(f"device {GAP}", "choose cpu or cuda", "InvalidInput", "a.py")
    assert one.means("device 'tpu'; choose cpu or cuda")
    assert not one.means("device 'tpu'; choose something")
    assert len(every()) > 250
    assert all(message.remedy.strip(f"{GAP} ") and message.problem.strip(f"{GAP} ") for message in every())


def test_every_reason_with_a_text_is_there() -> None:
    def below(of: type[Reason]) -> set[type[Reason]]:
        return {of}.union(*(below(one) for one in of.__subclasses__()))

    found = {kind: words for kind, words, _ in reasons(ROOT)}
    mine = {
        one for one in below(Reason) if one.__module__.startswith("trainer_node.") and "text" in vars(one)
    }
    assert {one.__name__ for one in mine} <= {*found}
    assert found["Crowded"].split(GAP)[1].strip() in str(Crowded(3, 2))


def test_the_page_has_the_remedies_of_capture(tmp_path: Path) -> None:
    text = page(ROOT)
    for table in (remedies.OF_VALUES, remedies.WITHOUT, remedies.OF_ERRORS):
        for words, remedy in table.items():
            assert f"| `{words}` | {cell(remedy)} |" in text
    (tmp_path / "assay_capture").mkdir()
    (tmp_path / "assay_capture/a.py").write_text(
        'raise CaptureError(f"a step of {x} operators; leave some out")\nraise CaptureError("no remedy is named")\n'
    )
    (only,) = messages(tmp_path, "assay_capture")
    assert only == Message(
        f"a step of {GAP} operators", "leave some out", "CaptureError", "assay_capture/a.py"
    )
