"""The programs of an answer: one that writes the next token of each row, and one that only reads many places.

Slots of B rows with T places each, which both programs have:

    tokens      i64 [B, T]   the prompt, then what was written
    length      i64 [B]      tokens of the prompt
    place       i64 [B]      place that is read next
    seed, temperature, top_k, top_p   [B]   parameters (sampling.py)
    logprobs    f32 [B, V]   of the last place that was read, of all tokens
    key.<layer>, value.<layer>   f32 [B, H, T, D]

    write   reads the token at `place`, of each row its own, and writes the next one where the prompt has none
    read    reads the next C places of each row, as far as its prompt goes, and writes keys and values only

INVARIANT: a row's values do not depend on B, on the other rows, on T while a place is hidden, nor on which of both
programs has read a place: each element is the same expression of the same elements. So the run of an answer is that of
`write` with one row and all places, one step for each place, and the others are faster ways to compute it
(tests/assay_serve/test_steps.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from repops.opset import I64

from assay_capture.capture import Built, CaptureError
from assay_capture.capture.builder import Builder, Ref
from assay_capture.inference.decode import SlotCache, empty_cache, scores_of
from assay_capture.inference.loop import Body, Forward, Tensors, loop
from referee_py.commit.tensor import Array

from .sampling import Draw, sampled


def empty(module: torch.nn.Module, rows: int, places: int, tokens: int) -> dict[str, Array]:
    """Return the slots before a request. Raises CaptureError for a model that cannot work on slots."""
    return {
        "tokens": np.zeros((rows, places), np.int64),
        "length": np.zeros(rows, np.int64),
        "place": np.zeros(rows, np.int64),
        "seed": np.zeros(rows, np.int64),
        "temperature": np.zeros(rows, np.float32),
        "top_k": np.zeros(rows, np.int64),
        "top_p": np.ones(rows, np.float32),
        "logprobs": np.zeros((rows, tokens), np.float32),
        **empty_cache(module, rows, places),
    }


def writing(module: torch.nn.Module, rows: int, places: int, tokens: int) -> Built:
    """Return the program that writes a token of each row. Raises CaptureError, Unsupported."""
    return loop(module.eval(), _written, empty(module, rows, places, tokens), rest=_next)


def reading(module: torch.nn.Module, chunk: int, places: int, tokens: int, rows: int = 1) -> Built:
    """Return the program that reads places of each row. Raises CaptureError, Unsupported."""
    return loop(module.eval(), _read(chunk), empty(module, rows, places, tokens))


def _written(forward: Forward, state: Tensors, _: Tensors, __: torch.Tensor) -> tuple[Tensors, Tensors]:
    tokens, place = state["tokens"], state["place"].unsqueeze(1)
    places = torch.arange(tokens.shape[1])
    here = places == place
    current = torch.where(here, tokens, 0).sum(1, keepdim=True)
    cache = SlotCache(state, here.unsqueeze(1))
    output = _called(forward, current, cache, _hidden(places <= place).unsqueeze(1), place)
    return cache.slots(), {"scores": scores_of(output)[:, -1]}


def _next(b: Builder, slots: Mapping[str, Ref], outputs: Mapping[str, Ref]) -> Mapping[str, Ref]:
    """Draw the token of the next place, and write it where the prompt has none."""
    tokens, place = slots["tokens"], slots["place"]
    rows, places = tokens.shape
    after = b.op("add", place, b.full(1, I64))
    draw = Draw(slots["seed"], after, slots["temperature"], slots["top_k"], slots["top_p"])
    token, logprobs = sampled(b, outputs["scores"], draw)
    column = {name: b.op("reshape", ref, shape=(rows, 1)) for name, ref in
              (("after", after), ("length", slots["length"]), ("token", token))}  # fmt: skip
    there = b.op("eq", b.op("arange", n=places), column["after"])
    free = b.op("ge", column["after"], column["length"])
    written = b.op("where", b.op("logical_and", there, free), column["token"], tokens)
    return {"tokens": written, "place": after, "logprobs": logprobs}


def _read(chunk: int) -> Body:
    def body(forward: Forward, state: Tensors, _: Tensors, __: torch.Tensor) -> tuple[Tensors, Tensors]:
        tokens, place = state["tokens"], state["place"].unsqueeze(1)
        row, places = torch.arange(tokens.shape[0]).unsqueeze(1), torch.arange(tokens.shape[1])
        ours = place + torch.arange(chunk)
        current = tokens[row, ours.clamp(max=tokens.shape[1] - 1)]
        # The last token of the prompt is read by the step that writes the first one of the answer.
        end = torch.minimum(place + chunk, state["length"].unsqueeze(1) - 1)
        here = (places >= place) & (places < end)
        from_ours = (places - place).clamp(0, chunk - 1)

        def spread(new: torch.Tensor) -> torch.Tensor:
            return new.transpose(1, 2)[row, from_ours].transpose(1, 2)

        cache = SlotCache(state, here.unsqueeze(1), spread)
        seen = _hidden(places <= ours.unsqueeze(2))
        _called(forward, current, cache, seen, ours)
        return {**cache.slots(), "place": torch.maximum(place, end).squeeze(1)}, {}

    return body


def _hidden(seen: torch.Tensor) -> torch.Tensor:
    """Return what is added to the scores of attention: nothing where a place is seen."""
    # NOTE: slots behind the place that is read hold zeros; the mask hides these places.
    return torch.where(seen, 0.0, torch.finfo(torch.float32).min)


def _called(
    forward: Forward, tokens: torch.Tensor, cache: SlotCache, mask: torch.Tensor, at: torch.Tensor
) -> Any:
    try:
        return forward(
            input_ids=tokens,
            past_key_values=cache,
            attention_mask=mask.unsqueeze(1),
            position_ids=at,
            use_cache=True,
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise CaptureError(
            f"this model cannot work on a cache of slots: {error}; serve another one"
        ) from error
