"""Only what we have made ourselves is emptied or removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from referee_py.errors import InvalidInput
from trainer_node import made

BY = "assay demo"


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def test_a_new_folder_and_an_empty_one_become_ours(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/below"):
        folder = made.emptied(tmp_path / name, BY)
        assert [path.name for path in folder.iterdir()] == [made.MARK]
        assert made.made(folder, BY)


def test_what_we_have_made_is_emptied_and_removed(tmp_path: Path) -> None:
    folder = made.emptied(tmp_path / "ours", BY)
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("x")
    (folder / "file").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    (folder / "link").symlink_to(outside)
    made.emptied(folder, BY)
    assert list(contents(folder)) == [made.MARK]
    assert contents(outside) == {"kept": b"x"}, "what a link names is not ours"
    made.removed(folder, BY)
    assert not folder.exists()
    made.removed(folder, BY)


@pytest.mark.parametrize("marked", [None, "assay program build\n", "", "assay demo"])
def test_what_others_have_made_stays(tmp_path: Path, marked: str | None) -> None:
    folder = tmp_path / "theirs"
    (folder / "client").mkdir(parents=True)
    (folder / "client" / "key.json").write_text("a key")
    if marked is not None:
        (folder / made.MARK).write_text(marked)
    before = contents(folder)
    for act in (made.check, made.emptied, made.removed):
        with pytest.raises(
            InvalidInput, match=rf"{folder} was not made by `assay demo`.*name another folder"
        ):
            act(folder, BY)
    assert contents(folder) == before


@pytest.mark.parametrize("linked", ["folder", "mark"])
def test_a_link_to_what_we_have_made_is_not_ours(tmp_path: Path, linked: str) -> None:
    ours = made.emptied(tmp_path / "ours", BY)
    theirs = tmp_path / "theirs"
    if linked == "folder":
        theirs.symlink_to(ours)
    else:
        theirs.mkdir()
        (theirs / made.MARK).symlink_to(ours / made.MARK)
        (theirs / "file").write_text("x")
    with pytest.raises(InvalidInput, match="name another folder"):
        made.emptied(theirs, BY)
    with pytest.raises(InvalidInput, match="name another folder"):
        made.removed(theirs, BY)
    assert made.made(ours, BY)


def test_a_file_or_a_pipe_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        with pytest.raises(InvalidInput, match="is no folder"):
            made.emptied(tmp_path / name, BY)


def test_whoever_is_stopped_while_a_folder_is_emptied_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made.emptied(tmp_path / "ours", BY)
    (folder / "below").mkdir()

    def stop(_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", stop)
        with pytest.raises(KeyboardInterrupt):
            made.emptied(folder, BY)
    assert made.made(folder, BY)
    assert list(contents(made.emptied(folder, BY))) == [made.MARK]
