"""Decoded programs write the tokens that `transformers` writes, and are committed to and disputed like training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import repops
import torch
from torch import nn

from assay_capture.capture import CaptureError
from assay_capture.inference import Decode
from referee_py.execute import Metrics, NodeHook, Run, Site, State, Value
from referee_py.program import Kind
from trainer_node.local.bundle import Bundle

VOCABULARY, LENGTH = 50, 14
CPU = repops.backend("cpu")
PROMPTS = [[3, 7, 9], [1, 2, 3, 4, 5], [11]]


def seeded(module: nn.Module) -> nn.Module:
    """Give weights so large that the best token is never in doubt."""
    generator = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return module.eval()


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=LENGTH,
        n_embd=32,
        n_layer=2,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
    )
    return seeded(GPT2LMHeadModel(config))


def llama() -> nn.Module:
    """Build a Llama with fewer heads of keys and values than of queries."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=LENGTH,
        bos_token_id=None,
        eos_token_id=None,
    )
    return seeded(LlamaForCausalLM(config))


def of_transformers(family: str, **more: Any) -> nn.Module:
    """Build a small model of another family."""
    import transformers

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    none = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    options = {"vocab_size": VOCABULARY, "max_position_embeddings": LENGTH, **sizes, **none, **more}
    config = getattr(transformers, f"{family}Config")(**options)
    return seeded(getattr(transformers, f"{family}ForCausalLM")(config))


MODELS = {
    "gpt2": gpt2,
    "llama": llama,
    "qwen3": lambda: of_transformers("Qwen3", num_key_value_heads=2, head_dim=16),
    "gpt-neox": lambda: of_transformers("GPTNeoX"),
}


def greedy(module: nn.Module, prompt: list[int], stop: int | None = None) -> list[int]:
    """Decode one row as `transformers` does."""
    tokens = list(prompt)
    while len(tokens) < LENGTH:
        with torch.no_grad():
            tokens.append(int(module(torch.tensor([tokens])).logits[0, -1].argmax()))
        if tokens[-1] == stop:
            break
    return tokens


def run_of(bundle: Bundle, hook: NodeHook | None = None) -> Run:
    return Run.of(bundle, CPU, hook=hook)


def final(bundle: Bundle) -> dict[str, np.ndarray[Any, Any]]:
    run = run_of(bundle)
    return dict(
        zip(bundle.labels["slots"], run.advance(run.initial(), bundle.terms.steps).arrays, strict=True)
    )


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_decoding_writes_what_transformers_writes(name: str, cache: bool) -> None:
    module: Any = MODELS[name]()
    found = final(Decode(name, module, PROMPTS, LENGTH, cache=cache).build())
    expected = [greedy(module, prompt) for prompt in PROMPTS]
    assert found["tokens"].tolist() == expected
    assert found["length"].tolist() == [LENGTH] * 3
    assert len({token for row in expected for token in row}) > 8, "the model says something"
    alone = module.generate(torch.tensor([PROMPTS[0]]), max_length=LENGTH, do_sample=False, pad_token_id=0)
    assert found["tokens"][0].tolist() == alone[0].tolist()


@pytest.mark.parametrize("cache", [False, True])
def test_a_row_ends_with_the_stop_token(cache: bool) -> None:
    module = gpt2()
    plain = [greedy(module, prompt) for prompt in PROMPTS]
    stop = plain[0][6]
    found = final(Decode("stop", module, PROMPTS, LENGTH, stop=stop, cache=cache).build())
    expected = [greedy(module, prompt, stop) for prompt in PROMPTS]
    assert len(expected[0]) <= 7
    for row, length, done, wanted in zip(
        found["tokens"], found["length"], found["done"], expected, strict=True
    ):
        assert row[:length].tolist() == wanted
        assert not row[length:].any(), "nothing is written behind the stop token"
        assert done == (wanted[-1] == stop and len(wanted) > 1)


def test_a_stop_token_in_the_prompt_ends_nothing() -> None:
    module = gpt2()
    found = final(Decode("stop", module, [[5, 5, 5]], LENGTH, stop=5).build())
    assert found["length"][0] > 3


def test_the_cache_holds_every_place_that_was_read() -> None:
    bundle = Decode("llama", llama(), PROMPTS, LENGTH, cache=True).build()
    found = final(bundle)
    keys = found["key.1"]
    assert keys.shape == (3, 2, LENGTH, 8)
    assert (np.abs(keys[:, :, :-1]).max(axis=(1, 3)) > 0).all()
    assert not keys[:, :, -1].any(), "the last token is written, and read by nobody"
    assert bundle.terms.steps == LENGTH - 1


def test_both_ways_decode_the_same_with_different_programs() -> None:
    whole, cached = (Decode("gpt2", gpt2(), PROMPTS, LENGTH, cache=cache).build() for cache in (False, True))
    assert whole.terms.structure_root != cached.terms.structure_root
    np.testing.assert_array_equal(final(whole)["tokens"], final(cached)["tokens"])
    names = {name for name in whole.labels["constants"] if name.startswith("weight.")}
    assert names == {name for name in cached.labels["constants"] if name.startswith("weight.")}
    assert "weight.transformer.wte.weight" in names


def test_the_model_can_be_any_module_over_tokens() -> None:
    following = torch.eye(20)[
        (torch.arange(20) * 3 + 1) % 20
    ]  # the next token is 3 times the last one, plus 1
    bigrams = nn.Embedding.from_pretrained(following)
    assert final(Decode("bigrams", bigrams, [[1], [2]], 5).build())["tokens"].tolist() == [
        [1, 4, 13, 0, 1],
        [2, 7, 2, 7, 2],
    ]


# -------------------------------------------------------------------------------------------- claims and disputes


@pytest.mark.parametrize("cache", [False, True])
def test_a_run_is_committed_to_and_committed_to_again(cache: bool) -> None:
    bundle = Decode("gpt2", gpt2(), PROMPTS, LENGTH, cache=cache, strides=(4, 2, 1)).build()
    one, two = run_of(bundle).commit_run(), run_of(bundle).commit_run()
    assert one.root == two.root
    assert len(one.checkpoints) == -(-bundle.terms.steps // 4)
    fine = run_of(bundle).commit_interval(run_of(bundle).initial(), 4, 1)
    assert fine.checkpoints[-1] == one.checkpoints[0], "a finer tree ends in the leaf that it refines"


class Lie(NodeHook):
    """Makes one element of one output in one step one ulp, or one, larger."""

    def __init__(self, step: int, node: int) -> None:
        self.step, self.node = step, node

    def outputs(self, at: Site, outputs: list[Value]) -> list[Value]:
        if (at.step, at.node) != (self.step, self.node):
            return outputs
        wrong = outputs[0].array.copy()
        first = (0,) * wrong.ndim
        more = (
            np.nextafter(wrong[first], np.float32(np.inf)) if wrong.dtype == np.float32 else wrong[first] + 1
        )
        wrong[first] = more
        return [Value(wrong), *outputs[1:]]


def test_a_lie_in_one_step_has_another_root_and_is_found_in_that_step() -> None:
    bundle = Decode("gpt2", gpt2(), PROMPTS, LENGTH, strides=(1,)).build()
    product = next(k for k, node in enumerate(bundle.program.nodes) if node.name in ("mm", "bmm"))
    honest = run_of(bundle).commit_run()
    liar = run_of(bundle, Lie(5, product)).commit_run()
    assert honest.root != liar.root
    differs = [k for k, (a, b) in enumerate(zip(honest.checkpoints, liar.checkpoints, strict=True)) if a != b]
    assert differs[0] == 4, "the checkpoint of step 5 is the first that differs"


def test_a_wrong_token_is_found_in_the_step_that_wrote_it() -> None:
    """The lie that matters: another word. It stays in the state, so every later checkpoint differs too."""
    bundle = Decode("gpt2", gpt2(), PROMPTS, LENGTH, strides=(1,)).build()
    place = bundle.metrics["next"].node
    honest, liar = run_of(bundle).commit_run(), run_of(bundle, Lie(3, place)).commit_run()
    same = [a == b for a, b in zip(honest.checkpoints, liar.checkpoints, strict=True)]
    assert same == [True] * 2 + [False] * (len(same) - 2)
    run = run_of(bundle)
    before = run.advance(run.initial(), 2)
    states: dict[str, State] = {"honest": run.commit_step(before)[0]}
    states["liar"] = run_of(bundle, Lie(3, place)).commit_step(before)[0]
    slot = bundle.labels["slots"].index("tokens")
    wrong = states["liar"].arrays[slot] != states["honest"].arrays[slot]
    assert wrong.sum() == 1
    assert wrong[0, len(PROMPTS[0]) + 2]


def test_every_executor_decodes_to_the_same_root() -> None:
    module = gpt2()
    bundle = Decode("gpt2", module, [[3, 7], [1]], 4).build()
    roots = set()
    for name in ("cpu", "reference"):
        roots.add(Run.of(bundle, repops.backend(name)).commit_run().root)
    assert len(roots) == 1


def test_metrics_say_what_is_written() -> None:
    bundle = Decode("gpt2", gpt2(), PROMPTS, LENGTH).build()
    metrics = Metrics(bundle.metrics)
    run = run_of(bundle, metrics)
    run.advance(run.initial(), 1)
    assert metrics.latest["next"].tolist() == [greedy(gpt2(), prompt)[len(prompt)] for prompt in PROMPTS]


def test_weights_are_constants_and_only_the_text_is_state() -> None:
    bundle = Decode("gpt2", gpt2(), PROMPTS, LENGTH).build()
    assert bundle.labels["slots"] == ["tokens", "length", "done"]
    read = {o.index for node in bundle.program.nodes for o in node.inputs if o.kind == Kind.CONSTANT}
    assert len(read) == len(bundle.constants)


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        ([], "prompts of no tokens"),
        ([[]], r"prompts of \[0\]"),
        ([[1] * LENGTH], "room"),
        ([[-1]], "below 0"),
    ],
)
def test_prompts_that_cannot_be_continued_are_refused(prompts: list[list[int]], message: str) -> None:
    with pytest.raises(CaptureError, match=message):
        Decode("gpt2", nn.Linear(1, 1), prompts, LENGTH).build()


def test_a_window_that_the_cache_would_not_keep_is_refused() -> None:
    """Without a cache the model's own mask hides places that are too far back."""
    module = of_transformers("Mistral", num_key_value_heads=2, sliding_window=4)
    found = final(Decode("mistral", module, [[1, 2]], LENGTH).build())
    assert found["tokens"][0].tolist() == greedy(module, [1, 2])
    with pytest.raises(
        CaptureError, match=r"looks at 4 places only \(sliding_window\), of 14; decode without"
    ):
        Decode("mistral", module, [[1, 2]], LENGTH, cache=True).build()


def test_a_model_with_a_cache_of_its_own_kind_is_refused() -> None:
    from transformers import BloomConfig, BloomForCausalLM

    module = BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=1, n_head=4))
    with pytest.raises(CaptureError, match="BloomForCausalLM cannot work on a cache of slots"):
        Decode("bloom", module, [[1, 2]], LENGTH, cache=True).build()


def test_a_module_that_gives_no_scores_is_refused() -> None:
    cases: list[tuple[Callable[[], nn.Module], bool, str]] = [
        (lambda: nn.Embedding(5, 4).requires_grad_(False), True, "decode without a cache"),
        (lambda: nn.Flatten(), False, "not scores"),
    ]
    for make, cache, message in cases:
        with pytest.raises(CaptureError, match=message):
            Decode("other", make(), [[1]], 4, cache=cache).build()
