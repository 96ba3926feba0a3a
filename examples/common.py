"""Parts that the examples share: a short text, a tokenizer trained on it, small data sets made from words and shapes.

Nothing is downloaded. Everything is drawn from fixed seeds, so each call gives the same.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "</s>"]
CALM = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
"""No dropout in models of BERT's kind: a program draws other masks than PyTorch, so losses could not be compared."""
QUIET: dict[str, Any] = {
    "output_dir": "/tmp/assay-examples",  # noqa: S108 (nothing is written)
    "save_strategy": "no",
    "report_to": "none",
    "logging_steps": 1,
    "disable_tqdm": True,
    "use_cpu": True,
    "dataloader_pin_memory": False,
}
"""TrainingArguments for a script that prints every loss and keeps no files."""


# ------------------------------------------------------------------------------------------------------- words


@functools.cache
def lines() -> list[str]:
    """The text, paragraph by paragraph."""
    return (Path(__file__).parent / "corpus.txt").read_text().splitlines()


def tokenizer(kind: str = "plain") -> Any:
    """Byte-pair encoding with 512 tokens. Of kind "bert", a text begins with [CLS] and ends with [SEP]; of kind "t5",
    it ends with </s>."""
    words = Tokenizer(models.BPE(unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    sources = [*lines(), *(text for text, _ in reviews()), *(text for text, _ in reports())]
    words.train_from_iterator(
        sources, trainers.BpeTrainer(vocab_size=512, special_tokens=SPECIAL, show_progress=False)
    )
    if kind == "bert":
        words.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    elif kind == "t5":
        words.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 5)])
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        bos_token="[CLS]",
        eos_token="</s>",
    )


def blocks(words: Any, length: int) -> torch.Tensor:
    """The whole text, one paragraph after the other, as rows of `length` tokens: i64 [N, length]."""
    tokens = [token for line in lines() for token in [*words(line)["input_ids"], words.eos_token_id]]
    count = len(tokens) // length
    return torch.tensor(tokens[: count * length]).reshape(count, length)


def reviews(count: int = 96) -> list[tuple[str, int]]:
    """Sentences about things, and whether the writer liked them."""
    rng = random.Random(1)
    things = ["The bread", "The clock", "This boat", "The old library", "That market", "The night train"]
    good = ["is a joy", "works better than I had hoped", "is worth every coin", "made my week"]
    bad = ["broke on the first day", "is a waste of money", "smells of tar", "was late and cold"]
    rest = ["", " I will come back.", " My sister says the same.", " We bought it in spring, at the quay."]
    found = []
    for _ in range(count):
        liked = rng.randrange(2)
        found.append((f"{rng.choice(things)} {rng.choice(good if liked else bad)}.{rng.choice(rest)}", liked))
    return found


def reports(count: int = 96) -> list[tuple[str, str]]:
    """Short reports, and what matters in them."""
    rng = random.Random(2)
    people = ["baker", "gardener", "sailor", "teacher", "driver"]
    goods = ["pears", "clocks", "nets", "books", "boxes"]
    asides = ["It rained in the morning.", "The wind came from the east.", "Few people were about."]
    found = []
    for _ in range(count):
        who, what, number = rng.choice(people), rng.choice(goods), rng.randrange(2, 10)
        day = rng.choice(["Monday", "Friday", "Saturday"])
        first, second = rng.sample(asides, 2)
        text = f"{first} On {day} the {who} sold {number} {what} at the market. {second}"
        found.append((text, f"{who}: {number} {what}"))
    return found


# ------------------------------------------------------------------------------------------------------ images


SHAPES, COLOURS = ("disc", "square", "cross"), ("red", "green", "blue")


def pictures(count: int = 96, size: int = 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Coloured shapes on a noisy ground: f32 [count, 3, size, size]; the number of each shape, and of each colour."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:size, :size]
    shape, colour = rng.integers(0, 3, count), rng.integers(0, 3, count)
    images = rng.normal(0, 0.1, (count, 3, size, size)).astype(np.float32)
    for k in range(count):
        across, down = np.abs(x - rng.integers(5, size - 5)), np.abs(y - rng.integers(5, size - 5))
        drawn = (across**2 + down**2 < 16, np.maximum(across, down) < 4, np.minimum(across, down) < 1)
        images[k, colour[k]] += drawn[shape[k]]
    return torch.from_numpy(images), torch.from_numpy(shape), torch.from_numpy(colour)


# ----------------------------------------------------------------------------------------------------- batches


def loader(rows: Any, batch_size: int) -> Any:
    """A shuffled loader that gives the same batches whenever it is made."""
    generator = torch.Generator().manual_seed(0)
    return torch.utils.data.DataLoader(rows, batch_size, shuffle=True, drop_last=True, generator=generator)


def batches(epochs: Iterable[Any], steps: int) -> Iterator[Any]:
    """The first `steps` batches of a loader, epoch after epoch."""
    return itertools.islice(itertools.chain.from_iterable(itertools.repeat(epochs)), steps)


def order(rows: int, batch_size: int, steps: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The rows that such a loader gives, i64 [steps, batch_size]: the same loader over their numbers."""
    return np.stack([numbers.numpy() for numbers in batches(loader(range(rows), batch_size), steps)])
