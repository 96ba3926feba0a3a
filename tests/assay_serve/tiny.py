"""A small model with a tokenizer of bytes, in a folder, and a service of it. Nothing is downloaded."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import torch
import transformers as hf
import uvicorn
from eth_account import Account
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from assay_serve.engine import Capacity, Engine
from assay_serve.model import Model
from assay_serve.requests import Limits
from assay_serve.store import Receipts
from assay_serve.web import Service, create_app
from trainer_node.network.bounded_http import BoundedHttp

PLACES = 128
HTTP = httpx.Client(timeout=600, limits=httpx.Limits(max_keepalive_connections=0))
"""A client that waits as long as a busy machine takes, and opens a connection for each request."""
SPECIAL = ["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<|{{ m.role }}|>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
ACCOUNT = Account.from_key(b"\x07" * 32)


def tokenizer(template: str | None = TEMPLATE) -> Any:
    """Return a tokenizer of one token for each byte, so that it has every text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: k for k, token in enumerate([*SPECIAL, *alphabet])}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    fast = hf.PreTrainedTokenizerFast(
        tokenizer_object=made,
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=SPECIAL[2:],
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = template
    return fast


def module(seed: int = 4) -> Any:
    """Return a Llama of two layers whose scores are far apart."""
    config = hf.LlamaConfig(
        vocab_size=len(SPECIAL) + 256,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=PLACES,
        bos_token_id=0,
        eos_token_id=1,
    )
    made = hf.LlamaForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return made.eval()


def write(folder: Path, seed: int = 4, template: str | None = TEMPLATE) -> Path:
    """Write the model's folder."""
    module(seed).save_pretrained(folder)
    tokenizer(template).save_pretrained(folder)
    return folder


def wait_for(what: Callable[[], bool]) -> None:
    """Wait until something is so; a test that hangs ends after ten minutes."""
    for _ in range(60_000):
        if what():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not come about")


@contextlib.contextmanager
def serving(service: Service) -> Iterator[str]:
    """Serve in a thread, on this machine only; give the address."""
    config = uvicorn.Config(
        create_app(service), log_level="error", lifespan="off", http=BoundedHttp, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(30)


@contextlib.contextmanager
def service(
    model: Model,
    capacity: Capacity | None = None,
    limits: Limits | None = None,
    keys: frozenset[bytes] = frozenset(),
) -> Iterator[tuple[Service, str]]:
    """Run an engine and a server; give both."""
    with Engine(model, capacity or Capacity(rows=4, chunk=8)) as engine:
        made = Service(engine, Receipts(model, ACCOUNT), limits or Limits(), keys)
        with serving(made) as address:
            yield made, address
