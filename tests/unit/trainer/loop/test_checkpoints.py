"""A worker group goes on from the newest checkpoint, registered or not."""

from pathlib import Path

import pytest

from trainer.config import RunConfig
from trainer.errors import CheckpointError
from trainer.loop.checkpoints import Position, restore_newest
from trainer.loop.plan import plan_of
from trainer.loop.progress_note import write_progress

PLAN = plan_of(RunConfig(steps=6))


class Registry:
    """Registered checkpoints by step, in memory; their folders as Ray Train has them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.registered: dict[int, Path] = {}

    def newest(self) -> Path | None:
        return self.registered[max(self.registered)] if self.registered else None

    def folder_of(self, step: int) -> Path:
        return self.root / "checkpoints" / f"step-{step}"

    def register(self, step: int, folder: Path) -> None:
        self.registered[step] = folder

    def write(self, step: int, *, complete: bool = True) -> Path:
        folder = self.folder_of(step)
        folder.mkdir(parents=True)
        if complete:
            Position(step, 0).write(folder)
        return folder


class Learner:
    def __init__(self) -> None:
        self.loaded: list[Path] = []

    def load_checkpoint(self, folder: Path) -> None:
        self.loaded.append(folder)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


def test_a_position_is_replaced_at_once(tmp_path: Path) -> None:
    """A file that is written in place is empty for a moment, and after a power failure for good."""
    Position(2, 0).write(tmp_path)
    (file,) = tmp_path.iterdir()
    before = tmp_path / "before"
    before.hardlink_to(file)
    Position(4, 0).write(tmp_path)
    assert '"step": 2' in before.read_text()
    assert Position.from_checkpoint(tmp_path) == Position(4, 0)


def test_a_new_run_has_no_position(registry: Registry, tmp_path: Path) -> None:
    learner = Learner()
    assert restore_newest(learner, PLAN, tmp_path, registry) is None
    assert learner.loaded == []


def test_the_newest_registered_checkpoint_is_loaded(registry: Registry, tmp_path: Path) -> None:
    for step in (2, 4):
        registry.register(step, registry.write(step))
    learner = Learner()
    assert restore_newest(learner, PLAN, tmp_path, registry) == Position(4, 0)
    assert learner.loaded == [registry.folder_of(4)]


def test_the_first_checkpoint_is_found_though_its_report_was_lost_with_the_workers(
    registry: Registry, tmp_path: Path
) -> None:
    registry.write(2)
    write_progress(tmp_path, 2, "rl")
    learner = Learner()
    assert restore_newest(learner, PLAN, tmp_path, registry) == Position(2, 0)
    assert registry.registered == {2: registry.folder_of(2)}


@pytest.mark.parametrize("left", ["nothing", "a part"])
def test_a_run_whose_checkpoint_is_gone_or_incomplete_does_not_begin_again(
    registry: Registry, tmp_path: Path, left: str
) -> None:
    write_progress(tmp_path, 2, "rl")
    if left == "a part":
        registry.write(2, complete=False)
    with pytest.raises(CheckpointError, match="the checkpoint of stage rl after step 2 is missing"):
        restore_newest(Learner(), PLAN, tmp_path, registry)
    assert registry.registered == {}
