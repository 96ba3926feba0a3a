"""The official client asks the service: chat, streams, choices, stops, seeds, log-probabilities, errors."""

from __future__ import annotations

import hashlib
import math
import threading
from typing import Any

import openai
import pytest

from assay_serve.engine import Capacity
from assay_serve.model import Model
from assay_serve.receipt import Signed
from assay_serve.requests import IGNORED, NEUTRAL, Limits
from assay_serve.web import RECEIPT_HEADER, Service

from . import tiny
from .tiny import HTTP

Running = tuple[Service, str]
HELLO: Any = [{"role": "user", "content": "hello"}]


def chat(client: openai.OpenAI, **given: Any) -> Any:
    return client.chat.completions.create(
        **{"model": "tiny", "messages": HELLO, "max_tokens": 12, "seed": 5, "temperature": 0.9, **given}
    )


def test_a_chat_has_an_answer_a_usage_and_a_receipt(client: openai.OpenAI, running: Running) -> None:
    found = chat(client)
    choice = found.choices[0]
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason == "length"
    assert found.usage.completion_tokens == 12
    assert found.usage.total_tokens == 12 + found.usage.prompt_tokens
    signed = Signed.from_bytes(HTTP.get(f"{running[1]}/v1/receipts/{choice.receipt}").content)
    assert signed.receipt.id == choice.receipt
    assert signed.receipt.server == client.models.list().data[0].owned_by
    words = running[0].engine.model
    assert words.text_of(signed.lists.tokens) == choice.message.content
    assert words.prompt_of_messages(HELLO) == list(signed.lists.prompt)


def test_the_same_seed_gives_the_same_answer_and_another_one_another(client: openai.OpenAI) -> None:
    texts = [chat(client, seed=seed).choices[0].message.content for seed in (5, 5, 6, -5)]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3
    assert chat(client, seed=None).choices[0].receipt != chat(client, seed=None).choices[0].receipt


def test_a_stream_is_the_answer_in_pieces(client: openai.OpenAI) -> None:
    whole = chat(client, n=3, logprobs=True, top_logprobs=2)
    texts, ends, receipts, content = ["", "", ""], {}, {}, [[], [], []]  # type: ignore[var-annotated]
    usage = None
    for chunk in chat(
        client, n=3, logprobs=True, top_logprobs=2, stream=True, stream_options={"include_usage": True}
    ):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            if choice.logprobs:
                content[choice.index] += choice.logprobs.content
            if choice.finish_reason:
                ends[choice.index], receipts[choice.index] = choice.finish_reason, choice.receipt
    assert texts == [choice.message.content for choice in whole.choices]
    assert content == [choice.logprobs.content for choice in whole.choices]
    assert ends == {choice.index: choice.finish_reason for choice in whole.choices}
    assert len(set(receipts.values())) == 3
    assert usage == whole.usage


def test_the_clients_helper_of_streams_reads_ours(client: openai.OpenAI) -> None:
    stop = (
        chat(client).choices[0].message.content[6:8]
    )  # NOTE: the helper raises for an answer cut by its length
    with client.chat.completions.stream(
        model="tiny", messages=HELLO, max_tokens=12, seed=5, temperature=0.9, stop=stop
    ) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert final.choices[0].message.content == chat(client, stop=stop).choices[0].message.content


def test_choices_differ_and_each_is_that_of_its_own_seed(client: openai.OpenAI) -> None:
    found = [choice.message.content for choice in chat(client, n=3).choices]
    assert len(set(found)) == 3
    alone = [
        chat(client, seed=(5 + k * 0x9E3779B97F4A7C15) % (1 << 64)).choices[0].message.content
        for k in range(3)
    ]
    assert found == alone


def test_a_stop_is_cut_off_whole_and_streamed(client: openai.OpenAI) -> None:
    text = chat(client).choices[0].message.content
    stop = text[4:6]
    found = chat(client, stop=["zzzz", stop]).choices[0]
    assert found.message.content == text[: text.index(stop)]
    assert found.finish_reason == "stop"
    pieces = [chunk.choices[0].delta.content for chunk in chat(client, stop=stop, stream=True)]
    assert "".join(pieces) == found.message.content


def test_log_probabilities_are_those_of_the_model(client: openai.OpenAI) -> None:
    content = chat(client, temperature=0, logprobs=True, top_logprobs=20).choices[0].logprobs.content
    for one in content:
        assert one.top_logprobs[0].token == one.token, "greedy takes the likeliest"
        assert [t.logprob for t in one.top_logprobs] == sorted(
            (t.logprob for t in one.top_logprobs), reverse=True
        )
        assert sum(math.exp(t.logprob) for t in one.top_logprobs) < 1
    cold = chat(client, temperature=0, logprobs=True).choices[0].logprobs.content
    assert [one.logprob for one in cold] == [one.logprob for one in content]
    assert cold[0].top_logprobs == []


def test_completions_take_texts_and_tokens(client: openai.OpenAI) -> None:
    given: Any = {"model": "tiny", "max_tokens": 6, "seed": 3, "logprobs": 2}
    both = client.completions.create(prompt=["ab", "cd"], n=2, **given)
    assert [choice.index for choice in both.choices] == [0, 1, 2, 3]
    tokens = [[ord(c) - 33 + 5 for c in text] for text in ("ab", "cd")]
    as_tokens = client.completions.create(prompt=tokens, n=2, **given)
    assert [c.text for c in both.choices] == [c.text for c in as_tokens.choices]
    assert client.completions.create(prompt="cd", **given).choices[0].text == both.choices[2].text
    one = both.choices[0].logprobs
    assert len(one.tokens) == len(one.token_logprobs) == len(one.text_offset) == 6
    assert both.usage.prompt_tokens == 4


def test_top_k_and_top_p_leave_the_likeliest(client: openai.OpenAI) -> None:
    greedy = chat(client, temperature=0).choices[0].message.content
    for more in ({"extra_body": {"top_k": 1}}, {"top_p": 0}):
        assert chat(client, seed=99, temperature=1.5, **more).choices[0].message.content == greedy


@pytest.mark.parametrize("name", sorted(NEUTRAL))
def test_what_is_not_served_is_refused_by_name(client: openai.OpenAI, name: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, extra_body={name: "something"})
    assert caught.value.param == name
    assert caught.value.code == "unsupported_parameter"
    assert caught.value.type == "invalid_request_error"
    chat(client, max_tokens=1, extra_body={name: NEUTRAL[name][-1]})


def test_a_field_that_nobody_knows_is_refused_and_a_users_name_is_not(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, extra_body={"temprature": 0.1})
    assert caught.value.code == "unknown_parameter"
    text = chat(client).choices[0].message.content
    assert chat(client, extra_body=dict.fromkeys(IGNORED, "x")).choices[0].message.content == text


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"top_p": 1.1}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 9}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 100_000}, "max_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"seed": 1 << 64}, "seed"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": "x" * 200}]}, "messages"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_refused_with_their_name(
    client: openai.OpenAI, given: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        chat(client, **given)
    assert (caught.value.param or "").partition(".")[0] == param


def test_another_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        chat(client, model="gpt-9")
    assert caught.value.code == "model_not_found"
    assert client.models.retrieve("tiny").id == "tiny"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_only_users_with_a_key_are_served(model: Model) -> None:
    keys = frozenset(hashlib.sha256(key).digest() for key in (b"one", b"two"))
    with tiny.service(model, keys=keys) as (_, address):
        for wrong in ("three", "on", "one two", "ONE"):
            refused = openai.OpenAI(base_url=f"{address}/v1", api_key=wrong, max_retries=0)
            with pytest.raises(openai.AuthenticationError):
                refused.models.list()
            with pytest.raises(openai.AuthenticationError):
                chat(refused)
            assert HTTP.get(f"{address}/v1/receipts/{'0' * 64}").status_code == 401
        known = openai.OpenAI(base_url=f"{address}/v1", api_key="two", max_retries=0)
        assert chat(known).choices[0].receipt
        assert HTTP.get(f"{address}/healthz").json() == {"status": "ok"}


def test_a_full_queue_is_said_and_a_client_that_goes_away_frees_its_row(model: Model) -> None:
    with tiny.service(model, Capacity(rows=1, chunk=8, waiting=1)) as (service, address):
        engine = service.engine
        gate, turn = threading.Event(), engine.turn

        def gated() -> None:
            gate.wait(600)
            turn()

        engine.turn = gated  # type: ignore[method-assign]
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0)
        stream = chat(client, stream=True, max_tokens=100)
        with pytest.raises(openai.RateLimitError) as caught:
            chat(client, n=2)
        assert caught.value.code == "queue_full"
        stream.response.close()
        gate.set()
        tiny.wait_for(lambda: engine.counts.cancelled == 1)
        assert chat(client).choices[0].receipt
        assert engine.running == engine.waiting == 0


def test_health_metrics_and_the_header_of_a_reply(running: Running, client: openai.OpenAI) -> None:
    _, address = running
    reply = client.chat.completions.with_raw_response.create(model="tiny", messages=HELLO, n=2, max_tokens=2)
    receipts = [choice.receipt for choice in reply.parse().choices]  # type: ignore[attr-defined]
    assert reply.headers[RECEIPT_HEADER] == ", ".join(receipts)
    text = HTTP.get(f"{address}/metrics").text
    assert "assay_serve_written_tokens_total" in text
    assert HTTP.get(f"{address}/v1/receipts/{'0' * 64}").json()["error"]["code"] == "receipt_not_found"


def test_receipts_are_kept_within_bounds(model: Model) -> None:
    from assay_serve.store import Receipts

    with tiny.service(model, limits=Limits(tokens=4)) as (service, address):
        service = Service(service.engine, Receipts(model, tiny.ACCOUNT, count=3), service.limits)
        with tiny.serving(service) as again:
            client = openai.OpenAI(base_url=f"{again}/v1", api_key="none", max_retries=0)
            names = [chat(client, seed=k, max_tokens=4).choices[0].receipt for k in range(5)]
            codes = [HTTP.get(f"{again}/v1/receipts/{name}").status_code for name in names]
        assert codes == [404, 404, 200, 200, 200]
        assert address != again
