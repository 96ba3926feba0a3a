"""Rules: layers with a state, step by step.

Letters: T steps, N examples, I inputs, H states, D directions. Weights are W [D, gates H, I] and R [D, gates H, H],
biases B [D, 2 gates H]: those of W, then those of R. Gates of LSTM: input, output, forget, cell; of GRU: update, reset,
hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as f

from ..values import Call, Given
from .registry import operator

Tensor = torch.Tensor
States = tuple[Tensor, ...]
Cell = Callable[[Tensor, States, Tensor, Tensor | None], States]
"""Gives the states after one step from W x, the states before it, R, and the bias of R; the first is the output."""

_KNOWN = {"activations", "direction", "hidden_size", "layout", "linear_before_reset", "input_forget"}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def _lstm(gates: Tensor, states: States, r: Tensor, bias: Tensor | None) -> States:
    h, cell = states
    i, o, forget, new = (gates + f.linear(h, r, bias)).chunk(4, -1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(i) * torch.tanh(new)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def _gru_after(gates: Tensor, states: States, r: Tensor, bias: Tensor | None) -> States:
    """Reset the product of the state: `linear_before_reset`, and what PyTorch does."""
    (h,) = states
    size = h.shape[-1]
    product = f.linear(h, r, bias)
    z, reset = torch.sigmoid(gates[:, : 2 * size] + product[:, : 2 * size]).chunk(2, -1)
    new = torch.tanh(gates[:, 2 * size :] + reset * product[:, 2 * size :])
    return ((1 - z) * new + z * h,)


def _gru_before(gates: Tensor, states: States, r: Tensor, bias: Tensor | None) -> States:
    """Reset the state, then multiply."""
    (h,) = states
    size = 2 * h.shape[-1]
    first, last = (None, None) if bias is None else (bias[:size], bias[size:])
    z, reset = torch.sigmoid(gates[:, :size] + f.linear(h, r[:size], first)).chunk(2, -1)
    new = torch.tanh(gates[:, size:] + f.linear(reset * h, r[size:], last))
    return ((1 - z) * new + z * h,)


def _simple(function: Callable[[Tensor], Tensor]) -> Cell:
    return lambda gates, states, r, bias: (function(gates + f.linear(states[0], r, bias)),)


@operator("LSTM")
def lstm(
    c: Call,
    x: Given,
    w: Given,
    r: Given,
    b: Given = None,
    lengths: Given = None,
    h: Given = None,
    cell: Given = None,
    peepholes: Given = None,
) -> Any:
    if peepholes is not None:
        raise c.unsupported("LSTM with peepholes (input P)", "use a layer without them, as PyTorch's")
    if c.get("input_forget", 0):
        raise c.unsupported("LSTM with input_forget", "use a layer with a gate of its own, as PyTorch's")
    _activations(c, ["sigmoid", "tanh", "tanh"])
    return _layer(c, (x, w, r, b), lengths, (h, cell), [_lstm] * 2)


@operator("GRU")
def gru(
    c: Call, x: Given, w: Given, r: Given, b: Given = None, lengths: Given = None, h: Given = None
) -> Any:
    _activations(c, ["sigmoid", "tanh"])
    cell = _gru_after if c.get("linear_before_reset", 0) else _gru_before
    return _layer(c, (x, w, r, b), lengths, (h,), [cell] * 2)


@operator("RNN")
def rnn(
    c: Call, x: Given, w: Given, r: Given, b: Given = None, lengths: Given = None, h: Given = None
) -> Any:
    functions: dict[str, Callable[[Tensor], Tensor]] = {"tanh": torch.tanh, "relu": torch.relu}
    names = [str(name).lower() for name in c.get("activations", ("Tanh",) * 2)]
    for name in names:
        if name not in functions:
            raise c.unsupported(f"RNN with activation {name[:40]}", "use Tanh or Relu")
    return _layer(c, (x, w, r, b), lengths, (h,), [_simple(functions[name]) for name in names])


def _activations(c: Call, usual: list[str]) -> None:
    """Raise Unsupported unless each direction has the usual functions of its gates."""
    names = [str(name).lower() for name in c.get("activations", tuple(usual))]
    if names != usual * (len(names) // len(usual)) or not names:
        raise c.unsupported(
            f"{c.node.op} with activations {', '.join(names)[:80]}", f"use {', '.join(usual)}"
        )


def _layer(
    c: Call, given: tuple[Given, ...], lengths: Given, initial: tuple[Given, ...], cells: list[Cell]
) -> tuple[Tensor, ...]:
    """Run each direction. Returns all outputs [T, D, N, H], and the last value of each state [D, N, H]."""
    for name in sorted(set(c.node.attributes) - _KNOWN):
        raise c.unsupported(f"{c.node.op} with {name[:40]}", "export the layer without it")
    x, w, r = (c.tensor(value) for value in given[:3])
    bias = None if given[3] is None else c.tensor(given[3])
    batch_first = bool(c.get("layout", 0))
    x = x.transpose(0, 1) if batch_first else x
    steps, examples, size = x.shape[0], x.shape[1], r.shape[-1]
    ways = _DIRECTIONS.get(c.get("direction", "forward"))
    if ways is None or not len(ways) == len(w) == len(r) <= len(cells):
        raise c.unsupported(
            f"{c.node.op} of direction {c.get('direction', 'forward')[:40]} with {len(w)} sets of weights",
            f"use {', '.join(_DIRECTIONS)}, with one set of weights and activations for each direction",
        )
    if c.get("hidden_size", size) != size:
        raise c.unsupported(
            f"hidden_size {c.get('hidden_size', 0)} with R of {size}", "export the layer again"
        )
    if lengths is not None and c.list(lengths, "sequence_lens") != [steps] * examples:
        raise c.unsupported(
            f"{c.node.op} with sequence_lens other than the full {steps} steps",
            "pad, and mask the loss instead",
        )
    before = [None if value is None else c.tensor(value) for value in initial]
    if batch_first:
        before = [None if value is None else value.transpose(0, 1) for value in before]
    outputs, last = [], []
    for d, backwards in enumerate(ways):
        on_input, on_state = (None, None) if bias is None else bias[d].chunk(2)
        gates = f.linear(x, w[d], on_input)
        states = tuple(torch.zeros(examples, size) if value is None else value[d] for value in before)
        found: list[Tensor] = []
        for t in reversed(range(steps)) if backwards else range(steps):
            states = cells[d](gates[t], states, r[d], on_state)
            found.append(states[0])
        outputs.append(torch.stack(found[::-1] if backwards else found))
        last.append(states)
    axis = 1 if batch_first else 0
    every = torch.stack(outputs, 1)
    ends = (torch.stack(values, axis) for values in zip(*last, strict=True))
    return (every.permute(2, 0, 1, 3) if batch_first else every, *ends)
