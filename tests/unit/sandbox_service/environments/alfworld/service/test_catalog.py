"""The games of a folder that are played: those that the official environment plays."""

import json
from pathlib import Path

import pytest

from sandbox_service.config import AlfworldConfig
from sandbox_service.environments.alfworld.service.catalog import AlfworldCatalog
from sandbox_service.environments.base import Provisions
from sandbox_service.errors import ServiceError

MUG = "pick_and_place_simple-Mug-None-Desk-308/trial_1"


def write(folder: Path, split: str, name: str, **game) -> None:
    path = folder / "json_2.1.1" / split / name / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"pddl_problem": "x" * 40_000} | game))


def catalog(folder: Path) -> AlfworldCatalog:
    return AlfworldCatalog(
        AlfworldConfig(max_steps=7), Provisions(folder / "none", "d", operator_data=folder)
    )


def test_games_are_named_after_their_folders_and_split_as_they_lie(tmp_path):
    write(tmp_path, "train", MUG, solvable=True, walkthrough=["look"])
    write(tmp_path, "valid_unseen", "look_at_obj_in_light-Book-None-DeskLamp-1/trial_2", solvable=True)
    made = catalog(tmp_path)
    assert {split.name: split.size for split in made.describe().splits} == {"train": 1, "valid_unseen": 1}
    assert made.task_ids("train") == (MUG,)
    payload = made.payload(MUG)
    assert payload.task["category"] == "pick_and_place_simple"
    assert payload.task["game"] == f"json_2.1.1/train/{MUG}/game.tw-pddl"
    assert payload.max_steps == 7


def test_the_walkthrough_of_a_game_is_its_reference_and_stays_with_the_service(tmp_path):
    write(tmp_path, "train", MUG, solvable=True, walkthrough=["go to desk 1"])
    made = catalog(tmp_path)
    assert [message["content"] for message in made.reference(MUG)] == ["go to desk 1"]
    assert "walkthrough" not in made.payload(MUG).task


def test_games_that_cannot_be_solved_or_that_slice_or_move_are_left_out(tmp_path):
    write(tmp_path, "train", MUG, solvable=True)
    write(tmp_path, "train", "pick_and_place_simple-Pen-None-Desk-1/trial_1", solvable=False)
    write(tmp_path, "train", "pick_and_place_simple-AppleSliced-None-Desk-1/trial_1", solvable=True)
    write(tmp_path, "train", "pick_and_place_with_movable_recep-Pen-Mug-Desk-1/trial_1", solvable=True)
    write(tmp_path, "train", "pick_and_place_simple-Pen-None-Shelf-1/trial_1")
    assert catalog(tmp_path).task_ids("train") == (MUG,)


def test_a_flag_at_the_beginning_of_a_long_file_is_found(tmp_path):
    path = tmp_path / "json_2.1.1" / "train" / MUG / "game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"solvable": True, "pddl_problem": "x" * 100_000}))
    assert catalog(tmp_path).task_ids("train") == (MUG,)


def test_a_folder_without_games_is_told_to_the_operator(tmp_path):
    with pytest.raises(ServiceError, match="there is no game") as refused:
        catalog(tmp_path).task_ids("train")
    assert refused.value.code == "task_invalid"
