"""The table of TrainingArguments: each is translated, harmless, or refused unless it has a value that is.

It names no library, so that a file of arguments can be checked before one is loaded, which takes seconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

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
        "give the folder to Recipe.from_trainer(trainer, resume_from_checkpoint=...), and leave it out here",
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
OPTIMIZERS = ("adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop")
"""Values of `optim` that have a counterpart."""

_LARGEST = sys.float_info.max
_BELOW_1 = math.nextafter(1, 0)
_SEEDS = (1 << 32) - 1
NUMBERS: Mapping[str, tuple[Any, float, float, str]] = {
    "learning_rate": (Real, 0, _LARGEST, "from 0"),
    "weight_decay": (Real, 0, _LARGEST, "from 0"),
    "adam_beta1": (Real, 0, _BELOW_1, "from 0 to below 1"),
    "adam_beta2": (Real, 0, _BELOW_1, "from 0 to below 1"),
    "adam_epsilon": (Real, 0, _LARGEST, "from 0"),
    "max_grad_norm": (Real, 0, _LARGEST, "from 0, which clips nothing"),
    "label_smoothing_factor": (Real, 0, 1, "from 0 to 1"),
    "warmup_steps": (Real, 0, _LARGEST, "from 0"),
    "warmup_ratio": (Real, 0, 1, "from 0 to 1"),
    "num_train_epochs": (Real, 0, _LARGEST, "from 0"),
    "max_steps": (Integral, -1, _LARGEST, "from 1, or -1 to count epochs"),
    "per_device_train_batch_size": (Integral, 1, _LARGEST, "from 1"),
    "gradient_accumulation_steps": (Integral, 1, _LARGEST, "from 1"),
    "seed": (Integral, 0, _SEEDS, f"from 0 to {_SEEDS}"),
    "data_seed": (Integral, 0, _SEEDS, f"from 0 to {_SEEDS}"),
}
"""Kind, lowest and highest value of the arguments that are numbers, and these limits in words."""
_NONE = ("max_steps", 0)
_MAY_BE_NONE = {"data_seed", "max_grad_norm", "warmup_ratio"}


def wrong_number(name: str, value: Any) -> str:
    """Say what is wrong with the value of an argument that is a number, and the remedy; nothing if it can be taken.

    The library takes negative numbers and NaN for most of them, and trains with what comes of it.
    """
    if name not in NUMBERS or (value is None and name in _MAY_BE_NONE):
        return ""
    kind, low, high, words = NUMBERS[name]
    # NOTE: with max_steps=0 the library trains one step, though it says to train none.
    if (
        isinstance(value, kind)
        and not isinstance(value, bool)
        and low <= value <= high
        and (name, value) != _NONE
    ):
        return ""
    return f"{name} is {str(value)[:80]}; give a {'whole number' if kind is Integral else 'number'} {words}"
