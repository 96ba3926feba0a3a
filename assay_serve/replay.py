"""A receipt checked against a model: the tokens that are asked for are computed again from the receipt alone.

    prompt and tokens before t, as the receipt has them ── read ──> keys and values ── write ──> token t

A token is judged as a run's step is: from the claimed state before it. So one token can be checked alone, without the
others being computed token by token, and the first wrong one is found where it is.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from referee_py.commit import tensor_hash
from referee_py.errors import InvalidInput
from referee_py.program.modes import USUAL

from .answer_run import AnswerRuns, parameters_of
from .engine import Machine
from .model import Model
from .receipt import Receipt, Signed, bits_of, value_of

CHUNK = 32


class Verdict(StrEnum):
    """The result of a check."""

    MATCH = "MATCH"
    DIFFERS = "DIFFERS"
    UNCHECKED = "UNCHECKED"


@dataclass(frozen=True)
class Finding:
    """Findings about a receipt. ``checked``: numbers of tokens that were computed again, from 1.

    token              the first that differs
    node, operator, element  of the program that writes a token: where claim and computation part, as far as it is known
    """

    verdict: Verdict
    reason: str = ""
    checked: tuple[int, ...] = ()
    token: int | None = None
    node: int | None = None
    operator: str | None = None
    element: int | None = None
    claimed: str | None = None
    computed: str | None = None

    def words(self) -> str:
        """Return it in a line."""
        said: list[str] = [str(self.verdict)]
        if self.token is not None:
            said.append(f"token {self.token}")
        if self.node is not None:
            said.append(f"operator {self.node} ({self.operator})")
        if self.element is not None:
            said.append(f"output 0, element {self.element}: claimed {self.claimed}, computed {self.computed}")
        return ", ".join(filter(None, (*said, self.reason)))


class Replayer:
    """Checks receipts against one model."""

    def __init__(self, model: Model) -> None:
        self._model, self._runs = model, AnswerRuns(model)
        self._one, self._reader = Machine(model.one), Machine(model.reading(CHUNK))
        nodes = model.one.program.nodes
        named = dict(zip(model.one.labels.slots, model.one.program.slots, strict=True))
        self._logprobs = named["logprobs"].node
        self._argmax = max(k for k, node in enumerate(nodes) if node.name == "argmax")

    def check(self, signed: Signed, tokens: Sequence[int], prompt: Sequence[int] | None = None) -> Finding:
        """Compute these tokens of an answer again, by their numbers from 1. ``prompt``: what it should have been."""
        if (why := self._other_model(signed.receipt)) is not None:
            return Finding(Verdict.UNCHECKED, why)
        lists = signed.lists
        if prompt is not None and (at := _first_unlike(prompt, lists.prompt)) is not None:
            return Finding(
                Verdict.DIFFERS,
                f"the prompt is not that of the request: they part at its token {at + 1}",
                claimed=_at(lists.prompt, at),
                computed=_at(prompt, at),
            )
        if len(lists.prompt) + len(lists.tokens) > self._model.places:
            return Finding(
                Verdict.DIFFERS, f"more tokens than the {self._model.places} places of its program"
            )
        if max((*lists.prompt, *lists.tokens)) >= self._model.tokens:
            return Finding(
                Verdict.DIFFERS, f"a token that the model does not have: it has {self._model.tokens}"
            )
        if not self._behind_this(signed):
            return Finding(Verdict.DIFFERS, "its pledge is behind another run than that of this answer")
        done: list[int] = []
        for number in self._computed(signed, sorted(set(tokens))):
            done.append(number)
            found = self._judged(signed, number)
            if found is not None:
                return Finding(Verdict.DIFFERS, found.reason, tuple(done), number, found.node, found.operator,
                               found.element, found.claimed, found.computed)  # fmt: skip
        return Finding(Verdict.MATCH, checked=tuple(done))

    def _other_model(self, receipt: Receipt) -> str | None:
        """Return why a receipt is about another model than this one; None if it is about this one."""
        identity = self._model.identity
        if receipt.mode != USUAL.byte:
            return f"it is in the arithmetic mode {receipt.mode}; answers are computed in {USUAL.byte} here"
        if receipt.places != self._model.places:
            return f"its program has {receipt.places} places, this one {self._model.places}"
        for name in ("weights", "step", "tokenizer", "template"):
            own = getattr(identity, name).hex()
            if getattr(receipt, name) != own:
                return f"it is about another model: its {name} is {getattr(receipt, name)}, that of the folder {own}"
        if receipt.model != identity.root.hex():
            return "its model root is not that of its step, weights, tokenizer and template"
        return None

    def _behind_this(self, signed: Signed) -> bool:
        """Return whether a pledge, if there is one, is behind the run of this answer. SAFETY: a challenge posts the run
        that is signed, whatever else the receipt says."""
        if (backed := signed.backed) is None:
            return True
        lists = signed.lists
        own = self._runs.hashes(lists.prompt, len(lists.tokens), parameters_of(signed.receipt))
        return (backed.program, backed.file) == own

    def _computed(self, signed: Signed, numbers: Iterable[int]) -> Iterator[int]:
        """Yield each number when the step that writes this token was computed from the claimed tokens before it."""
        lists, receipt = signed.lists, signed.receipt
        whole = (*lists.prompt, *lists.tokens)
        self._reader.fill(0, whole, parameters_of(receipt).slots())
        slots = self._reader.slots
        one, before = self._one.slots, 0
        for number in numbers:
            end = len(lists.prompt) + number - 1
            if number != before + 1 or not before:
                slots["length"][0] = end
                while slots["place"][0] < end - 1:
                    self._reader.run()
                self._reader.copy(0, self._one, 0)
            # SAFETY: the claimed token must not be there when its own place is written, nor those behind it.
            one["tokens"][0] = 0
            one["tokens"][0, :end] = whole[:end]
            one["length"][0] = end
            self._one.run()
            before = number
            yield number

    def _judged(self, signed: Signed, number: int) -> Finding | None:
        """Compare a step that was computed with what the receipt says of it."""
        lists, slots = signed.lists, self._one.slots
        claimed = lists.tokens[number - 1]
        logprobs = slots["logprobs"][0]
        here, bits = bits_of([logprobs[claimed]])[0], lists.logprobs[number - 1]
        name = self._model.one.program.nodes[self._logprobs].name
        if here != bits:
            return Finding(Verdict.DIFFERS, "log-probabilities", (), number, self._logprobs, name, claimed,
                           repr(value_of(bits)), repr(value_of(here)))  # fmt: skip
        if tensor_hash(logprobs) != lists.steps[number - 1]:
            return Finding(Verdict.DIFFERS, "log-probabilities of other tokens than the one that was drawn; a "
                           "receipt has only their hash", (), number, self._logprobs, name)  # fmt: skip
        token = int(slots["tokens"][0, len(lists.prompt) + number - 1])
        if token != claimed:
            return Finding(Verdict.DIFFERS, "another token is drawn", (), number, self._argmax, "argmax", 0,
                           str(claimed), str(token))  # fmt: skip
        return None


def chosen(which: str, count: int, seed: int | None) -> list[int]:
    """Return the numbers of tokens: "all", "sample:N", or numbers such as 3,7-9. Raises InvalidInput."""
    if which == "all":
        return list(range(1, count + 1))
    kind, _, size = which.partition(":")
    if kind == "sample":
        if not size.isdecimal() or not 0 < int(size) < 1 << 32:
            raise InvalidInput(f"--tokens {which[:80]}; write sample:N, with N from 1 on")
        # NOTE: without a seed nobody can know the sample before.
        draw = random.Random(seed) if seed is not None else random.SystemRandom()
        return sorted(draw.sample(range(1, count + 1), min(int(size), count)))
    found: set[int] = set()
    for part in which.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidInput(f"--tokens {which[:80]}; write all, sample:N, or numbers such as 3,7-9")
        low, high = int(first), int(last or first)
        if not 1 <= low <= high <= count:
            raise InvalidInput(f"--tokens {part[:80]}; this answer has tokens 1 to {count}")
        found.update(range(low, high + 1))
    return sorted(found)


def _first_unlike(one: Sequence[int], other: Sequence[int]) -> int | None:
    if list(one) == list(other):
        return None
    return next(
        (k for k, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _at(tokens: Sequence[int], index: int) -> str:
    return str(tokens[index]) if index < len(tokens) else "nothing"
