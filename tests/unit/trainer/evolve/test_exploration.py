import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.evolution import episode
from trainer.batches.payloads import group_to_json
from trainer.errors import CheckpointError
from trainer.evolve.exploration import read_explored, summarise_explored
from trainer.types import FailureNote, GroupSpec, TaskRef, TrajectoryGroup

SPEC = GroupSpec(0, TaskRef("code", "train", "t"), 0, 4, 3)


def test_episodes_of_an_exploration_are_named_by_their_iteration(tmp_path: Path) -> None:
    file = tmp_path / "groups.jsonl"
    group = TrajectoryGroup(SPEC, (episode("0.0"), episode("0.1")))
    file.write_bytes(group_to_json(group) + b"\n")
    assert [each.id for each in read_explored(file, 3)] == ["3/0.0", "3/0.1"]


@pytest.mark.parametrize("content", [None, b"{}\n", b"\xff\n"])
def test_a_file_that_holds_no_groups_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "groups.jsonl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"groups\.jsonl does not hold the episodes"):
        read_explored(file, 1)


def test_an_episode_that_failed_counts_neither_as_solved_nor_as_unsolved() -> None:
    failed = replace(episode(score=0.0), score=None, failure=FailureNote("sandbox", "lost", "", "step"))
    explored = summarise_explored(Path("f"), [episode(), episode(score=0.0), failed], ())
    assert (explored.episodes, explored.solved, explored.failures) == (2, 1, 1)
    assert explored.success_rate == 0.5


def test_success_is_told_by_temperature_where_there_are_several() -> None:
    episodes = [episode(f"1/0.{member}", score=float(member % 2)) for member in range(4)]
    assert summarise_explored(Path("f"), episodes, (0.5, 1.2)).by_temperature == {"0.5": 0.0, "1.2": 1.0}
    assert summarise_explored(Path("f"), episodes, (1.0,)).by_temperature == {}


def test_failures_that_a_reflection_mended_are_counted_once_each(tmp_path: Path) -> None:
    rows = [("0.0", True), ("0.1", True), ("0.1", False), ("0.2", False)]  # 0.1 was played again
    lines = [json.dumps({"id": name, "mended": mended}) + "\n" for name, mended in rows]
    lines += [json.dumps({"id": "0.3", "skipped": "the engine failed: gone"}) + "\n", '{"id": "0.4", "men']
    (tmp_path / "reflections.jsonl").write_text("".join(lines))
    explored = summarise_explored(tmp_path / "trajectories.jsonl", [episode()], ())
    assert (explored.reflected, explored.mended) == (3, 1)
    assert explored.unreflected == {"the engine failed": 1}
