"""Fixtures of the service's tests. NOTE: tests run in parallel, so each has one thread for kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from repops.host import cpu

from assay_serve.model import Model
from assay_serve.web import Service

from . import tiny


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = cpu.get_num_threads()
    cpu.set_num_threads(1)
    yield
    cpu.set_num_threads(before)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(tmp_path_factory.mktemp("served") / "tiny")


@pytest.fixture(scope="session")
def model(folder: Path) -> Model:
    return Model.load(folder)


@pytest.fixture(scope="session")
def running(model: Model) -> Iterator[tuple[Service, str]]:
    with tiny.service(model) as found:
        yield found


@pytest.fixture
def client(running: tuple[Service, str]) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{running[1]}/v1", api_key="none")
