"""Answers of a language model: tokens in a second by the engine of `assay serve`, and by `transformers.generate`.

Both draw whole answers from GPT-2 small, whose weights are drawn and not trained, in turns on the same machine and with
the same threads. Ours has its receipts: the hash of all log-probabilities of each token.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import transformers as hf

from assay_serve.answer import Answer, Parameters, Piece
from assay_serve.engine import Capacity, Engine
from assay_serve.model import Model

from .report import Table, factor

PLACES, PROMPT, WRITTEN, ROWS = 256, 16, 32, 8
TEMPERATURE = 0.8
T = TypeVar("T")


class _Letters:
    """A letter for each token."""

    def text_of(self, tokens: Sequence[int]) -> str:
        return "a" * len(tokens)


@dataclass(frozen=True)
class _Ours:
    """The engine, with answers of random prompts."""

    engine: Engine
    prompts: list[tuple[int, ...]]

    def __call__(self, rows: int) -> float:
        """Write the answers; return the seconds to the first token."""
        begun, said = time.perf_counter(), list[float]()

        def tell(_: Piece) -> None:
            said.append(time.perf_counter() - begun)

        answers = [
            Answer(_Letters(), prompt, Parameters(TEMPERATURE, 0, 1.0, seed), WRITTEN, (), frozenset(), tell)
            for seed, prompt in enumerate(self.prompts[:rows])
        ]
        self.engine.submit(answers)
        while any(one.end is None for one in answers):
            self.engine.turn()
        return said[0]


@dataclass(frozen=True)
class _Theirs:
    """`generate` with its cache."""

    module: Any
    prompts: torch.Tensor

    def __call__(self, rows: int) -> None:
        prompts = self.prompts[:rows]
        with torch.no_grad():
            self.module.generate(
                prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=WRITTEN,
                do_sample=True,
                temperature=TEMPERATURE,
                pad_token_id=0,
            )


def measure(turns: int) -> Table:
    """Return a row for one answer and for eight at once."""
    columns = ["rows", "generate, tokens/s", "ours, tokens/s", "ours / generate", "lowest", "highest"]
    table = Table("serving", [*columns, "first token, s"])
    torch.manual_seed(0)
    module: Any = hf.GPT2LMHeadModel(hf.GPT2Config(n_positions=PLACES)).eval()
    module.generation_config.eos_token_id = None
    prompts = torch.randint(0, module.config.vocab_size, (ROWS, PROMPT))
    engine = Engine(Model("gpt2", module, None, PLACES), Capacity(rows=ROWS))
    ours, theirs = _Ours(engine, [tuple(row) for row in prompts.tolist()]), _Theirs(module, prompts)
    for rows in (1, ROWS):
        theirs(rows)
        ours(rows)
        turn = [(_timed(theirs, rows), _timed(ours, rows)) for _ in range(turns)]
        ratios = [other[0] / mine[0] for other, mine in turn]
        table.add(
            str(rows),
            f"{rows * WRITTEN / statistics.median(other[0] for other, _ in turn):.1f}",
            f"{rows * WRITTEN / statistics.median(mine[0] for _, mine in turn):.1f}",
            factor(statistics.median(ratios)),
            f"{min(ratios):.2f}",
            f"{max(ratios):.2f}",
            f"{statistics.median(mine[1] for _, mine in turn):.2f}",
        )
    return table


def _timed(write: Callable[[int], T], rows: int) -> tuple[float, T]:
    """Return the seconds that it takes, and what it returns."""
    begun = time.perf_counter()
    found = write(rows)
    return time.perf_counter() - begun, found
