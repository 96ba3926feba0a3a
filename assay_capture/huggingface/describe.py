"""Files that an export needs, gathered while the model is loaded. They travel in the bundle, next to the program.

config.json, tokenizer.json, ...   the library's own files
export.json                        which tensor of the program each tensor of the library's file is
unread.safetensors                 tensors that no node reads (a head that the loss does not use)

A name of the library's file is matched with a tensor of the model by identity. Of weights that the library ties, a file
has only the one that is its source; weights that somebody else has tied are there under each of their names.
"""

from __future__ import annotations

import copy
import json
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from repops.torch_arrays import to_numpy
from safetensors.numpy import save

from referee_py.commit import tensor_hash
from referee_py.commit.tensor import Array
from trainer_node.local.bundle import EXTRA_NAME, MAX_EXTRA_BYTES

from ..capture.definition import Initial
from ..capture.draft import Built
from ..capture.errors import CaptureError
from .export import FORMAT, INDEX, UNREAD

_DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.int64: "i64", torch.bool: "bool"}


def describe(module: Any, processor: Any, built: Built, initial: Initial) -> dict[str, bytes]:
    """Return the files that an export of this model needs; none for a model that is not of the library.

    `initial` holds the values that replaced the module's own. A model that cannot be exported gives a warning, because
    its program is none the worse.
    """
    try:
        return _described(module, processor, built, initial)
    except Exception as error:  # NOTE: code of libraries, with errors of every kind
        warnings.warn(f"the result cannot be exported: {error}", stacklevel=3)
        return {}


def _described(module: Any, processor: Any, built: Built, initial: Initial) -> dict[str, bytes]:
    """Return the files. Raises CaptureError for a model that the library would not load whole."""
    kept = _Kept.adapter(module) if hasattr(module, "peft_config") else _Kept.whole(module)
    if kept is None:
        return {}
    tensors, unread = _matched(module, kept, built, initial)
    if missing := _lost(built, tensors):
        raise CaptureError(f"nothing in {kept.file} is {missing}; save the state itself as safetensors")
    index = {"format": FORMAT, "file": kept.file, "library": kept.library, "tensors": tensors}
    files = {**kept.files, **_saved(processor), INDEX: json.dumps(index, indent=1).encode()}
    if unread:
        files[UNREAD] = save(unread)
    for name, data in files.items():
        if len(data) > MAX_EXTRA_BYTES:
            raise CaptureError(f"{name} has {len(data)} bytes; the limit is {MAX_EXTRA_BYTES}")
    return files


class _Kept:
    """The library's own files of a model: the file's name, its tensors, and its configuration."""

    def __init__(
        self, file: str, library: str, tensors: Mapping[str, torch.Tensor], files: dict[str, bytes]
    ) -> None:
        self.file, self.library, self.tensors, self.files = file, library, tensors, files

    @classmethod
    def whole(cls, module: Any) -> _Kept | None:
        """Return all of a model of `transformers`; None for any other module."""
        if not hasattr(module, "save_pretrained") or not hasattr(module, "config"):
            return None
        config = copy.deepcopy(module.config)
        config.architectures = [type(module).__name__]
        files = _saved(config)
        if getattr(module, "generation_config", None) is not None and module.can_generate():
            files |= _saved(module.generation_config)
        return cls("model.safetensors", "transformers", _filed(module), files)

    @classmethod
    def adapter(cls, module: Any) -> _Kept:
        """Return the adapter that is active, without its base."""
        import peft

        name = module.active_adapter
        # NOTE: with "auto" peft would ask a server whether the base model's vocabulary has grown.
        tensors = peft.get_peft_model_state_dict(
            module,
            state_dict=module.state_dict(keep_vars=True),
            adapter_name=name,
            save_embedding_layers=False,
        )
        config = copy.copy(module.peft_config[name])
        config.inference_mode = True
        return cls("adapter_model.safetensors", "peft", tensors, _saved(config))


def _filed(module: Any) -> Mapping[str, torch.Tensor]:
    """Return the model's tensors under the names that its family has in files, which differ from those in memory.

    NOTE: where files also split or join tensors (experts), names are those in memory; `from_pretrained` loads both.
    """
    own: dict[str, torch.Tensor] = module.state_dict(keep_vars=True)
    # NOTE: a model without a head (AutoModel) has the sources alone, so it loads what a model with one has written.
    for target, source in module.all_tied_weights_keys.items():
        if source in own and own.get(target) is own[source]:
            del own[target]
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:  # NOTE: older versions have one set of names
        return own
    filed: Mapping[str, torch.Tensor] = revert_weight_conversion(module, dict(own))
    return filed if set(map(id, filed.values())) == set(map(id, own.values())) else own


def _saved(part: Any) -> dict[str, bytes]:
    """Return the files that a part of the library writes of itself."""
    if not hasattr(part, "save_pretrained"):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        part.save_pretrained(folder)
        return {
            path.name: path.read_bytes()
            for path in sorted(Path(folder).iterdir())
            if path.is_file() and EXTRA_NAME.fullmatch(path.name) and path.name != "README.md"
        }


def _matched(
    module: torch.nn.Module, kept: _Kept, built: Built, initial: Initial
) -> tuple[dict[str, dict[str, str]], dict[str, Array]]:
    """Return label and dtype of each tensor by its name in the file, and the tensors that the program does not have."""
    names = {id(tensor): name for name, tensor in (*module.named_buffers(), *module.named_parameters())}
    slots, constants = set(built.labels.slots), set(built.labels.constants)
    by_hash = {
        descriptor.hash: label
        for descriptor, label in zip(built.program.constants, built.labels.constants, strict=True)
    }
    tensors: dict[str, dict[str, str]] = {}
    unread: dict[str, Array] = {}
    for key, tensor in kept.tensors.items():
        name = names.get(id(tensor), key)
        found = next((f"{k}.{name}" for k in ("param", "buffer") if f"{k}.{name}" in slots), None)
        found = found or next(
            (f"{k}.{name}" for k in ("frozen", "buffer") if f"{k}.{name}" in constants), None
        )
        if found is None:
            # NOTE: equal constants of a program are one, under one of their names; and what no node reads is none.
            array = _value(tensor, name, initial)
            found = by_hash.get(tensor_hash(array))
            if found is None:
                found = f"unread.{name}"
                unread[found] = array
        tensors[key] = {"from": found, "dtype": _DTYPES[tensor.dtype]}
    return tensors, unread


def _value(tensor: torch.Tensor, name: str, initial: Initial) -> Array:
    own: Array = np.array(to_numpy(tensor.detach().cpu().contiguous()), order="C")
    given = initial.get(name, own)
    return (given() if callable(given) else given).astype(own.dtype)


def _lost(built: Built, tensors: Mapping[str, Mapping[str, str]]) -> str:
    """Return the first trained tensor that is in no file, or nothing."""
    written = {entry["from"] for entry in tensors.values()}
    return next(
        (label for label in built.labels.slots if label.startswith("param.") and label not in written), ""
    )
