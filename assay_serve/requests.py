"""Requests in the schema of OpenAI's API, and the refusals of what is not served.

INVARIANT: no field is ignored that would change an answer. A field is served, has a value that changes nothing
(`NEUTRAL`), or the request is refused with its name.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from referee_py.errors import InvalidInput

from .answer import Parameters
from .model import Model

MAX_STOPS, MAX_STOP_LENGTH = 4, 200
MAX_CHOICES = 8
MAX_PROMPTS = 16
MAX_MESSAGES = 1024
APART = 0x9E3779B97F4A7C15
"""Between the seeds of the choices of one request: choice k has the seed of the request plus k times this."""

NEUTRAL: dict[str, tuple[Any, ...]] = {
    **{"frequency_penalty": (None, 0), "presence_penalty": (None, 0), "logit_bias": (None, {})},
    **{
        "tools": (None, []),
        "tool_choice": (None, "none", "auto"),
        "parallel_tool_calls": (None, True, False),
    },
    **{"functions": (None, []), "function_call": (None, "none"), "response_format": (None, {"type": "text"})},
    **{"audio": (None,), "modalities": (None, ["text"]), "prediction": (None,), "reasoning_effort": (None,)},
    **{"best_of": (None, 1), "echo": (None, False), "suffix": (None, ""), "store": (None, False)},
    **{"service_tier": (None, "auto", "default"), "web_search_options": (None,)},
}
"""Fields of the API that are not served, with the values in which they change nothing."""
IGNORED = ("user", "metadata", "safety_identifier", "prompt_cache_key")
"""Fields that change no answer anywhere."""


class Refused(Exception):
    """A request that is refused: an error in the schema of the API."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.message, self.param, self.code, self.status = message, param, code, status

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 429 else "server_error"
        return {
            "error": {"message": self.message, "type": kind, "param": self.param, "code": self.code},
        }


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class _Text(_Part):
    type: Literal["text"]
    text: str


class Message(_Part):
    """A message of a conversation. Its content is text, or several pieces of it."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[_Text], Field(max_length=MAX_MESSAGES)]
    name: str | None = None

    def plain(self) -> dict[str, str]:
        content = (
            self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        )
        named = {} if self.name is None else {"name": self.name}
        return {"role": self.role, "content": content, **named}


class StreamOptions(_Part):
    """Options of a stream."""

    include_usage: bool = False


_Stop = Annotated[str, Field(min_length=1, max_length=MAX_STOP_LENGTH)]
_Token = Annotated[int, Field(ge=0)]


class _Request(_Part):
    model: str
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MAX_CHOICES)] | None = 1
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Field(ge=0, le=1)] | None = 1.0
    top_k: Annotated[int, Field(ge=0, lt=1 << 31)] | None = 0
    seed: Annotated[int, Field(ge=-(1 << 63), lt=1 << 64)] | None = None
    stop: _Stop | Annotated[list[_Stop], Field(max_length=MAX_STOPS)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def usage_streamed(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def parameters(self, count: int) -> list[Parameters]:
        """Return the parameters of so many choices. NOTE: a seed that nobody gave is drawn, and is in the receipt."""
        seed = secrets.randbits(63) if self.seed is None else self.seed
        rounded = [float(np.float32(v)) for v in (_or(self.temperature, 1.0), _or(self.top_p, 1.0))]
        return [
            Parameters(rounded[0], self.top_k or 0, rounded[1], (seed + k * APART) % (1 << 64))
            for k in range(count)
        ]


class ChatRequest(_Request):
    """A request to `/v1/chat/completions`."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None

    @property
    def most(self) -> int | None:
        return self.max_completion_tokens if self.max_tokens is None else self.max_tokens

    @property
    def alternatives(self) -> int:
        return self.top_logprobs or 0

    def prompts(self, model: Model) -> list[list[int]]:
        return [model.prompt_of_messages([message.plain() for message in self.messages])]


class CompletionRequest(_Request):
    """A request to `/v1/completions`: a text, tokens, or several of either."""

    prompt: (
        str
        | Annotated[list[_Token], Field(min_length=1)]
        | Annotated[list[str], Field(min_length=1, max_length=MAX_PROMPTS)]
        | Annotated[
            list[Annotated[list[_Token], Field(min_length=1)]], Field(min_length=1, max_length=MAX_PROMPTS)
        ]
    )
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None

    @property
    def most(self) -> int | None:
        return 16 if self.max_tokens is None else self.max_tokens

    @property
    def alternatives(self) -> int:
        return self.logprobs or 0

    def prompts(self, model: Model) -> list[list[int]]:
        given: Any = self.prompt
        if isinstance(given, str) or isinstance(given[0], int):
            given = [given]
        return [model.prompt_of_text(one) if isinstance(one, str) else list(one) for one in given]


AnyRequest = ChatRequest | CompletionRequest
Kind = type[ChatRequest] | type[CompletionRequest]


@dataclass(frozen=True)
class Limits:
    """Bounds of a request: ``tokens`` of an answer, ``body`` bytes, ``choices`` in all."""

    tokens: int = 4096
    body: int = 1 << 20
    choices: int = 16


def parse(kind: Kind, body: bytes) -> AnyRequest:
    """Return a request of a stranger. Raises Refused."""
    try:
        # SAFETY: this parser limits nesting.
        given = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(f"the body is not JSON: {str(error)[:200]}", code="invalid_json") from error
    if not isinstance(given, dict):
        raise Refused("the body is not a JSON object", code="invalid_json")
    kept = {name: value for name, value in given.items() if name not in IGNORED}
    for name in [name for name in kept if name in NEUTRAL]:
        value = kept.pop(name)
        if not any(_same(value, neutral) for neutral in NEUTRAL[name]):
            raise Refused(f"{name} is not supported; leave it out", name, "unsupported_parameter")
    try:
        return kind.model_validate(kept)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = [
            part for part in first["loc"] if isinstance(part, int) or part in kept or part.isidentifier()
        ]
        param = ".".join(map(str, place))[:80] or None
        code = "unknown_parameter" if first["type"] == "extra_forbidden" else None
        raise Refused(f"{param}: {first['msg'][:200]}", param, code) from error


def checked(request: AnyRequest, model: Model, limits: Limits) -> tuple[list[list[int]], int]:
    """Return the prompts of a request, and the most tokens of each answer. Raises Refused."""
    if request.model != model.name:
        raise Refused(
            f"the model {request.model[:80]!r} does not exist; this server has {model.name!r}",
            "model",
            "model_not_found",
            404,
        )
    if isinstance(request, ChatRequest) and request.top_logprobs and not request.logprobs:
        raise Refused("top_logprobs needs logprobs", "top_logprobs")
    try:
        prompts = request.prompts(model)
    except InvalidInput as error:
        raise Refused(str(error), "messages" if isinstance(request, ChatRequest) else "prompt") from error
    if len(prompts) * (request.n or 1) > limits.choices:
        raise Refused(
            f"{len(prompts)} prompts, {request.n} choices each; at most {limits.choices} in all", "n"
        )
    for prompt in prompts:
        _check_prompt(prompt, model)
    room = min(limits.tokens, model.places - max(map(len, prompts)))
    most = room if request.most is None else request.most
    if most > room:
        raise Refused(
            f"max_tokens is {most}; this prompt leaves room for {room}",
            "max_tokens",
            "context_length_exceeded",
        )
    return prompts, most


def _check_prompt(prompt: Sequence[int], model: Model) -> None:
    if not prompt:
        raise Refused("the prompt has no tokens", "prompt")
    if max(prompt) >= model.tokens:
        raise Refused(f"a token {max(prompt)}; the model has {model.tokens}", "prompt")
    if len(prompt) >= model.places:
        raise Refused(
            f"a prompt of {len(prompt)} tokens; the model takes fewer than {model.places}",
            "messages",
            "context_length_exceeded",
        )


def _or(value: float | None, usual: float) -> float:
    return usual if value is None else value


def _same(given: Any, neutral: Any) -> bool:
    """Return whether two values of JSON are equal. NOTE: in Python, True equals 1."""
    return bool(given == neutral) and isinstance(given, bool) is isinstance(neutral, bool)
