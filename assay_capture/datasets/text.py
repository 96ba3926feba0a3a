"""Text as tokens in windows for next-token training.

    text ──> tokens t_0 t_1 t_2 ...        bytes (256 values), or byte-pair encoding by a tokenizer
    row k = t_(k s) ... t_(k s + T)        T inputs and T targets in T + 1 tokens; s is the stride, T by default

A tokenizer is trained on the text itself, or read from a tokenizer.json. Its SHA-256 is recorded and the file is kept
with the data set, so that users of the model can encode and decode as in training.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from referee_py.commit.tensor import Array
from referee_py.errors import InvalidEncoding, InvalidInput
from trainer_node.errors import PIP, ConfigError

from .dataset import Dataset

MAX_TEXT_BYTES = 4 << 30
MAX_BPE_BYTES = 1 << 30
"""Largest text for byte-pair encoding, which holds several times its size in memory."""
MAX_TOKENIZER_BYTES = 64 << 20
MAX_VOCABULARY = 1 << 20
TOKENIZER_FILE = "tokenizer.json"


@dataclass(frozen=True)
class Tokens:
    """A stream of tokens, all below `vocabulary`. `tokenizer` is the content of tokenizer.json, if there is one."""

    stream: npt.NDArray[np.int64]
    vocabulary: int
    tokenizer: bytes | None = field(default=None, repr=False)

    def windows(self, length: int, stride: int | None = None) -> npt.NDArray[np.int64]:
        """Return `[N, length + 1]`: every window that fits. Tokens after the last window are left out."""
        step = length if stride is None else stride
        if length < 1 or step < 1:
            raise InvalidInput(f"windows of {length} tokens every {step}; both must be at least 1")
        if len(self.stream) < length + 1:
            raise InvalidInput(
                f"{len(self.stream)} tokens give no window of {length} and the next; choose a shorter --window"
            )
        views = np.lib.stride_tricks.sliding_window_view(self.stream, length + 1)[::step]
        return views.copy()


def read_text(
    path: Path,
    window: int,
    *,
    stride: int | None = None,
    tokenizer: Path | None = None,
    vocabulary: int | None = None,
    pairs: bool = False,
) -> Dataset:
    """Return the windows of a text file as a data set: `tokens` `[N, T+1]`; with `pairs`, `x` and `y` `[N, T]`.

    Tokens are bytes, unless `tokenizer` names a tokenizer.json or `vocabulary` gives the size of one to train on the
    text. Raises InvalidInput, InvalidEncoding; ConfigError if the tokenizers library is missing.
    """
    if tokenizer is not None and vocabulary is not None:
        raise InvalidInput("a tokenizer is either given or trained; leave out --tokenizer or --vocabulary")
    data = _read(path, MAX_TEXT_BYTES if tokenizer is None and vocabulary is None else MAX_BPE_BYTES)
    if tokenizer is not None:
        tokens = encode(data, _read(tokenizer, MAX_TOKENIZER_BYTES))
    elif vocabulary is not None:
        tokens = encode(data, train_tokenizer(data, vocabulary))
    else:
        tokens = Tokens(np.frombuffer(data, np.uint8).astype(np.int64), 256)
    rows = tokens.windows(window, stride)
    tensors: dict[str, Array] = {"tokens": rows}
    if pairs:
        tensors = {"x": rows[:, :-1].copy(), "y": rows[:, 1:].copy()}
    origin: dict[str, Any] = {
        "source": "text",
        "sha256": hashlib.sha256(data).hexdigest(),
        "tokens": len(tokens.stream),
        "vocabulary": tokens.vocabulary,
        "window": window,
        "stride": window if stride is None else stride,
    }
    extras = {}
    if tokens.tokenizer is not None:
        extras[TOKENIZER_FILE] = tokens.tokenizer
        origin["tokenizer"] = hashlib.sha256(tokens.tokenizer).hexdigest()
    return Dataset(tensors, origin, extras)


def train_tokenizer(data: bytes, vocabulary: int) -> bytes:
    """Return tokenizer.json of a byte-level byte-pair encoding with that many tokens (256 are the bytes themselves).

    NOTE: pairs to merge are counted, not sampled, so the same text gives the same file.
    """
    if not 256 <= vocabulary <= MAX_VOCABULARY:
        raise InvalidInput(
            f"a vocabulary of {vocabulary} tokens; choose from 256 (the bytes) to {MAX_VOCABULARY}"
        )
    library = _library()
    model = library.Tokenizer(library.models.BPE())
    model.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    model.train_from_iterator(_utf8(data).splitlines(keepends=True), trainer)
    text: str = model.to_str()
    return text.encode()


def encode(data: bytes, tokenizer: bytes) -> Tokens:
    """Return the tokens of a text by a tokenizer.json. SAFETY: the file is parsed as data; nothing in it is run."""
    library = _library()
    text = _utf8(data)
    try:
        model = library.Tokenizer.from_str(_utf8(tokenizer))
        model.no_truncation()
        model.no_padding()
        ids = model.encode(text, add_special_tokens=False).ids
    except BaseException as error:
        # NOTE: the library's parser is compiled code; its panics are not instances of Exception.
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise InvalidEncoding(f"the tokenizer cannot be used: {str(error)[:200]}") from error
    stream = np.array(ids, dtype=np.int64)
    return Tokens(stream, max(model.get_vocab_size(), int(stream.max(initial=-1)) + 1), tokenizer)


def _library() -> Any:
    try:
        import tokenizers
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"byte-pair encoding needs tokenizers; install it with `{PIP} install 'assay-referee[data]'`"
        ) from error
    return tokenizers


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"the text is not UTF-8 at byte {error.start}; convert it, or use bytes as tokens"
        ) from error


def _read(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise InvalidInput(f"{path} has more than {limit} bytes, the limit; split it")
    return data
