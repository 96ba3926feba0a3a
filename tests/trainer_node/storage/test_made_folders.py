"""Only what we have made ourselves is emptied or removed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from assay_lab.demo.network import Network
from assay_lab.demo.play import _linger
from assay_lab.processes import ended_by_signals, undisturbed
from referee_py.errors import InvalidInput
from trainer_node.errors import AlreadyRunning
from trainer_node.storage import made_folders

BY = "assay demo"


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_a_new_folder_and_an_empty_one_become_ours(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/below"):
        folder = made_folders.emptied(tmp_path / name, BY)
        assert [path.name for path in folder.iterdir()] == [made_folders.MARK]
        assert made_folders.made(folder, BY)


def fill(folder: Path) -> None:
    (folder / "below" / "deep").mkdir(parents=True)
    (folder / "below" / "deep" / "file").write_text("x")
    (folder / "file").write_text("x")


NAMES = ("below", "file", "link")


def test_what_we_have_made_is_emptied_and_removed(tmp_path: Path) -> None:
    folder = made_folders.emptied(tmp_path / "ours", BY, NAMES)
    fill(folder)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "link").symlink_to(outside)
    made_folders.closed(folder, BY)
    made_folders.emptied(folder, BY, NAMES)
    assert list(contents(folder)) == [made_folders.MARK]
    assert contents(outside) == {"kept": b"x"}, "what a link names is not ours"
    fill(folder)
    made_folders.closed(folder, BY)
    made_folders.removed(folder, BY)
    assert not folder.exists()
    made_folders.removed(folder, BY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"], "nothing had to be moved aside"


def test_what_we_did_not_make_stays(tmp_path: Path) -> None:
    """The attack: notes in a folder of ours were gone when the command ran again."""
    folder = made_folders.emptied(tmp_path / "demo", BY, NAMES)
    fill(folder)
    (folder / "my notes").mkdir()
    (folder / "my notes" / "thesis.tex").write_text("somebody's")
    (folder / "results.csv").write_text("somebody's")
    made_folders.closed(folder, BY)
    (folder / "below" / "late.csv").write_text("somebody's")
    (folder / "file").write_text("changed by somebody")
    made_folders.emptied(folder, BY, NAMES)
    assert (folder / "results.csv").exists()
    assert (folder / "my notes" / "thesis.tex").exists()
    assert not any((folder / name).exists() for name in NAMES), "nothing is in the command's way"
    aside = {name: data for name, data in contents(tmp_path / "demo.left-1").items() if data is not None}
    assert aside == {"below/late.csv": b"somebody's", "file": b"changed by somebody"}
    made_folders.removed(folder, BY)
    assert (folder / "results.csv").exists()


def test_what_a_command_left_when_it_was_killed_is_moved_aside(tmp_path: Path) -> None:
    for times in (1, 2):
        folder = made_folders.emptied(tmp_path / "ours", BY, NAMES)
        assert list(contents(folder)) == [made_folders.MARK]
        fill(folder)
        assert len(list(tmp_path.glob("ours.left-*"))) == times - 1
    made_folders.emptied(folder, BY, ["another name"])
    assert len(list(tmp_path.glob("ours.left-*"))) == 2


def test_a_link_in_the_way_leads_to_nothing_that_is_removed(tmp_path: Path) -> None:
    folder = made_folders.emptied(tmp_path / "ours", BY, NAMES)
    fill(folder)
    made_folders.closed(folder, BY)
    (folder / "below").rename(tmp_path / "moved")
    (folder / "below").symlink_to(tmp_path / "moved")
    made_folders.emptied(folder, BY, NAMES)
    assert (tmp_path / "moved" / "deep" / "file").exists()


@pytest.mark.parametrize(
    "said",
    [
        "{",
        "[]",
        '{"names": ["../outside"]}',
        '{"names": ["a/b"]}',
        '{"names": [".."]}',
        '{"files": [["../outside", 1]]}',
        '{"files": 5}',
        "7",
    ],
)
def test_a_mark_that_cannot_be_read_makes_no_folder_ours(tmp_path: Path, said: str) -> None:
    folder = made_folders.emptied(tmp_path / "ours", BY, NAMES)
    fill(folder)
    (folder / made_folders.MARK).write_text(f"{BY}\n{said}\n")
    before = contents(folder)
    with pytest.raises(InvalidInput, match="was not made by"):
        made_folders.emptied(folder, BY, NAMES)
    assert contents(folder) == before


def test_a_mark_that_somebody_has_written_removes_nothing_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    found = outside.lstat()
    folder = made_folders.emptied(tmp_path / "ours", BY)
    files = [
        ["../outside", found.st_size, found.st_mtime_ns],
        [str(outside), found.st_size, found.st_mtime_ns],
    ]
    (folder / made_folders.MARK).write_text(f"{BY}\n{json.dumps({'files': files})}\n")
    made_folders.emptied(folder, BY)
    assert outside.exists()


def test_a_site_from_before_is_no_obstacle_and_not_lost(tmp_path: Path) -> None:
    from scripts.docs.__main__ import put

    built, site = tmp_path / "built", tmp_path / "docs"
    for folder, text in ((built, "new"), (site, "old")):
        folder.mkdir()
        (folder / "index.html").write_text(text)
    for _ in range(2):
        put(built, site)
        assert (site / "index.html").read_text() == "new"
        assert [path.name for path in tmp_path.glob("docs.left-*")] == ["docs.left-1"]
    assert (tmp_path / "docs.left-1" / "index.html").read_text() == "old"


def test_artifacts_of_contracts_that_are_gone_are_removed_and_other_files_are_not(tmp_path: Path) -> None:
    from scripts.build_contracts import KEYS, is_ours

    (tmp_path / "Old.json").write_text(json.dumps(dict.fromkeys(KEYS, "")))
    for name, text in (("mine.json", "{}"), ("broken.json", "{"), ("list.json", "[]")):
        (tmp_path / name).write_text(text)
    assert {path.name for path in tmp_path.iterdir() if is_ours(path)} == {"Old.json"}


@pytest.mark.parametrize("marked", [None, "assay program build\n", "", "assay demo"])
def test_what_others_have_made_stays(tmp_path: Path, marked: str | None) -> None:
    folder = tmp_path / "theirs"
    (folder / "client").mkdir(parents=True)
    (folder / "client" / "key.json").write_text("a key")
    if marked is not None:
        (folder / made_folders.MARK).write_text(marked)
    before = contents(folder)
    for act in (made_folders.check, made_folders.emptied, made_folders.removed):
        with pytest.raises(
            InvalidInput, match=rf"{folder} was not made by `assay demo`.*name another folder"
        ):
            act(folder, BY)
    assert contents(folder) == before


@pytest.mark.parametrize("linked", ["folder", "mark"])
def test_a_link_to_what_we_have_made_is_not_ours(tmp_path: Path, linked: str) -> None:
    ours = made_folders.emptied(tmp_path / "ours", BY)
    theirs = tmp_path / "theirs"
    if linked == "folder":
        theirs.symlink_to(ours)
    else:
        theirs.mkdir()
        (theirs / made_folders.MARK).symlink_to(ours / made_folders.MARK)
        (theirs / "file").write_text("x")
    with pytest.raises(InvalidInput, match="name another folder"):
        made_folders.emptied(theirs, BY)
    with pytest.raises(InvalidInput, match="name another folder"):
        made_folders.removed(theirs, BY)
    assert made_folders.made(ours, BY)


def test_a_file_or_a_pipe_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        with pytest.raises(InvalidInput, match="is not a folder"):
            made_folders.emptied(tmp_path / name, BY)


def test_whoever_is_stopped_while_a_folder_is_emptied_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made_folders.emptied(tmp_path / "ours", BY, NAMES)
    fill(folder)
    made_folders.closed(folder, BY)

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.rmdir", stop)
        with pytest.raises(KeyboardInterrupt):
            made_folders.emptied(folder, BY, NAMES)
    assert made_folders.made(folder, BY)
    assert list(contents(made_folders.emptied(folder, BY, NAMES))) == [made_folders.MARK]


def test_a_network_is_not_emptied_while_another_one_runs_in_its_folder(tmp_path: Path) -> None:
    """Two demonstrations begin in one folder, the default of both."""
    folder = tmp_path / "network"
    with Network(folder, ["trainer"]) as first:
        (folder / "trainer").mkdir()
        (folder / "trainer" / "node.sqlite3").write_text("of a trainer that runs")
        password = first.password.read_text()
        with (
            pytest.raises(AlreadyRunning, match="is in use by another process"),
            Network(folder, ["trainer"]),
        ):
            pytest.fail("it begins")
        assert first.password.read_text() == password
        assert (folder / "trainer" / "node.sqlite3").exists()
    with Network(folder, ["trainer"]) as second:
        assert second.password.read_text() != password
        assert not (folder / "trainer").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_what_a_network_has_made_until_a_signal_ended_it_is_removed_and_nothing_else(
    tmp_path: Path, number: signal.Signals
) -> None:
    """A demonstration that is interrupted each time kept a copy of its folder each time."""
    folder = tmp_path / "network"
    with contextlib.suppress(KeyboardInterrupt, SystemExit), ended_by_signals(), Network(folder, ["trainer"]):
        (folder / "trainer").mkdir()
        (folder / "trainer" / "node.sqlite3").write_text("of a trainer")
        os.kill(os.getpid(), number)
    assert (folder / "trainer" / "node.sqlite3").exists()
    (folder / "client").mkdir(exist_ok=True)
    (folder / "client" / "key.json").write_text("somebody's")
    with capture_logs() as told, Network(folder, ["trainer"]):
        assert not (folder / "trainer").exists()
    aside = tmp_path / "network.left-1"
    assert {name for name, data in contents(aside).items() if data is not None} == {"client/key.json"}
    (said,) = [line for line in told if line["event"] == "folder.moved_aside"]
    assert said["to"] == str(aside)
    assert f"nothing reads {aside} any more" in said["advice"]
    assert "delete it" in said["advice"]


@pytest.mark.parametrize("interrupted", ["_remove", "_move_aside", "_write"])
def test_what_somebody_has_put_into_a_folder_outlasts_a_signal_while_it_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """It was noted as the network's own then, and the next one removed it."""
    folder = tmp_path / "network"
    with contextlib.suppress(KeyboardInterrupt), Network(folder, ["trainer"]):
        raise KeyboardInterrupt
    (folder / "client").mkdir()
    (folder / "client" / "thesis.tex").write_text("somebody's")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(made_folders, interrupted, stop)
        with pytest.raises(KeyboardInterrupt), Network(folder, ["trainer"]):
            pytest.fail("it begins")
    with Network(folder, ["trainer"]):
        assert list(tmp_path.rglob("thesis.tex")) == [tmp_path / "network.left-1" / "client" / "thesis.tex"]


def test_pages_that_stay_until_ctrl_c_end_by_it_and_the_demonstration_does_not() -> None:
    class Interrupted:
        def dead(self) -> list[str]:
            os.kill(os.getpid(), signal.SIGINT)
            return []

    with ended_by_signals():
        _linger(cast(Network, Interrupted()))
        with undisturbed():
            """Here a signal that has come would be raised."""
