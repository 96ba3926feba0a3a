"""Low-rank adapters, as a person asks for them: r=16,alpha=32,targets=q_proj,v_proj"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from referee_py.errors import InvalidInput
from trainer_node.errors import PIP, ConfigError

_TASKS = {
    "causal-lm": "CAUSAL_LM",
    "seq2seq-lm": "SEQ_2_SEQ_LM",
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
}
_MAX_RANK, _MAX_ALPHA = 1 << 16, 1e9
_HEAD = {"image-classification": ["classifier"]}
"""Heads that are trained along with the adapters, for tasks that peft does not know."""


@dataclass(frozen=True)
class Lora:
    """`targets` are names of layers; none means all linear layers but the head."""

    r: int = 8
    alpha: float = 16
    dropout: float = 0.0
    targets: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Lora:
        """Read r=16,alpha=32,dropout=0.1,targets=q_proj,v_proj. Raises InvalidInput."""
        values: dict[str, list[str]] = {}
        name = ""
        for part in filter(None, (part.strip() for part in text.split(","))):
            key, equals, value = part.partition("=")
            name = key if equals else name
            values.setdefault(name, []).append(value if equals else part)
        try:
            targets = tuple(values.pop("targets", []))
            numbers = {key: float(value) for key, (value,) in values.items()}
            found = cls(targets=() if targets == ("all-linear",) else targets, **numbers)  # type: ignore[arg-type]
            if not 1 <= found.r <= _MAX_RANK or found.r != int(found.r) or not 0 <= found.dropout < 1:
                raise ValueError(f"r must be a whole number from 1 to {_MAX_RANK}, dropout from 0 to below 1")
            if not 0 < found.alpha <= _MAX_ALPHA:
                raise ValueError(f"alpha must be above 0, and at most {_MAX_ALPHA:.0e}")
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"--lora {text!r} ({error}); write r=16,alpha=32,targets=q_proj,v_proj, with dropout=0.1 if need be"
            ) from error
        return found

    def applied(self, model: Any, task: str) -> Any:
        """Return the model with adapters; only they, and a new head, are trained. Raises InvalidInput."""
        try:
            peft = importlib.import_module("peft")
        except ImportError as error:
            raise ConfigError(
                f"--lora needs peft; install it with `{PIP} install 'assay-referee[huggingface]'`"
            ) from error
        config = peft.LoraConfig(
            r=int(self.r),
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules=list(self.targets) or "all-linear",
            task_type=_TASKS.get(task),
            modules_to_save=_HEAD.get(task),
        )
        layers = [name for name, _ in model.named_modules()]
        for target in self.targets:  # NOTE: peft silently takes several of which one is missing
            if not any(name == target or name.endswith(f".{target}") for name in layers):
                known = {
                    name.rpartition(".")[2] for name, layer in model.named_modules() if _is_linear(layer)
                }
                raise InvalidInput(
                    f"--lora: no layer is named {target[:80]!r}; the linear ones are {', '.join(sorted(known))[:300]}"
                )
        try:
            return peft.get_peft_model(model, config)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise InvalidInput(f"the adapters do not fit the model: {error}") from error


def _is_linear(layer: Any) -> bool:
    return type(layer).__name__ in ("Linear", "Conv1D")
