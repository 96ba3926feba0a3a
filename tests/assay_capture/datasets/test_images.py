"""Folders of images: class by folder, pixels over 255, hostile files refused before they are decoded."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from assay_capture.datasets import images, read_images
from referee_py.errors import InvalidInput

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two classes of three images each, written in no particular order."""
    root = tmp_path / "pictures"
    for k in (4, 0, 5, 2, 1, 3):
        place = root / ("dog" if k < 3 else "cat")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[k]).save(place / f"{k}.png")
    return root


def test_pixels_and_classes(folder: Path) -> None:
    data = read_images(folder, (5, 4))
    assert data.origin["classes"] == ["cat", "dog"]
    assert data.tensors["y"].tolist() == [0, 0, 0, 1, 1, 1]
    expected = PIXELS[[3, 4, 5, 0, 1, 2]].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(data.tensors["x"], expected.astype(np.float32) / np.float32(255))
    np.testing.assert_array_equal(data.tensors["x"], (expected.astype(np.float64) / 255).astype(np.float32))


def test_other_sizes_are_scaled_and_grey_is_one_channel(folder: Path) -> None:
    x = read_images(folder, (8, 6), channels=1).tensors["x"]
    assert x.shape == (6, 1, 8, 6)
    assert 0 <= x.min() < x.max() <= 1


def test_palettes_and_transparency_become_colour(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    for k, mode in enumerate(("P", "RGBA", "LA", "1", "L", "I;16")):
        source = Image.fromarray(PIXELS[0]) if mode != "I;16" else Image.new("I;16", (4, 5), 300)
        (source if mode == "I;16" else source.convert(mode)).save(tmp_path / "one" / f"{k}.png")
    assert read_images(tmp_path, (5, 4)).tensors["x"].shape == (6, 3, 5, 4)


def refused(root: Path, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_images(root, (5, 4))


def png(width: int, height: int, data: bytes = b"") -> bytes:
    """Return a PNG that declares a size and has this data."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


def test_a_bomb_is_refused_by_what_it_declares(folder: Path) -> None:
    (folder / "cat" / "bomb.png").write_bytes(png(9000, 9000))
    refused(folder, r"bomb\.png has 9000 x 9000 pixels; the limit is")
    (folder / "cat" / "bomb.png").write_bytes(png(100_000, 100_000))
    refused(folder, r"bomb\.png")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an image",
        png(5, 4),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 5\n",
        b"\xff\xd8\xff\xe0",
    ],
)
def test_a_file_that_is_no_image_is_refused(content: bytes, folder: Path) -> None:
    (folder / "cat" / "bad.png").write_bytes(content)
    refused(folder, r"bad\.png is not a readable image")


def test_a_truncated_image_is_refused(folder: Path) -> None:
    file = folder / "cat" / "3.png"
    file.write_bytes(file.read_bytes()[:-40])
    refused(folder, "not a readable image")


def test_links_and_folders_in_a_class_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.png").write_bytes((folder / "cat" / "3.png").read_bytes())
    link = folder / "cat" / "link.png"
    link.symlink_to(tmp_path / "outside.png")
    refused(folder, r"link\.png is not a plain file")
    link.unlink()
    (folder / "cat" / "sub").mkdir()
    refused(folder, "sub is not a plain file")


@pytest.mark.parametrize("name", [b"\xff\xfe", b"a\nb", b"\x1b[2J"])
def test_a_class_without_a_plain_name_is_refused(name: bytes, folder: Path) -> None:
    (folder / os.fsdecode(name)).mkdir()
    refused(folder, "has no plain name; rename it")


def test_a_linked_class_is_no_class(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (folder / "zebra").symlink_to(tmp_path / "elsewhere")
    assert read_images(folder, (5, 4)).origin["classes"] == ["cat", "dog"]


def test_limits(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidInput, match=r"take 1440 bytes; the limits are .* 1000 bytes"):
        read_images(folder, (5, 4), max_bytes=1000)
    for size, channels in (((0, 4), 3), ((5, 4), 2), ((1 << 20, 1 << 20), 3)):
        with pytest.raises(InvalidInput, match="channels are 1 or 3"):
            read_images(folder, size, channels)
    monkeypatch.setattr(images, "MAX_FILE_BYTES", 10)
    refused(folder, "larger than 10 bytes")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "one folder for each class")
