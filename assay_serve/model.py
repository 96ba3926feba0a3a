"""A model to serve: its programs, its tokenizer, and the hashes that say which one it is."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from repops.torch_arrays import from_numpy

from assay_capture.capture import Built
from assay_capture.huggingface.folder import causal_model, tokenizer_files
from referee_py.commit.tensor import Array
from referee_py.errors import InvalidInput
from referee_py.program import Program

from . import steps
from .limits import MAX_TOKENS

NOTHING = bytes(32)
"""Hash of a chat template where there is none."""
MAX_VOCABULARY = 1 << 24
"""Tokens that a vocabulary may have: counts of them are exact in f32 (sampling.py)."""


class WrongPlaces(InvalidInput):
    """A number of places that a model does not have."""


@dataclass(frozen=True)
class Identity:
    """The hashes of a model. Equal ones mean equal answers to equal requests.

    step       structure and slots of the program that writes a token, with its number of places
    weights    root of its constants
    tokenizer  names and contents of the tokenizer's files
    template   the chat template; zeros if there is none
    """

    step: bytes
    weights: bytes
    tokenizer: bytes
    template: bytes

    @property
    def root(self) -> bytes:
        """The model root."""
        return hashlib.sha256(
            b"assay model 1" + self.step + self.weights + self.tokenizer + self.template
        ).digest()


@dataclass(frozen=True)
class Model:
    """A causal model of `transformers` with its tokenizer. ``places``: tokens of a prompt and its answer together.

    INVARIANT: nobody writes to the module's weights, whose memory is that of the programs' constants.
    """

    name: str
    module: torch.nn.Module = field(repr=False)
    tokenizer: Any = field(repr=False)
    places: int
    tokenizer_hash: bytes = NOTHING
    _arrays: dict[bytes, Array] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Constants of its programs by hash: all share the weights."""

    @classmethod
    def load(cls, folder: Path, places: int | None = None) -> Model:
        """Read a folder. Raises InvalidInput, ConfigError. ``places`` is the model's window if it is not given."""
        # SAFETY: a stranger's receipt may say any number, and takes so much memory.
        if places is not None and not 2 <= places <= MAX_TOKENS:
            raise WrongPlaces(f"{places} places; choose 2 to {MAX_TOKENS}")
        module, tokenizer = causal_model(folder)
        window = next(
            (n for name in ("max_position_embeddings", "n_positions", "max_sequence_length")
             if isinstance(n := getattr(module.config, name, None), int)), None
        )  # fmt: skip
        if places is None and window is None:
            raise InvalidInput(f"{folder} does not say how many places the model has; add --places")
        if places is not None and window is not None and places > window:
            raise WrongPlaces(f"{places} places; this model has {window}")
        held = min(places or window or 0, MAX_TOKENS)
        found = cls(folder.resolve().name, module, tokenizer, held, _hash_of(folder))
        if not 1 < found.tokens < MAX_VOCABULARY:
            raise InvalidInput(
                f"{folder} has {found.tokens} tokens; a vocabulary has fewer than {MAX_VOCABULARY}"
            )
        return found

    @property
    def tokens(self) -> int:
        """The number of tokens that the model scores."""
        return int(self.module.config.vocab_size)  # type: ignore[union-attr, arg-type]

    @cached_property
    def template(self) -> str | None:
        """The chat template, if there is one."""
        try:
            return str(self.tokenizer.get_chat_template())
        except ValueError:
            return None

    @cached_property
    def ends(self) -> frozenset[int]:
        """Tokens that end an answer: those of the generation's settings, and the tokenizer's own."""
        settings = getattr(self.module, "generation_config", None)
        known = getattr(settings, "eos_token_id", None)
        found = known if isinstance(known, list) else [known]
        return frozenset(token for token in (*found, self.tokenizer.eos_token_id) if isinstance(token, int))

    @cached_property
    def one(self) -> Built:
        """The program of an answer: it writes a token of one row."""
        return self.writing(1)

    def writing(self, rows: int, places: int | None = None) -> Built:
        """Return the program that writes a token of each row, with all places or with fewer."""
        return self._sharing(steps.writing(self.module, rows, places or self.places, self.tokens))

    def reading(self, chunk: int, rows: int = 1, places: int | None = None) -> Built:
        """Return the program that reads so many places of each row, of all places or of fewer."""
        return self._sharing(steps.reading(self.module, chunk, places or self.places, self.tokens, rows))

    def _sharing(self, built: Built) -> Built:
        """Keep each tensor once, whatever has it: other programs, and the module."""
        described = zip(built.program.constants, built.constants, strict=True)
        constants = [self._arrays.setdefault(one.hash, array) for one, array in described]
        taken: set[int] = set()
        for name, array in zip(built.labels.constants, constants, strict=True):
            weight = self._weights.get(name)
            if weight is not None and weight.dtype == torch.float32:
                # NOTE: weights with the same values have one array, and no two weights the same memory.
                weight.data = from_numpy(array if id(array) not in taken else array.copy())
                taken.add(id(array))
        return replace(built, constants=constants)

    @cached_property
    def _weights(self) -> dict[str, torch.Tensor]:
        """The module's weights, as programs call them."""
        return {f"weight.{name}": weight for name, weight in self.module.named_parameters()}

    @cached_property
    def identity(self) -> Identity:
        template = NOTHING if self.template is None else hashlib.sha256(self.template.encode()).digest()
        program = self.one.program
        return Identity(_step_hash(program), program.constant_root, self.tokenizer_hash, template)

    def prompt_of_messages(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Return the tokens of a conversation by the chat template. Raises InvalidInput."""
        if self.template is None:
            raise InvalidInput("this model has no chat template; use /v1/completions")
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages), tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # NOTE: a template is a program of its own, with errors of its own
            reason = " ".join(str(error).split())[:200]
            raise InvalidInput(f"the model's chat template refuses these messages: {reason}") from error
        return self._encoded(text, special=False)

    def prompt_of_text(self, text: str) -> list[int]:
        return self._encoded(text, special=True)

    def _encoded(self, text: str, *, special: bool) -> list[int]:
        try:
            return list(map(int, self.tokenizer(text, add_special_tokens=special)["input_ids"]))
        except (UnicodeError, TypeError, ValueError) as error:  # NOTE: half a surrogate pair is no text
            raise InvalidInput(f"the tokenizer refuses this text: {str(error)[:200]}") from error

    def text_of(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, without special ones."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))

    def token_text(self, token: int) -> str:
        """Return the text of one token, special ones too."""
        return str(self.tokenizer.decode([token]))


def _hash_of(folder: Path) -> bytes:
    lines = [
        f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n" for path in tokenizer_files(folder)
    ]
    return hashlib.sha256("".join(lines).encode()).digest()


def _step_hash(program: Program) -> bytes:
    numbers = struct.pack(">I", program.opset)
    return hashlib.sha256(b"assay step 1" + numbers + program.structure_root + program.slot_root).digest()
