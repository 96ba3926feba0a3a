"""LangChain asks the service: chat, streams, stops, seeds, log-probabilities, batches, errors."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import openai
import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI, OpenAI

from assay_serve.engine import Capacity
from assay_serve.model import Model
from assay_serve.receipt import Signed
from assay_serve.web import RECEIPT_HEADER, Service

from . import tiny
from .tiny import HTTP

Running = tuple[Service, str]


@pytest.fixture(autouse=True)
def nothing_is_told_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library can send what it does to its makers' service."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
        monkeypatch.setenv(name, "false")


def chat(address: str, **given: Any) -> ChatOpenAI:
    usual = {"model": "tiny", "temperature": 0.9, "seed": 5, "max_tokens": 12, "max_retries": 0}
    return ChatOpenAI(base_url=f"{address}/v1", **{"api_key": "none", **usual, **given})


@pytest.fixture
def asked(running: Running) -> ChatOpenAI:
    return chat(running[1])


def official(address: str, messages: Any, **given: Any) -> Any:
    """Return the choice that the official client gets."""
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
    return client.chat.completions.create(
        **{"model": "tiny", "messages": messages, "max_tokens": 12, "seed": 5, "temperature": 0.9, **given}
    ).choices[0]


def test_a_conversation_is_that_of_the_official_client(running: Running, asked: ChatOpenAI) -> None:
    pieces = HumanMessage([{"type": "text", "text": "and"}])
    found = asked.invoke([SystemMessage("short"), HumanMessage("hello"), AIMessage("yes?"), pieces])
    roles = ("system", "short"), ("user", "hello"), ("assistant", "yes?"), ("user", "and")
    wanted = official(running[1], [{"role": role, "content": text} for role, text in roles])
    assert found.content == wanted.message.content
    assert found.usage_metadata is not None
    assert found.usage_metadata["output_tokens"] == 12
    assert found.response_metadata["finish_reason"] == wanted.finish_reason == "length"


def test_the_receipt_comes_by_the_header(running: Running) -> None:
    found = chat(running[1], include_response_headers=True).invoke("hello")
    name = found.response_metadata["headers"][RECEIPT_HEADER.lower()]
    signed = Signed.from_bytes(HTTP.get(f"{running[1]}/v1/receipts/{name}").content)
    assert signed.receipt.id == name
    assert running[0].engine.model.text_of(signed.lists.tokens) == found.content


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream_is_the_answer_in_pieces(running: Running, usage: bool) -> None:
    client = chat(running[1], stream_usage=usage)
    pieces = list(client.stream("hello"))
    assert len(pieces) > 3
    assert "".join(str(piece.content) for piece in pieces) == client.invoke("hello").content
    ends = [piece.response_metadata.get("finish_reason") for piece in pieces]
    assert [end for end in ends if end] == ["length"]
    counts = [piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata]
    assert counts == ([12] if usage else [])


def test_asynchronous_questions_beside_each_other_are_each_alone(asked: ChatOpenAI) -> None:
    async def together() -> list[str]:
        whole, *others = await asyncio.gather(
            asked.ainvoke("hello"), asked.ainvoke("you"), asked.ainvoke("there")
        )
        streamed = [str(piece.content) async for piece in asked.astream("hello")]
        return ["".join(streamed), *(str(one.content) for one in (whole, *others))]

    assert asyncio.run(together()) == [
        asked.invoke(text).content for text in ("hello", "hello", "you", "there")
    ]


def test_a_seed_gives_its_answer_and_another_one_another(running: Running) -> None:
    texts = [chat(running[1], seed=seed).invoke("hello").content for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_a_batch_of_questions_is_each_of_them_alone(asked: ChatOpenAI) -> None:
    questions: list[Any] = [f"question {k}" for k in range(6)]
    together = asked.batch(questions)
    assert [one.content for one in together] == [asked.invoke(question).content for question in questions]


def test_a_stop_is_cut_off_also_in_a_stream(asked: ChatOpenAI) -> None:
    text = str(asked.invoke("hello").content)
    stop = text[4:6]
    found = asked.invoke("hello", stop=[stop])
    assert found.content == text[: text.index(stop)]
    assert found.response_metadata["finish_reason"] == "stop"
    assert "".join(str(piece.content) for piece in asked.stream("hello", stop=[stop])) == found.content


def test_log_probabilities_are_those_of_the_official_client(running: Running, asked: ChatOpenAI) -> None:
    bound = asked.bind(logprobs=True, top_logprobs=3)
    wanted = official(running[1], [{"role": "user", "content": "hello"}], logprobs=True, top_logprobs=3)
    content = [one.model_dump() for one in wanted.logprobs.content]
    assert bound.invoke("hello").response_metadata["logprobs"]["content"] == content
    streamed = [
        one
        for piece in bound.stream("hello")
        for one in (piece.response_metadata.get("logprobs") or {}).get("content", [])
    ]
    assert streamed == content


def test_choices_of_one_request(running: Running) -> None:
    (found,) = chat(running[1], n=3).generate([[HumanMessage("hello")]]).generations
    wanted = [
        official(running[1], [{"role": "user", "content": "hello"}], seed=(5 + k * 0x9E3779B97F4A7C15) % (1 << 64))
        for k in range(3)
    ]  # fmt: skip
    assert [one.text for one in found] == [one.message.content for one in wanted]


def test_completions_of_texts(running: Running) -> None:
    given: Any = {"model": "tiny", "max_tokens": 6, "seed": 3, "temperature": 0.7}
    client = OpenAI(base_url=f"{running[1]}/v1", **{"api_key": "none", **given})
    found = client.generate(["ab", "cd"])
    official_client = openai.OpenAI(base_url=f"{running[1]}/v1", api_key="none")
    whole = official_client.completions.create(prompt=["ab", "cd"], **given)
    assert [one[0].text for one in found.generations] == [one.text for one in whole.choices]
    assert "".join(client.stream("ab")) == client.invoke("ab")


def test_what_is_not_served_is_an_error_that_names_it(running: Running, asked: ChatOpenAI) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    with pytest.raises(openai.BadRequestError, match="tools is not supported"):
        asked.bind_tools([tool]).invoke("hello")
    with pytest.raises(openai.BadRequestError, match="response_format is not supported"):
        asked.with_structured_output({"title": "x", "type": "object", "properties": {}}).invoke("hello")
    with pytest.raises(openai.NotFoundError, match="this server has 'tiny'"):
        chat(running[1], model="other").invoke("hello")
    with pytest.raises(openai.BadRequestError, match="temperature"):
        chat(running[1], temperature=9).invoke("hello")
    with pytest.raises(openai.BadRequestError, match="a prompt of"):
        asked.invoke("x" * 5000)


def test_keys_and_a_full_queue(model: Model) -> None:
    with tiny.service(model, keys=frozenset({hashlib.sha256(b"one").digest()})) as (_, address):
        with pytest.raises(openai.AuthenticationError):
            chat(address).invoke("hello")
        assert chat(address, api_key="one").invoke("hello").content
    with (
        tiny.service(model, Capacity(rows=1, chunk=8, waiting=0)) as (_, address),
        pytest.raises(openai.RateLimitError),
    ):
        chat(address).invoke("hello")  # fmt: skip
