"""A folder of images, one folder for each class, as `x` f32 `[N, C, H, W]` in [0, 1] and `y` i64 `[N]`.

    folder/cat/001.png   folder/cat/002.jpg   folder/dog/001.png        classes: cat = 0, dog = 1

Classes and files are ordered by the bytes of their names, so the same folder gives the same rows. A pixel v becomes the
f32 nearest to v / 255. Decoding and scaling may differ between versions of the library; the tensors are committed, so
nobody decodes again. Images are untrusted: only known formats are read, and sizes are checked before a pixel is
decoded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from referee_py.errors import InvalidInput
from trainer_node.errors import PIP, ConfigError

from .arrays import MAX_BYTES
from .dataset import Dataset

MAX_FILE_BYTES = 64 << 20
MAX_PIXELS = 64 << 20
MAX_IMAGES = 10_000_000
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "WEBP")
_MODES = {1: "L", 3: "RGB"}


def read_images(
    folder: Path, size: tuple[int, int], channels: int = 3, *, max_bytes: int = MAX_BYTES
) -> Dataset:
    """Return the images of a folder as a data set, scaled to `size` (height, width) where they differ.

    Raises InvalidInput; ConfigError if Pillow is missing.
    """
    height, width = size
    if channels not in _MODES or min(size) < 1 or height * width > MAX_PIXELS:
        raise InvalidInput(
            f"images of {channels} x {height} x {width}; channels are 1 or 3, sides from 1, at most {MAX_PIXELS} pixels"
        )
    classes = sorted(
        (entry.name for entry in _entries(folder) if entry.is_dir(follow_symlinks=False)), key=os.fsencode
    )
    for name in classes:
        if (
            not name.isprintable()
        ):  # NOTE: bytes that are not UTF-8 come as surrogates, which are not printable either
            raise InvalidInput(f"class folder {name!r} has no plain name; rename it")
    files = [(k, path) for k, name in enumerate(classes) for path in _files(folder / name)]
    if not files:
        raise InvalidInput(f"{folder} holds no images; put them into one folder for each class")
    total = 4 * len(files) * channels * height * width
    if len(files) > MAX_IMAGES or total > max_bytes:
        raise InvalidInput(
            f"{len(files)} images take {total} bytes; the limits are {MAX_IMAGES} images and {max_bytes} bytes"
        )
    pixels = np.empty((len(files), channels, height, width), np.float32)
    for row, (_, path) in enumerate(files):
        # NOTE: one IEEE division of integers that f32 holds exactly gives the f32 nearest to v / 255.
        pixels[row] = _pixels(path, size, channels).astype(np.float32) / np.float32(255)
    labels = np.array([k for k, _ in files], np.int64)
    return Dataset(
        {"x": pixels, "y": labels},
        {"source": "images", "classes": classes, "size": [channels, height, width]},
    )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return [entry for entry in found if not entry.name.startswith(".")]


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a class. SAFETY: a link could lead out of the folder, so it is refused, not followed."""
    for entry in sorted(_entries(folder), key=lambda entry: os.fsencode(entry.name)):
        if not entry.is_file(follow_symlinks=False):
            raise InvalidInput(f"{entry.path} is not a plain file; a class folder holds images only")
        if entry.stat().st_size > MAX_FILE_BYTES:
            raise InvalidInput(f"{entry.path} is larger than {MAX_FILE_BYTES} bytes, the limit")
        yield Path(entry.path)


def _pixels(path: Path, size: tuple[int, int], channels: int) -> npt.NDArray[np.uint8]:
    """Return u8 `[channels, height, width]`."""
    library = _library()
    try:
        with warnings.catch_warnings(action="ignore"), library.open(path, formats=FORMATS) as image:
            # SAFETY: only the header has been read so far; a bomb is refused before its pixels are decoded.
            if image.width * image.height > MAX_PIXELS:
                raise InvalidInput(
                    f"{path} has {image.width} x {image.height} pixels; the limit is {MAX_PIXELS} in all"
                )
            plain = image.convert(_MODES[channels])
            if (plain.height, plain.width) != size:
                plain = plain.resize((size[1], size[0]), library.Resampling.BILINEAR)
            array = np.asarray(plain, dtype=np.uint8).reshape(*size, channels)
    except (OSError, ValueError, SyntaxError, EOFError, library.DecompressionBombError) as error:
        raise InvalidInput(
            f"{path} is not a readable image of {', '.join(FORMATS)}: {error}; remove or repair it"
        ) from error
    return array.transpose(2, 0, 1)


def _library() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"images need Pillow; install it with `{PIP} install 'assay-referee[data]'`"
        ) from error
    return Image
