"""What becomes of each of the TrainingArguments: translated, harmless, or refused unless it has a value that is.

Nothing is ignored in silence: an argument that this table does not know is refused unless it has its default.
`read_arguments` reads them from a YAML file.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from referee_py.errors import InvalidEncoding, InvalidInput

from ..capture.errors import CaptureError

_TRANSLATED = {
    "the batches, which the trainer's own loader gives": "per_device_train_batch_size num_train_epochs max_steps "
    "seed data_seed dataloader_drop_last remove_unused_columns label_names train_sampling_strategy "
    "length_column_name accelerator_config",
    "loss and gradients": "gradient_accumulation_steps max_grad_norm label_smoothing_factor bf16 use_cache",
    "the update": "learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps warmup_ratio optim optim_args "
    "weight_decay adam_beta1 adam_beta2 adam_epsilon",
    "TRL: done when the trainer prepares its data set, or part of its collator": "model_init_kwargs "
    "router_aux_loss_coef chat_template_path dataset_text_field dataset_kwargs eos_token max_length "
    "truncation_mode shuffle_dataset packing packing_strategy padding_free pad_to_multiple_of "
    "completion_only_loss assistant_only_loss pad_token",
}
_HARMLESS = {
    "where and how fast it runs": "tf32 torch_compile torch_compile_backend torch_compile_mode use_cpu "
    "torch_empty_cache_steps full_determinism average_tokens_across_devices place_model_on_device local_rank "
    "dataloader_num_workers dataloader_pin_memory dataloader_persistent_workers dataloader_prefetch_factor "
    "dataloader_multiprocessing_context dataloader_in_order dataset_num_proc ddp_find_unused_parameters "
    "ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_backend ddp_timeout",
    "what is kept for the backward pass: the same numbers, computed twice": "activation_checkpointing "
    "activation_checkpointing_kwargs gradient_checkpointing gradient_checkpointing_kwargs activation_offloading",
    "what it tells": "logging_strategy logging_steps logging_first_step logging_dir log_on_each_node "
    "logging_nan_inf_filter include_num_input_tokens_seen log_level log_level_replica disable_tqdm report_to "
    "run_name project trackio_space_id trackio_bucket_id trackio_static_space_id skip_memory_metrics",
    "what it keeps": "output_dir save_only_model save_strategy save_steps save_on_each_node save_total_limit "
    "enable_jit_checkpoint push_to_hub hub_token hub_private_repo hub_model_id hub_strategy hub_always_push "
    "hub_revision restore_callback_states_from_checkpoint ignore_data_skip do_train do_eval do_predict",
    "evaluation": "eval_strategy eval_steps eval_delay per_device_eval_batch_size prediction_loss_only "
    "eval_on_start eval_do_concat_batches eval_use_gather_object eval_accumulation_steps include_for_metrics "
    "batch_eval_metrics bf16_full_eval fp16_full_eval metric_for_best_model greater_is_better eval_packing "
    "predict_with_generate generation_max_length generation_num_beams generation_config",
    "options of what is refused": "liger_kernel_config",
}
TRANSLATED = frozenset(name for names in _TRANSLATED.values() for name in names.split())
"""Arguments that the recipe follows."""
HARMLESS = frozenset(name for names in _HARMLESS.values() for name in names.split())
"""Arguments that change no number of the run."""
REFUSED: Mapping[str, tuple[tuple[Any, ...], str]] = {
    "fp16": ((False, None), "the operators have no fp16; use bf16=True"),
    "optim_target_modules": (
        (None,),
        "optimizers of some layers only have no counterpart; use optim='adamw_torch'",
    ),
    "use_liger_kernel": (
        (False,),
        "it replaces the model's layers by kernels that cannot be traced; switch it off",
    ),
    "neftune_noise_alpha": ((None, 0), "its noise is drawn while training; switch it off"),
    "auto_find_batch_size": (
        (False,),
        "the batch size is part of the program; set per_device_train_batch_size",
    ),
    "load_best_model_at_end": (
        (False,),
        "the result is the state after the last step; choose max_steps instead",
    ),
    "resume_from_checkpoint": (
        (None, False, ""),
        "a run starts anew; load the checkpoint into the model beforehand",
    ),
    "parallelism_config": (
        (None,),
        "a program is for one machine, which may split the work itself; leave it out",
    ),
    "fsdp": (
        (None, "", False, []),
        "a program is for one machine, which may split the work itself; leave it out",
    ),
    "fsdp_config": (
        (None, {}),
        "a program is for one machine, which may split the work itself; leave it out",
    ),
    "deepspeed": ((None,), "a program is for one machine, which may split the work itself; leave it out"),
    "debug": (("", None, []), "hooks that look at values cannot be traced; leave it out"),
    "sortish_sampler": (
        (False,),
        "it sorts by lengths at random; use train_sampling_strategy='group_by_length'",
    ),
    "trust_remote_code": (
        (False, None),
        "code of another party is never run; use a model of the library itself",
    ),
    "loss_type": (("nll", None), "only the negative log-likelihood has a counterpart; use loss_type='nll'"),
}
"""Arguments that must have one of these values, and the remedy."""


def check_arguments(arguments: Any) -> None:
    """Raise CaptureError for an argument that has no counterpart. `arguments` is a TrainingArguments."""
    for field in dataclasses.fields(arguments):
        value = getattr(arguments, field.name)
        if field.name in TRANSLATED or field.name in HARMLESS:
            continue
        allowed, remedy = REFUSED.get(
            field.name, ((_default(field),), "it is not known here; leave it at its default")
        )
        if value not in allowed and not _is_empty(value):
            raise CaptureError(
                f"{type(arguments).__name__}({field.name}={value!r}) has no counterpart: {remedy}"
            )
    if arguments.world_size > 1 or arguments.n_gpu > 1:
        raise CaptureError(
            f"the trainer would run on {max(arguments.world_size, arguments.n_gpu)} devices; run it on one, with "
            "per_device_train_batch_size and gradient_accumulation_steps that give the same batch"
        )


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _is_empty(value: Any) -> bool:
    """Whether an option that is a dictionary holds nothing but empty values, as TrainingArguments fill them in."""
    return isinstance(value, Mapping) and not any(value.values())


_MAX_FILE_BYTES = 1 << 20


def read_arguments(path: Path | None, scratch: Path, steps: int | None, seed: int | None) -> Any:
    """Return the TrainingArguments of a YAML file, by name; `steps` and `seed` replace its own.

    Raises InvalidInput for a name that there is not, or a value that the library refuses.
    """
    import transformers

    given = {} if path is None else _read(path)
    known = {field.name: str(field.type) for field in dataclasses.fields(transformers.TrainingArguments)}
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            raise InvalidInput(
                f"{path}: there is no argument {str(name)[:80]!r}; "
                + (f"perhaps {near[0]}" if near else "leave it out")
            )
        if isinstance(value, str) and "float" in known[name]:  # NOTE: to YAML, 5e-5 without a point is a text
            given[name] = _number(path, name, value)
    if "output_dir" in given:
        raise InvalidInput(f"{path}: output_dir is for a trainer; the command names the folder to write")
    replaced = {"max_steps": steps, "seed": seed}
    given |= {name: value for name, value in replaced.items() if value is not None}
    own = {"output_dir": str(scratch), "report_to": "none", "use_cpu": True, "dataloader_pin_memory": False}
    own["push_to_hub"] = False  # NOTE: a trainer makes the repository as soon as there is one
    try:
        return transformers.TrainingArguments(**{**given, **own})
    except (ImportError, TypeError, ValueError) as error:
        raise InvalidInput(f"{path or 'the arguments'}: {error}") from error


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise InvalidInput(f"{path} has more than {_MAX_FILE_BYTES} bytes, the limit")
        # SAFETY: the safe loader makes plain values only.
        found = yaml.safe_load(path.read_text()) or {}
    except (
        OSError,
        ValueError,
        RecursionError,
        yaml.YAMLError,
    ) as error:  # NOTE: ValueError: no date, no number
        raise InvalidEncoding(
            f"{path} cannot be read as YAML: {' '.join(str(error).split())[:200]}"
        ) from error
    if not isinstance(found, dict):
        raise InvalidEncoding(f"{path} holds no names with values; write a line such as learning_rate: 5e-5")
    return found


def _number(path: Path | None, name: str, text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{path}: {name} is {text[:80]!r}, no number") from None
