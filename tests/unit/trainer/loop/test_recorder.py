"""A checkpoint is written beside the next step, and the wait for it has an end."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trainer.config import RunConfig
from trainer.errors import Stalled
from trainer.loop.checkpoints import Position
from trainer.loop.plan import plan_of
from trainer.loop.recorder import RunRecorder

if TYPE_CHECKING:
    from collections.abc import Callable


class Saver:
    def __init__(self) -> None:
        self.done: Future[object] = Future()

    def save(self, folder: Path) -> Future[object]:
        folder.mkdir(parents=True)
        return self.done


class Registry:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.registered: list[Path] = []

    def newest(self) -> Path | None:
        return None

    def folder_of(self, step: int) -> Path:
        return self.root / f"step-{step}"

    def wait_for_ranks(self) -> None:
        """There is one."""

    def register(self, step: int, folder: Path) -> None:
        self.registered.append(folder)


class Batches:
    def checkpoint_saved(self, step: int) -> None:
        """Kept elsewhere."""


@pytest.fixture
def saver() -> Saver:
    return Saver()


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "checkpoints")


@pytest.fixture
def recorder(saver: Saver, registry: Registry, tmp_path: Path) -> Callable[..., RunRecorder]:
    def make(**further: float) -> RunRecorder:
        plan = plan_of(RunConfig(steps=6))
        return RunRecorder(Batches(), saver, plan, 0, None, tmp_path, registry, **further)

    return make


def test_a_checkpoint_is_registered_when_it_is_complete(
    recorder: Callable[..., RunRecorder], saver: Saver, registry: Registry
) -> None:
    recording = recorder()
    recording.checkpoint(4, 0)
    assert registry.registered == []
    saver.done.set_result(None)
    recording.settle()
    assert registry.registered == [registry.folder_of(4)]
    assert Position.from_checkpoint(registry.folder_of(4)) == Position(4, 0)


def test_a_checkpoint_that_is_not_written_is_a_stall_and_not_registered(
    recorder: Callable[..., RunRecorder], registry: Registry
) -> None:
    recording = recorder(write_s=0.01)
    recording.checkpoint(4, 0)
    with pytest.raises(Stalled, match=r"step-4 was not written within 0\.01 s"):
        recording.settle()
    assert registry.registered == []


def test_an_error_of_the_writer_comes_through(recorder: Callable[..., RunRecorder], saver: Saver) -> None:
    recording = recorder()
    recording.checkpoint(4, 0)
    saver.done.set_exception(OSError("the disk is full"))
    with pytest.raises(OSError, match="the disk is full"):
        recording.settle()
