"""Requests of vLLM's engine in a thread: what no caller waits for is not sampled to its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.harness.waiting import until, wait_until
from trainer.engines.backend import SamplingRequest
from trainer.engines.generation import Sampling
from trainer.engines.options import EngineOptions

if TYPE_CHECKING:
    from trainer.engines.in_process_backend import InProcessBackend

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch and others, as vLLM is imported
]
pytest.importorskip("vllm", reason="vLLM is not installed")


class FakeModel:
    """Takes vLLM's place: takes requests when the test lets it, and samples nothing."""

    model_config = SimpleNamespace(max_model_len=64)

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()
        self.added: list[str] = []
        self.aborted: list[str] = []

    def has_unfinished_requests(self) -> bool:
        return len(self.added) > len(self.aborted)

    def add_request(self, name: str, prompt: object, params: object, lora_request: object) -> str:
        self.asked.set()
        assert self.go.wait(60)
        self.added.append(f"{name}-internal")
        return self.added[-1]

    def abort_request(self, names: list[str], internal: bool) -> None:
        assert internal
        self.aborted += names

    def step(self) -> list[object]:
        return []


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def backend(model: FakeModel) -> Iterator[InProcessBackend]:
    from trainer.engines.in_process_backend import InProcessBackend

    options = EngineOptions(Path("no-model"), "cpu", "float32", in_process=True, transfer=None)
    opened = InProcessBackend(options, lambda _: model)
    yield opened
    model.go.set()
    opened.close()


async def cancelled(asking: asyncio.Task[object]) -> None:
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def sampled(backend: InProcessBackend) -> asyncio.Task[object]:
    return asyncio.create_task(backend.generate(SamplingRequest((1, 2), 4, Sampling(), 0, None)))


async def test_a_request_that_is_cancelled_while_it_is_added_is_forgotten(
    model: FakeModel, backend: InProcessBackend
) -> None:
    asking = sampled(backend)
    await until(model.asked.is_set)
    await cancelled(asking)
    model.go.set()
    await backend.check_health()
    assert model.added == model.aborted == ["0-internal"]


async def test_a_request_that_is_cancelled_before_it_is_known_to_be_added_is_forgotten(
    model: FakeModel, backend: InProcessBackend
) -> None:
    asking = sampled(backend)
    await until(model.asked.is_set)
    model.go.set()
    wait_until(lambda: model.added)  # without a turn of the event loop
    await cancelled(asking)
    await backend.check_health()
    assert model.added == model.aborted == ["0-internal"]


async def test_a_request_that_is_cancelled_before_it_is_added_is_not_added(
    model: FakeModel, backend: InProcessBackend
) -> None:
    first, second = sampled(backend), sampled(backend)
    await until(model.asked.is_set)
    await cancelled(second)
    model.go.set()
    await until(lambda: model.added)
    await cancelled(first)
    await backend.check_health()
    assert model.added == model.aborted == ["0-internal"]
