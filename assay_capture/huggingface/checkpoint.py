"""A folder `checkpoint-N` of a trainer: weights, optimizer, schedule, generators and place in the data after N steps.

SAFETY: weights are read from safetensors alone, and the other files without executing what a pickle may hold
(`weights_only`). Sizes of states are compared with those of the parameters.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic_core import from_json
from repops.torch_arrays import to_numpy
from safetensors import SafetensorError, safe_open

from referee_py.commit.tensor import Array
from trainer_node.storage.untrusted_file import read_plain

from ..capture.errors import CaptureError
from .batches import Resumed

MAX_STATE_BYTES = 1 << 26
"""Size of trainer_state.json at most. It has a line for each loss that was logged."""
_STATE, _OPTIMIZER, _SCHEDULER, _GENERATORS = (
    "trainer_state.json",
    "optimizer.pt",
    "scheduler.pt",
    "rng_state.pth",
)


@dataclass(frozen=True)
class Checkpoint:
    """Parts of a folder that was opened: ``done`` steps."""

    folder: Path
    done: int

    @classmethod
    def open(cls, folder: Path) -> Checkpoint:
        """Return a checkpoint. Raises CaptureError for a folder that is none."""
        try:
            state = from_json(read_plain(folder / _STATE, MAX_STATE_BYTES))
            done = state["global_step"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CaptureError(
                f"{folder} is no checkpoint of a trainer: {_STATE}: {type(error).__name__}: {error}; name a folder "
                "checkpoint-N that the trainer saved, with its optimizer (save_only_model=False)"
            ) from error
        if isinstance(done, bool) or not isinstance(done, int) or done < 1:
            raise CaptureError(
                f"{folder / _STATE}: global_step is {str(done)[:40]}; it must be a number of steps"
            )
        return cls(folder, done)

    def resumed(self) -> Resumed:
        """Return the place in the data, and the generators of collators that draw. NOTE: dropout has its own here."""
        path = self.folder / _GENERATORS
        if not path.exists():
            return Resumed(self.done, lambda: None)
        from transformers.trainer_pt_utils import safe_globals

        with safe_globals():
            states = _load(path)

        def restore() -> None:
            try:
                random.setstate(states["python"])
                np.random.set_state(states["numpy"])
                torch.random.set_rng_state(states["cpu"])
            except (KeyError, TypeError, ValueError, RuntimeError) as error:
                raise CaptureError(
                    f"{path}: {type(error).__name__}: {error}; save the checkpoint again"
                ) from error

        return Resumed(self.done, restore)

    def initial(self, module: torch.nn.Module) -> dict[str, Callable[[], Array]]:
        """Return values of parameters and buffers by the module's names. Raises CaptureError if trained ones lack."""
        held = dict([*module.named_parameters(), *module.named_buffers()])
        names = {id(tensor): name for name, tensor in held.items()}
        adapter = getattr(module, "active_adapter", None)
        known: dict[str, str] = {}
        for key, tensor in module.state_dict(keep_vars=True).items():
            if (
                name := names.get(id(tensor))
            ) is not None:  # NOTE: a tied weight has several keys and one name
                known[key] = name
                if isinstance(adapter, str):
                    known[key.replace(f".{adapter}", "")] = name
        found: dict[str, Callable[[], Array]] = {}
        for path in self._files():
            try:
                with safe_open(path, framework="pt") as file:
                    for key in file.keys():  # noqa: SIM118  (no mapping)
                        if key not in known:
                            raise CaptureError(
                                f"{path}: {key[:80]!r} is no tensor of the model; load the model that was trained"
                            )
                        found[known[key]] = partial(_tensor, path, key)
            except (SafetensorError, OSError) as error:
                raise CaptureError(f"{path} cannot be read: {error}; save the checkpoint again") from error
        lacking = [n for n, p in module.named_parameters() if p.requires_grad and n not in found]
        if lacking:
            raise CaptureError(
                f"{self.folder} has no value of {', '.join(lacking[:5])}; load the model that was trained"
            )
        return found

    def _files(self) -> list[Path]:
        whole = [
            path
            for stem in ("model", "adapter_model")
            if (path := self.folder / f"{stem}.safetensors").exists()
        ]
        if whole:
            return whole
        parts = sorted(self.folder.glob("model-*.safetensors"))
        if not parts:
            raise CaptureError(
                f"{self.folder} has no safetensors; save the checkpoint with them (the default)"
            )
        return parts

    def load(self, optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
        """Put a new optimizer and its scheduler where they were. Raises CaptureError if they are others."""
        for name, part in ((_OPTIMIZER, optimizer), (_SCHEDULER, scheduler)):
            state = _load(self.folder / name)
            try:
                part.load_state_dict(state)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, RuntimeError) as error:
                raise CaptureError(
                    f"{self.folder / name} is not of this trainer's {type(part).__name__}: {error}; give the arguments "
                    "that the checkpoint was made with"
                ) from error


def _tensor(path: Path, key: str) -> Array:
    with safe_open(path, framework="pt") as file:
        tensor: torch.Tensor = file.get_tensor(key)
        return to_numpy(tensor)


def _load(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # NOTE: errors of the unpickler have no common base
        raise CaptureError(
            f"{path} cannot be read: {str(error)[:300]}; name a checkpoint with its optimizer (save_only_model=False)"
        ) from error
    if not isinstance(state, dict):
        raise CaptureError(f"{path} holds a {type(state).__name__}; save the checkpoint again")
    return state
