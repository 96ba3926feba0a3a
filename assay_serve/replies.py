"""Replies in the schema of OpenAI's API, with the id of each choice's receipt as the field `receipt`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .answer import Answer, Written
from .model import Model
from .requests import AnyRequest, ChatRequest

LEAST = -9999.0
"""Logarithm of a probability of zero in a reply: JSON has no infinity."""


@dataclass
class Reply:
    """The reply to one request, whole or in chunks. ``offsets``: where the text of each choice's next token begins."""

    model: Model
    request: AnyRequest
    id: str
    created: int
    answers: Sequence[Answer]
    receipts: dict[int, str] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)

    @property
    def chat(self) -> bool:
        return isinstance(self.request, ChatRequest)

    def whole(self) -> dict[str, Any]:
        """Return the reply in one piece."""
        choices = []
        for k, answer in enumerate(self.answers):
            says = (
                {"message": {"role": "assistant", "content": answer.text, "refusal": None}}
                if self.chat
                else {"text": answer.text}
            )
            end = None if answer.end is None else answer.end.value
            choices.append(
                {"index": k, **says, "logprobs": self._logprobs(k, answer.written), "finish_reason": end,
                 "receipt": self.receipts.get(k)}
            )  # fmt: skip
        return {**self._head("chat.completion"), "choices": choices, "usage": self.usage()}

    def chunk(self, index: int, text: str, written: Sequence[Written], end: str | None, first: bool) -> str:
        """Return an event of a stream: a piece of one choice."""
        delta = {**({"role": "assistant"} if first else {}), "content": text}
        says = {"delta": delta} if self.chat else {"text": text}
        choice: dict[str, Any] = {
            "index": index,
            **says,
            "logprobs": self._logprobs(index, written) if written else None,
            "finish_reason": end,
        }
        if end is not None:
            choice["receipt"] = self.receipts.get(index)
        usage = {"usage": None} if self.request.usage_streamed else {}
        return event({**self._head("chat.completion.chunk"), "choices": [choice], **usage})

    def last(self) -> str:
        """Return the events after all choices."""
        counted = {**self._head("chat.completion.chunk"), "choices": [], "usage": self.usage()}
        return (event(counted) if self.request.usage_streamed else "") + "data: [DONE]\n\n"

    def usage(self) -> dict[str, int]:
        choices = self.request.n or 1
        prompt = sum(len(answer.prompt) for answer in self.answers[::choices])
        completion = sum(len(answer.written) for answer in self.answers)
        counted = {"prompt_tokens": prompt, "completion_tokens": completion}
        return {**counted, "total_tokens": prompt + completion}

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind if self.chat else "text_completion",
            "created": self.created,
            "model": self.model.name,
            "system_fingerprint": f"assay_{self.model.identity.root.hex()[:16]}",
        }

    def _logprobs(self, index: int, written: Sequence[Written]) -> dict[str, Any] | None:
        wanted = self.request.logprobs
        if wanted is None or wanted is False:
            return None
        if self.chat:
            content = [
                {**self._one(w.token, w.logprob), "top_logprobs": [self._one(*one) for one in w.likeliest]}
                for w in written
            ]
            return {"content": content, "refusal": None}
        texts = [self.model.token_text(w.token) for w in written]
        offsets = []
        for text in texts:
            offsets.append(self.offsets.get(index, 0))
            self.offsets[index] = offsets[-1] + len(text)
        likeliest = [
            {self.model.token_text(token): shown(logprob) for token, logprob in w.likeliest} for w in written
        ]
        return {
            "tokens": texts,
            "token_logprobs": [shown(w.logprob) for w in written],
            "top_logprobs": likeliest,
            "text_offset": offsets,
        }

    def _one(self, token: int, logprob: float) -> dict[str, Any]:
        text = self.model.token_text(token)
        return {"token": text, "logprob": shown(logprob), "bytes": list(text.encode("utf-8", "replace"))}


def event(value: dict[str, Any]) -> str:
    """Return a server-sent event. NOTE: JSON without characters beyond ASCII has no line breaks of its own."""
    return f"data: {json.dumps(value, separators=(',', ':'))}\n\n"


def shown(logprob: float) -> float:
    """Return a log-probability for JSON."""
    return logprob if math.isfinite(logprob) else LEAST
