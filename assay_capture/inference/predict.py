"""A module applied to a data set: step t takes batch t, and its outputs go to their rows of a table.

Slots: one table f32 `[N, ...]` for each output. A table starts as -0, because adding -0 changes no number, nor does
adding to -0. Each row is written once: a short last batch is filled up from the first row, and the results of these
rows are added as -0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from referee_py.commit.tensor import Array
from trainer_node.local.bundle import Bundle

from ..capture import Built, CaptureError
from ..capture.recipe import bundle_of
from .loop import Body, Forward, Tensors, loop, row


def outputs_of(result: Any) -> dict[str, torch.Tensor]:
    """Return the outputs of a model: a tensor, or the `logits` of a `transformers` output."""
    output = result if isinstance(result, torch.Tensor) else getattr(result, "logits", None)
    if not isinstance(output, torch.Tensor):
        raise CaptureError(
            f"the model gives {type(result).__name__}, not a tensor; pass outputs=... to pick some"
        )
    return {"output": output}


@dataclass(frozen=True)
class Predict:
    """An inference job over the rows of `data`: one array is given by position, several by keyword."""

    name: str
    module: torch.nn.Module
    data: Mapping[str, Array]
    batch_size: int
    outputs: Callable[[Any], Mapping[str, torch.Tensor]] = outputs_of
    strides: tuple[int, ...] | None = None

    @property
    def rows(self) -> int:
        return len(next(iter(self.data.values())))

    @property
    def steps(self) -> int:
        return -(-self.rows // self.batch_size)

    def capture(self) -> Built:
        """Return the program. Puts the module into evaluation mode. Raises CaptureError, Unsupported."""
        sizes = {name: len(array) if array.ndim else None for name, array in self.data.items()}
        if not sizes or len(set(sizes.values())) != 1 or not self.rows or self.batch_size < 1:
            raise CaptureError(f"data needs arrays of as many rows each, and a batch size from 1: {sizes}")
        shapes = self._shapes()
        state = {name: np.full((self.rows, *shape[1:]), -0.0, np.float32) for name, shape in shapes.items()}
        places = np.arange(self.steps * self.batch_size, dtype=np.int64).reshape(self.steps, self.batch_size)
        again = places >= self.rows
        constants = {
            "batch.order": places % self.rows,
            "batch.again": again,
            **{f"data.{name}": array for name, array in self.data.items()},
        }
        return loop(self.module.eval(), self._body(), state, constants)

    def build(self) -> Bundle:
        """Return the bundle of the whole run."""
        return bundle_of(self.name, self.capture(), self.steps, self.strides)

    def _call(self, forward: Forward, batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        result = forward(**batch) if len(batch) > 1 else forward(*batch.values())
        found = self.outputs(result)
        for name, tensor in found.items():
            if tensor.dtype != torch.float32 or tensor.ndim < 1 or tensor.shape[0] != self.batch_size:
                raise CaptureError(
                    f"output {name} is {tensor.dtype} {list(tensor.shape)}; it must be float32 "
                    f"with a row for each of the {self.batch_size} examples"
                )
        return found

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each output for one batch."""
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.func import functional_call

        with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
            tensors = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
            weights: dict[str, torch.Tensor] = {
                name: mode.from_tensor(tensor.detach()) for name, tensor in tensors.items()
            }
            batch = {
                name: torch.empty(
                    (self.batch_size, *array.shape[1:]), dtype=torch.from_numpy(array[:0]).dtype
                )
                for name, array in self.data.items()
            }
            forward = lambda *args, **kwargs: functional_call(self.module.eval(), weights, args, kwargs)  # noqa: E731
            return {name: tuple(tensor.shape) for name, tensor in self._call(forward, batch).items()}

    def _body(self) -> Body:
        def body(
            forward: Forward, state: Tensors, constants: Tensors, step: torch.Tensor
        ) -> tuple[Tensors, Mapping[str, torch.Tensor]]:
            places = row(constants["batch.order"], step)
            batch = {name: constants[f"data.{name}"][places] for name in self.data}
            found = self._call(forward, batch)
            again = row(constants["batch.again"], step)
            tables = {}
            for name, tensor in found.items():
                new = torch.where(again.reshape(-1, *[1] * (tensor.ndim - 1)), -0.0, tensor)
                tables[name] = state[name].index_add(0, places, new)
            return tables, found

        return body
