"""A lie in a receipt is found, with its place; a file that anybody has changed is refused."""

from __future__ import annotations

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from eth_account import Account

from assay_serve.answer import Answer, Parameters
from assay_serve.engine import Capacity, Engine
from assay_serve.model import Model
from assay_serve.receipt import Lists, Signed, bits_of
from assay_serve.replay import Replayer, Verdict, chosen
from assay_serve.store import receipt_of
from referee_py.commit import tensor_hash
from referee_py.errors import InvalidEncoding, InvalidInput

from ..conftest import Assay
from ..trainer_node.audit.in_toto import in_toto
from . import tiny

PARAMETERS = Parameters(float(np.float32(0.9)), 0, float(np.float32(0.95)), 11)
COUNT = 12
MESSAGES = [{"role": "user", "content": "hi"}]


def answered(model: Model, parameters: Parameters = PARAMETERS, prompt: list[int] | None = None) -> Signed:
    """Return the receipt of an answer that a server of this model gives."""
    engine = Engine(model, Capacity(rows=1, chunk=8))
    tokens = tuple(prompt or model.prompt_of_messages(MESSAGES))
    answer = Answer(model, tokens, parameters, COUNT, (), frozenset(), lambda _: None)
    engine.submit([answer])
    while answer.end is None:
        engine.turn()
    return receipt_of(model, answer, tiny.ACCOUNT, 1_700_000_000)


@pytest.fixture(scope="module")
def signed(model: Model) -> Signed:
    return answered(model)


@pytest.fixture(scope="module")
def replayer(model: Model) -> Replayer:
    return Replayer(model)


def lied(signed: Signed, lists: Lists | None = None, **fields: Any) -> Signed:
    """Return a receipt with these lies, signed by the server that tells them."""
    told = Signed.by(tiny.ACCOUNT, signed.receipt.model_dump() | fields, lists or signed.lists)
    return Signed.from_bytes(told.to_bytes())


def with_token(lists: Lists, number: int, token: int) -> Lists:
    tokens = list(lists.tokens)
    tokens[number - 1] = token
    return dataclasses.replace(lists, tokens=tuple(tokens))


def everything(signed: Signed) -> range:
    return range(1, len(signed.lists.tokens) + 1)


def test_an_honest_receipt_matches_whichever_tokens_are_asked_for(signed: Signed, replayer: Replayer) -> None:
    for numbers in (everything(signed), [1], [COUNT], [3, 4, 9], [2, 7, 8, 11]):
        found = replayer.check(signed, numbers)
        assert (found.verdict, found.checked) == (Verdict.MATCH, tuple(numbers))


def test_a_lie_about_one_token_is_found_at_that_token(signed: Signed, replayer: Replayer) -> None:
    """NOTE: its log-probability and the steps after it are what the liar would compute."""
    for number in (1, 5, COUNT):
        other = (signed.lists.tokens[number - 1] + 1) % 261
        lie = lied(signed, with_token(signed.lists, number, other))
        found = replayer.check(lie, everything(lie))
        assert (found.verdict, found.token) == (Verdict.DIFFERS, number)
        assert found.operator is not None


def test_a_consistent_lie_about_a_token_is_a_wrong_argmax(
    model: Model, signed: Signed, replayer: Replayer
) -> None:
    """The attack: a server prefers another token, and goes on honestly from it."""
    number, other = 5, (signed.lists.tokens[4] + 1) % 261
    prefix = [*signed.lists.prompt, *signed.lists.tokens[:4], other]
    rest = answered(model, prompt=prefix).lists
    row = replayed_row(model, prefix[:-1])
    count = COUNT - number
    lists = Lists(
        signed.lists.prompt,
        (*signed.lists.tokens[:4], other, *rest.tokens[:count]),
        (*signed.lists.logprobs[:4], bits_of([row[other]])[0], *rest.logprobs[:count]),
        (*signed.lists.steps[:4], tensor_hash(row), *rest.steps[:count]),
    )
    lie = lied(signed, lists)
    found = replayer.check(lie, everything(lie))
    assert (found.token, found.operator, found.element) == (number, "argmax", 0)
    assert (found.claimed, found.computed) == (str(other), str(signed.lists.tokens[4]))
    assert replayer.check(lie, [1, 2, 3, 4, 6, 9, COUNT]).verdict is Verdict.MATCH, "each is judged alone"


def replayed_row(model: Model, tokens: list[int]) -> Any:
    """Return the log-probabilities after these tokens."""
    engine = Engine(model, Capacity(rows=1, chunk=8))
    answer = Answer(model, tuple(tokens), PARAMETERS, 1, (), frozenset(), lambda _: None)
    engine.submit([answer])
    while answer.end is None:
        engine.turn()
    return engine._one.slots["logprobs"][0].copy()


def test_a_lie_about_a_log_probability_names_element_and_values(signed: Signed, replayer: Replayer) -> None:
    bits = list(signed.lists.logprobs)
    bits[6] ^= 1
    lie = lied(signed, dataclasses.replace(signed.lists, logprobs=tuple(bits)))
    found = replayer.check(lie, everything(lie))
    assert (found.token, found.element) == (7, signed.lists.tokens[6])
    assert found.claimed != found.computed


def test_a_lie_about_the_score_of_another_token_is_found(signed: Signed, replayer: Replayer) -> None:
    steps = list(signed.lists.steps)
    steps[8] = bytes(32)
    lie = lied(signed, dataclasses.replace(signed.lists, steps=tuple(steps)))
    found = replayer.check(lie, everything(lie))
    assert (found.verdict, found.token, found.element) == (Verdict.DIFFERS, 9, None)


@pytest.mark.parametrize(
    "fields", [{"seed": 12}, {"temperature": bits_of([1.4])[0]}, {"topK": 1}, {"topP": bits_of([0.05])[0]}]
)
def test_a_lie_about_the_parameters_is_found(
    signed: Signed, replayer: Replayer, fields: dict[str, Any]
) -> None:
    lie = lied(signed, None, **fields)
    found = replayer.check(lie, everything(lie))
    assert (found.verdict, found.operator) == (Verdict.DIFFERS, "argmax")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model.load(tiny.write(tmp_path_factory.mktemp("other") / "tiny", seed=5))


def test_a_lie_about_the_weights_is_found(signed: Signed, replayer: Replayer, other: Model) -> None:
    """The attack: a server answers with another, cheaper model, and names the one that was paid for."""
    named = ("model", "weights", "step", "tokenizer", "template")
    lie = lied(answered(other), **{name: getattr(signed.receipt, name) for name in named})
    found = replayer.check(lie, everything(lie))
    assert (found.verdict, found.token) == (Verdict.DIFFERS, 1)
    honest = replayer.check(answered(other), [1])
    assert honest.verdict is Verdict.UNCHECKED
    assert "weights" in honest.reason


def test_a_lie_about_the_template_is_found_with_the_request(
    model: Model, signed: Signed, replayer: Replayer
) -> None:
    """The attack: a server puts words before the conversation that the template does not have."""
    prompt = model.prompt_of_messages([{"role": "system", "content": "Praise us."}, *MESSAGES])
    lie = lied(answered(model, prompt=prompt))
    assert replayer.check(lie, [1]).verdict is Verdict.MATCH, "the tokens follow from that prompt"
    found = replayer.check(lie, [1], model.prompt_of_messages(MESSAGES))
    assert found.verdict is Verdict.DIFFERS
    assert "prompt" in found.reason
    assert replayer.check(signed, [1], model.prompt_of_messages(MESSAGES)).verdict is Verdict.MATCH


@pytest.mark.parametrize("name", ["weights", "step", "tokenizer", "template", "model"])
def test_a_receipt_about_another_model_is_unchecked(signed: Signed, replayer: Replayer, name: str) -> None:
    found = replayer.check(lied(signed, None, **{name: "ab" * 32}), [1])
    assert found.verdict is Verdict.UNCHECKED
    assert name in found.reason


def test_impossible_lists_differ_and_break_nothing(signed: Signed, replayer: Replayer) -> None:
    foreign = lied(signed, with_token(signed.lists, 2, 261))
    assert replayer.check(foreign, [1]).verdict is Verdict.DIFFERS
    long = Lists((5,) * tiny.PLACES, signed.lists.tokens, signed.lists.logprobs, signed.lists.steps)
    assert replayer.check(lied(signed, long), [1]).verdict is Verdict.DIFFERS


# ------------------------------------------------------------------------------------------------------- files


def test_a_file_is_an_in_toto_statement_and_has_one_form(signed: Signed) -> None:
    data = signed.to_bytes()
    assert Signed.from_bytes(data) == signed
    payload = in_toto(base64.b64decode(json.loads(data)["payload"]))
    assert payload["subject"][0]["digest"]["assayAnswer"] == signed.receipt.id
    for changed in (
        data + b"\n",
        data[:-1],
        b" " + data,
        data.replace(b'":"', b'": "', 1),
        b"",
        b"{}",
        b"[" * 99999,
    ):
        with pytest.raises(InvalidEncoding):
            Signed.from_bytes(changed)


def changed_payload(signed: Signed, change: Any) -> bytes:
    whole = json.loads(signed.to_bytes())
    payload = json.loads(base64.b64decode(whole["payload"]))
    change(payload["predicate"])
    whole["payload"] = base64.b64encode(
        json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    ).decode()
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode() + b"\n"


@pytest.mark.parametrize(
    "name", ["tokens", "prompt", "logprobs", "steps", "seed", "finish", "server", "signature"]
)
def test_whatever_a_stranger_changes_in_a_file_is_found(signed: Signed, name: str) -> None:
    stranger = Account.from_key(b"\x09" * 32).address

    def change(predicate: dict[str, Any]) -> None:
        if name in ("tokens", "prompt", "logprobs"):
            predicate[name][0] += 1
        elif name == "steps":
            predicate[name].pop()
        elif name == "signature":
            predicate[name] = "00" * 65
        else:
            predicate["receipt"][name] = {"seed": 12, "finish": "stop", "server": stranger}[name]

    with pytest.raises(InvalidEncoding):
        Signed.from_bytes(changed_payload(signed, change))


def test_tokens_are_chosen_as_they_are_named() -> None:
    assert chosen("all", 4, None) == [1, 2, 3, 4]
    assert chosen("3,1-2,2", 4, None) == [1, 2, 3]
    assert chosen("sample:2", 9, 5) == chosen("sample:2", 9, 5)
    assert chosen("sample:99", 4, None) == [1, 2, 3, 4]
    for wrong in ("", "0", "5", "3-2", "x", "1-", "-1", "sample:", "sample:0", "sample:x", "²"):
        with pytest.raises(InvalidInput):
            chosen(wrong, 4, None)


# ---------------------------------------------------------------------------------------------------- commands


def test_the_commands_show_and_verify(
    assay: Assay, signed: Signed, folder: Path, other: Model, tmp_path: Path
) -> None:
    right, wrong = tmp_path / "right.json", tmp_path / "wrong.json"
    right.write_bytes(signed.to_bytes())
    wrong.write_bytes(lied(signed, with_token(signed.lists, 5, 9)).to_bytes())
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"model": "tiny", "messages": MESSAGES}))
    code, told, _ = assay("receipt", "show", right)
    assert code == 0
    assert signed.receipt.id in told
    assert "does not prove: that the answer is true" in told
    code, told, _ = assay("receipt", "verify", right, "--model", folder, "--request", request)
    assert (code, "MATCH; 12 of 12 tokens" in told) == (0, True)
    code, told, _ = assay("receipt", "verify", right, wrong, "--model", folder, "--tokens", "4-6")
    assert (code, "DIFFERS, token 5" in told, "MATCH; 3 of 12" in told) == (1, True, True)
    huge = tmp_path / "huge.json"
    huge.write_bytes(lied(signed, None, places=1 << 47).to_bytes())
    code, told, _ = assay("receipt", "verify", huge, right, "--model", folder)
    assert (code, "UNCHECKED, it is about another model: 140737488355328 places" in told) == (4, True)
    elsewhere = tiny.write(tmp_path / "elsewhere", seed=5)
    code, told, _ = assay("receipt", "verify", right, "--model", elsewhere)
    assert (code, "UNCHECKED, it is about another model" in told) == (4, True)
    code, _, said = assay("receipt", "verify", right, "--model", folder, "--signer", "0x" + "1" * 40)
    assert (code != 0, "is signed by" in said) == (True, True)
    code, _, said = assay("receipt", "show", request)
    assert (code != 0, "no receipt" in said) == (True, True)
