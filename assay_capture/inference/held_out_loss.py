"""A recipe's loss over data that it is not trained on, as a program: step t adds the loss of batch t.

Slots: every tensor of the module under the name that it has in the training program (`param.<name>`, `frozen.<name>`,
`buffer.<name>`), so that a run can put its state in their place (trainer_node/local/evaluation.py), and `total`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch.func import functional_call

from referee_py.commit.tensor import Array
from trainer_node.local.bundle import Bundle

from ..capture import CaptureError, Recipe
from ..capture.lowering import source_of
from ..capture.recipe import bundle_of, seeded_parameters
from ..capture.trace import Objective
from .loop import Body, Forward, Tensors, loop, row


@dataclass(frozen=True)
class Evaluate:
    """The mean loss of a recipe's module over ``data``, in evaluation mode; the metric `loss` of the last step.

    Batches are the recipe's, and their losses count alike; rows that do not fill a batch at the end are left out.
    """

    recipe: Recipe
    data: Mapping[str, Array]

    def build(self) -> Bundle:
        """Return the bundle. Raises CaptureError, Unsupported."""
        recipe, rows = self.recipe, {len(array) for array in self.data.values()}
        if set(self.data) != set(recipe.data) or len(rows) != 1:
            raise CaptureError(
                f"held-out data has {', '.join(self.data)} with {sorted(rows)} rows; it needs the arrays "
                f"{', '.join(recipe.data)} of the recipe, with as many rows each"
            )
        steps = rows.pop() // recipe.batch_size
        if not steps:
            raise CaptureError(f"held-out data has fewer rows than a batch, {recipe.batch_size}")
        order = np.arange(steps * recipe.batch_size, dtype=np.int64).reshape(steps, recipe.batch_size)
        constants = {"batch.order": order, **{f"data.{name}": self.data[name] for name in recipe.data}}
        tensors = self._tensors()
        seeded = seeded_parameters(recipe.module, recipe.seed) if recipe.initial == "seeded" else {}
        state = {name: _initial(name, tensor) for name, tensor in tensors.items()}
        # NOTE: a frozen tensor is not always a constant of the training, which would give its value.
        for name, array in state.items():
            if draw := seeded.get(name.partition(".")[2]):
                state[name] = draw().astype(array.dtype)
        state["total"] = np.zeros((), np.float32)
        modes = [(module, module.training) for module in recipe.module.modules()]
        try:
            built = loop(recipe.module.eval(), self._body(tensors), state, constants)
        finally:  # NOTE: the recipe may be captured afterwards, for training
            for module, training in modes:
                module.training = training
        return bundle_of(f"{recipe.name}-evaluation", built, steps, None)

    def _tensors(self) -> dict[str, torch.Tensor]:
        module = self.recipe.module
        parameters = {
            f"{'param' if parameter.requires_grad else 'frozen'}.{name}": parameter.detach()
            for name, parameter in module.named_parameters()
        }
        return parameters | {f"buffer.{name}": buffer for name, buffer in module.named_buffers()}

    def _body(self, tensors: Tensors) -> Body:
        recipe = self.recipe
        loss = recipe.loss
        objective = (
            loss if isinstance(loss, Objective) else Objective.of(loss, recipe.inputs, list(recipe.data))
        )
        types = {name: tensor.dtype for name, tensor in tensors.items()}

        def body(
            _: Forward, state: Tensors, constants: Tensors, step: torch.Tensor
        ) -> tuple[Tensors, Tensors]:
            # NOTE: a trained parameter of bfloat16 is a slot of f32.
            given = {name.partition(".")[2]: state[name].to(type_) for name, type_ in types.items()}
            places = row(constants["batch.order"], step)
            batch = {name: constants[f"data.{name}"][places] for name in recipe.data}
            with contextlib.ExitStack() as stack:
                if recipe.autocast is not None:
                    stack.enter_context(torch.autocast("cpu", recipe.autocast))
                found = objective(lambda *args, **kw: functional_call(recipe.module, given, args, kw), batch)
            loss = found[0] if isinstance(found, tuple) else found
            total = state["total"] + loss.to(torch.float32)
            return {"total": total}, {"loss": total / (step + 1).to(torch.float32)}

        return body


def _initial(name: str, tensor: torch.Tensor) -> Array:
    """Return the value of a slot. NOTE: the master copy of a trained parameter is f32."""
    wide = tensor.to(torch.float32) if name.startswith("param.") else tensor
    return source_of(wide).array(name)
