"""Summaries with an encoder and a decoder: a small T5, `transformers.Seq2SeqTrainer`, reports and what matters in them.

Without dropout, so that the losses can be compared with those of the program.
"""

from __future__ import annotations

import torch
import transformers as hf

from assay_capture.capture import Recipe
from examples import common


def trainer(steps: int = 50) -> hf.Seq2SeqTrainer:
    words = common.tokenizer("t5")
    torch.manual_seed(0)
    model = hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=len(words),
            d_model=64,
            d_kv=16,
            d_ff=128,
            num_layers=2,
            num_heads=4,
            dropout_rate=0.0,
            pad_token_id=words.pad_token_id,
            eos_token_id=words.eos_token_id,
            decoder_start_token_id=words.pad_token_id,
        )
    )
    arguments = hf.Seq2SeqTrainingArguments(
        **common.QUIET,
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=1e-3,
        predict_with_generate=True,
    )
    rows = [
        {**words(f"summarise: {text}"), "labels": words(text_target=short)["input_ids"]}
        for text, short in common.reports()
    ]
    return hf.Seq2SeqTrainer(
        model,
        arguments,
        hf.DataCollatorForSeq2Seq(words, model=model),
        rows,
        processing_class=words,
    )


def recipe(steps: int = 50) -> Recipe:
    return Recipe.from_trainer(trainer(steps), "summarise")


if __name__ == "__main__":
    trainer().train()
