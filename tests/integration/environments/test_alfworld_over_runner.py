"""ALFWorld in a real runner: planned ways win, copies go their own ways, answers are the same everywhere."""

import json
from dataclasses import replace

import pytest

from sandbox_service.config import AlfworldConfig
from sandbox_service.environments.alfworld.service.catalog import AlfworldCatalog
from sandbox_service.environments.provisions import find
from sandbox_service.environments.registry import SETUP_COMMAND
from tests.harness.game_box import GameEpisode, RefusedError, game_box, reference
from tests.harness.runner_box import uid_drop_missing

APPLE = "pick_heat_then_place_in_recep-own/hot-apple-on-table"


@pytest.fixture(scope="module")
def catalog():
    found = find("alfworld")
    if found is None:
        pytest.skip(f"alfworld is not set up; run {SETUP_COMMAND} alfworld")
    # Our own games, not what the operator of this machine may have noted for it.
    return AlfworldCatalog(AlfworldConfig(), replace(found, operator_data=None))


@pytest.fixture(scope="module")
def box(catalog):
    with game_box(catalog) as made:
        yield made


def test_the_planned_way_of_every_game_scores_one(box, catalog):
    tasks = [task_id for split in catalog.describe().splits for task_id in catalog.task_ids(split.name)]
    assert len(tasks) == 6
    for task_id in tasks:
        episode = GameEpisode.create(box, catalog, task_id)
        *before, last = reference(catalog, task_id)
        assert episode.play(before) == 0.0
        assert episode.verdict()["score"] == 0.0
        assert episode.play([last]) == 1.0
        assert episode.said["terminated"]
        verdict = episode.verdict(sparse=True)
        assert (verdict["score"], verdict["success"]) == (1.0, True), task_id
        episode.release()


def test_a_cold_apple_on_the_table_is_not_enough(box, catalog):
    episode = GameEpisode.create(box, catalog, APPLE)
    way = [action for action in reference(catalog, APPLE) if not action.startswith("heat")]
    episode.play(way)
    assert "apple" in episode.act("examine diningtable 1")
    assert not episode.verdict()["success"]


def test_the_opening_tells_room_and_chore_and_what_can_be_done(box, catalog):
    episode = GameEpisode.create(box, catalog, APPLE)
    text = episode.said["observation"]["messages"][-1]["content"]
    assert text.startswith("You are in the middle of a room.")
    assert episode.info["task_description"] in text
    assert episode.info["category"] == "pick_heat_then_place_in_recep"
    assert "go to fridge 1" in episode.info["available_actions"]


def test_what_cannot_be_done_changes_nothing(box, catalog):
    episode = GameEpisode.create(box, catalog, APPLE)
    for action in ("take apple 1 from fridge 1", "dance", "\ud800 \x00 \u4e2d\u6587", "x" * 1999):
        assert episode.act(action) == "Nothing happens."
    assert "You arrive at fridge 1" in episode.act("Go  to FRIDGE 1")


def test_a_copy_goes_its_own_way(box, catalog):
    way = reference(catalog, APPLE)
    source = GameEpisode.create(box, catalog, APPLE)
    source.play(way[:2])
    copy = source.fork()
    copy.play(way[2:])
    assert copy.verdict()["success"]
    assert not source.verdict()["success"]
    source.play(way[2:])
    assert source.verdict()["success"]


def test_boxes_say_the_same(catalog):
    def heard():
        with game_box(catalog) as box:
            episode = GameEpisode.create(box, catalog, APPLE)
            said = [episode.said]
            for action in ["look", "inventory", *reference(catalog, APPLE)]:
                episode.act(action)
                said.append(episode.said)
            return json.loads(json.dumps(said).replace(episode.name, ""))

    assert heard() == heard()


def test_there_are_no_parameters(box, catalog):
    with pytest.raises(RefusedError, match="this environment takes no parameters") as refused:
        GameEpisode.create(box, catalog, APPLE, world_type="Text")
    assert refused.value.code == "invalid_request"


@pytest.mark.skipif(uid_drop_missing() is not None, reason=str(uid_drop_missing()))
def test_it_plays_where_it_can_write_nothing_of_its_own(catalog):
    with game_box(catalog, drop=True, env_group=9999) as box:
        episode = GameEpisode.create(box, catalog, APPLE)
        episode.play(reference(catalog, APPLE))
        assert episode.verdict()["success"]
