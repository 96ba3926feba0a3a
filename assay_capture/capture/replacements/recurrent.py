"""Dropout between the layers of recurrent kernels.

NOTE: PyTorch's own decomposition leaves it out (torch 2.13: its condition asks for a layer beyond the last one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

from ..errors import Unsupported
from .registry import replaces

aten = torch.ops.aten


@replaces(aten.lstm.input)
def lstm(x: torch.Tensor, states: Sequence[torch.Tensor], params: Sequence[torch.Tensor], *rest: Any) -> Any:
    """As `aten.lstm.input`: x [T, B, I], hidden and cell state [layers, B, H] -> y [T, B, H] and both states."""
    return _layered(decomposition_table[aten.lstm.input], x, states, params, *rest)


def _of_one_state(operator: Any) -> Callable[..., Any]:
    plain = decomposition_table[operator]

    def one(x: torch.Tensor, states: Sequence[torch.Tensor], *rest: Any) -> Any:
        return plain(x, states[0], *rest)

    def layers(x: torch.Tensor, state: torch.Tensor, params: Sequence[torch.Tensor], *rest: Any) -> Any:
        return _layered(one, x, [state], params, *rest)

    return layers


for _operator in (aten.gru.input, aten.rnn_tanh.input, aten.rnn_relu.input):
    replaces(_operator)(_of_one_state(_operator))


def _layered(
    plain: Callable[..., Any],
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    params: Sequence[torch.Tensor],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Return what a kernel without dropout gives, one layer after the other where dropout comes between them."""
    if layers == 1 or not train or dropout == 0:
        return plain(x, states, params, has_biases, layers, 0.0, train, bidirectional, batch_first)
    directions, of_layer, found = 1 + bidirectional, len(params) // layers, list[Sequence[torch.Tensor]]()
    for layer in range(layers):
        own = [state[layer * directions : (layer + 1) * directions] for state in states]
        part = params[layer * of_layer : (layer + 1) * of_layer]
        x = torch.dropout(x, dropout, train=True) if layer else x
        x, *after = plain(x, own, part, has_biases, 1, 0.0, train, bidirectional, batch_first)
        found.append(after)
    return x, *(torch.cat(each) for each in zip(*found, strict=True))


def _packed(operator: Any) -> Callable[..., Any]:
    plain = decomposition_table[operator]

    def checked(*args: Any) -> Any:
        layers, dropout, train = args[5:8]
        if layers > 1 and train and dropout:
            raise Unsupported(
                "dropout between layers of packed sequences", "pad the sequences, or make each layer a module"
            )
        return plain(*args)

    return checked


for _operator in (aten.lstm.data, aten.gru.data, aten.rnn_tanh.data, aten.rnn_relu.data):
    replaces(_operator)(_packed(_operator))
