"""Greedy decoding: each step writes one token in every row of a batch.

Slots: `tokens` i64 [B, T], the prompts followed by the written tokens; `length` i64 [B], the number of tokens in each
row so far; `done` bool [B], true once the row has written the stop token. After `T - shortest prompt` steps nothing
changes any more.

    whole prefix   each step runs the model on all T places, and reads the scores at the last token of each row
    cache          each step runs the model on one place; `key.<layer>` and `value.<layer>` f32 [B, H, T, D] are slots
                   too, and the prompt is fed one token per step, so a run has T - 1 steps

Letters: B rows, T places, V tokens, H heads of keys and values, D size of a head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from referee_py.commit.tensor import Array
from trainer_node.local.bundle import Bundle

from ..capture import Built, CaptureError
from ..capture.recipe import bundle_of
from .loop import Body, Forward, Tensors, loop

NEVER = -1
"""Stop token that no token equals: a row never stops."""


def scores_of(output: Any) -> torch.Tensor:
    """Return the scores `[B, places, V]` of a model's output: a tensor, or the `logits` of a `transformers` output."""
    scores = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
    if not isinstance(scores, torch.Tensor) or scores.ndim != 3:
        raise CaptureError(
            f"the model gives {type(output).__name__}, not scores [rows, places, tokens]; pass scores=... to pick them"
        )
    return scores


@dataclass(frozen=True)
class Decode:
    """A decoding job. `prompts` are rows of tokens, each shorter than `length` (T); `stop` ends a row.

    With `cache`, the model must be one of `transformers` (it is given `past_key_values`); without, any module that
    takes tokens `[B, T]` and looks at no place after the one it scores. `scores` extracts the scores from its output.
    """

    name: str
    module: torch.nn.Module
    prompts: Sequence[Sequence[int]]
    length: int
    stop: int | None = None
    cache: bool = False
    scores: Callable[[Any], torch.Tensor] = scores_of
    strides: tuple[int, ...] | None = None

    @property
    def steps(self) -> int:
        shortest = min(len(prompt) for prompt in self.prompts)
        return self.length - 1 if self.cache else self.length - shortest

    def capture(self) -> Built:
        """Return the program. Puts the module into evaluation mode. Raises CaptureError, Unsupported."""
        self._check()
        state: dict[str, Array] = {
            "tokens": np.zeros((len(self.prompts), self.length), np.int64),
            "length": np.array([len(prompt) for prompt in self.prompts], np.int64),
            "done": np.zeros(len(self.prompts), np.bool_),
        }
        for row, prompt in zip(state["tokens"], self.prompts, strict=True):
            row[: len(prompt)] = prompt
        if self.cache:
            state |= empty_cache(self.module, len(self.prompts), self.length)
        return loop(self.module.eval(), self._cached() if self.cache else self._whole(), state)

    def build(self) -> Bundle:
        """Return the bundle of the whole run."""
        return bundle_of(self.name, self.capture(), self.steps, self.strides)

    def _check(self) -> None:
        sizes = sorted({len(prompt) for prompt in self.prompts})
        if not sizes or sizes[0] < 1 or sizes[-1] >= self.length:
            raise CaptureError(
                f"prompts of {sizes or 'no'} tokens for a length of {self.length}; "
                "each needs at least one token, and room behind it"
            )
        if min(min(prompt) for prompt in self.prompts) < 0:
            raise CaptureError("a token below 0 in a prompt; number them from 0")

    def _whole(self) -> Body:
        def body(forward: Forward, state: Tensors, _: Tensors, __: torch.Tensor) -> tuple[Tensors, Tensors]:
            tokens, length = state["tokens"], state["length"]
            rows, places = tokens.shape
            scores = self.scores(forward(tokens))
            last = torch.arange(rows) * places + length - 1
            best = scores.reshape(rows * places, scores.shape[-1])[last].argmax(-1)
            return self._written(state, best, length < places)

        return body

    def _cached(self) -> Body:
        def body(forward: Forward, state: Tensors, _: Tensors, step: torch.Tensor) -> tuple[Tensors, Tensors]:
            tokens = state["tokens"]
            rows, places = tokens.shape
            here = torch.arange(places) == step
            current = torch.where(here, tokens, 0).sum(1, keepdim=True)
            cache = SlotCache(state, here)
            # NOTE: after `step` the slots still hold their initial zeros; the mask hides these places.
            hidden = torch.where(torch.arange(places) <= step, 0.0, torch.finfo(torch.float32).min)
            try:
                output = forward(
                    input_ids=current,
                    past_key_values=cache,
                    attention_mask=hidden.expand(rows, 1, 1, places),
                    position_ids=step.expand(rows, 1),
                    use_cache=True,
                )
            except (TypeError, ValueError, AttributeError) as error:
                name = type(self.module).__name__
                raise CaptureError(
                    f"{name} cannot work on a cache of slots: {error}; decode without a cache"
                ) from error
            best = self.scores(output)[:, -1].argmax(-1)
            # While a row is still in its prompt, its next token is already there.
            after, outputs = self._written(state, best, (state["length"] == step + 1) & (step + 1 < places))
            return {**after, **cache.slots()}, outputs

        return body

    def _written(self, state: Tensors, best: torch.Tensor, room: torch.Tensor) -> tuple[Tensors, Tensors]:
        """Write the token of each row that has room and has not stopped."""
        tokens, length, done = state["tokens"], state["length"], state["done"]
        writes = room & ~done
        place = (torch.arange(tokens.shape[1]) == length.unsqueeze(1)) & writes.unsqueeze(1)
        after = {
            "tokens": torch.where(place, best.unsqueeze(1), tokens),
            "length": length + writes.long(),
            "done": done | (writes & (best == (NEVER if self.stop is None else self.stop))),
        }
        return after, {"next": best}


class SlotCache:
    """Keys and values in slots, behind the cache interface of `transformers`: `update` returns all places.

    `here` says which places are written; `spread` makes of new keys or values one for each place, or one for all.
    """

    is_compileable = False

    def __init__(
        self,
        state: Mapping[str, torch.Tensor],
        here: torch.Tensor,
        spread: Callable[[torch.Tensor], torch.Tensor] = lambda new: new,
    ) -> None:
        self._state = dict(state)
        self._here, self._spread = here.unsqueeze(-1), spread
        self._new: Tensors = {}

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for kind, tensor in (("key", key), ("value", value)):
            name = f"{kind}.{layer}"
            self._new[name] = torch.where(self._here, self._spread(tensor), self._state[name])
        return self._new[f"key.{layer}"], self._new[f"value.{layer}"]

    def get_seq_length(self, *_: Any) -> int:
        return 0

    def slots(self) -> Tensors:
        return self._new


def empty_cache(module: torch.nn.Module, rows: int, places: int) -> dict[str, Array]:
    """Return zeros for keys and values of each layer. Raises CaptureError for a module without a layer count."""
    config = getattr(module, "config", None)
    layers, heads = getattr(config, "num_hidden_layers", None), getattr(config, "num_attention_heads", None)
    if not isinstance(layers, int) or not isinstance(heads, int):
        raise CaptureError(
            f"{type(module).__name__} has no config with layers and heads; decode without a cache"
        )
    # SAFETY: our mask replaces the model's own, which would also hide places that are too far back.
    for option in ("sliding_window", "attention_chunk_size"):
        reach = getattr(config, option, None)
        if isinstance(reach, int) and reach < places:
            raise CaptureError(
                f"{type(module).__name__} looks at {reach} places only ({option}), of {places}; decode without a cache"
            )
    size = getattr(config, "head_dim", None) or config.hidden_size // heads  # type: ignore[union-attr]
    shape = (rows, getattr(config, "num_key_value_heads", None) or heads, places, size)
    names = [f"{kind}.{layer}" for layer in range(layers) for kind in ("key", "value")]
    return {name: np.zeros(shape, np.float32) for name in names}
