"""Small learnable data sets, the same on every machine: made from a seed, nothing is downloaded."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..seeded import stream, uniform

Ints = npt.NDArray[np.int64]


def integers(seed: int, name: str, shape: tuple[int, ...], below: int) -> Ints:
    """Return i64 in [0, below), from 32 random bits each."""
    words = np.frombuffer(stream(seed, name, 4 * int(np.prod(shape))), dtype="<u4")
    return (words.astype(np.int64) % below).reshape(shape)


def tokens(seed: int, examples: int, length: int, vocabulary: int) -> Ints:
    """Return [examples, length]: each sequence counts up with its own step from its own start, through one alphabet of
    64 tokens that is spread over the vocabulary."""
    alphabet = integers(seed, "alphabet", (64,), vocabulary)
    start, step = integers(seed, "start", (examples, 1), 64), integers(seed, "step", (examples, 1), 3) + 1
    chosen: Ints = alphabet[(start + step * np.arange(length)) % 64]
    return chosen


def images(
    seed: int, examples: int, shape: tuple[int, ...], classes: int
) -> tuple[npt.NDArray[np.float32], Ints]:
    """Return f32 [examples, *shape] scattered around one picture per class, and the classes."""
    labels = integers(seed, "labels", (examples,), classes)
    pictures = uniform(seed, "pictures", (classes, *shape), 1.0)
    return pictures[labels] + uniform(seed, "noise", (examples, *shape), 1.0), labels


def sentences(seed: int, examples: int, length: int, vocabulary: int) -> tuple[Ints, Ints, Ints]:
    """Return token ids padded with 0, the attention mask, and the label: 1 if the first word is in the upper half."""
    words = integers(seed, "words", (examples, length), vocabulary - 1) + 1
    sizes = integers(seed, "sizes", (examples, 1), length // 2) + length // 2
    mask = (np.arange(length) < sizes).astype(np.int64)
    return words * mask, mask, (words[:, 0] > vocabulary // 2).astype(np.int64)
