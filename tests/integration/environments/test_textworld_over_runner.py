"""TextWorld in a real runner: walkthroughs win, copies go their own ways, and files are out of reach."""

import json

import pytest

from tests.harness.game_box import GameEpisode, RefusedError, catalog_of, game_box, reference
from tests.harness.runner_box import uid_drop_missing


@pytest.fixture(scope="module")
def catalog():
    return catalog_of("textworld")


@pytest.fixture(scope="module")
def box(catalog):
    with game_box(catalog) as made:
        yield made


def test_the_walkthrough_of_every_game_scores_one(box, catalog):
    for task_id in catalog.task_ids("all"):
        episode = GameEpisode.create(box, catalog, task_id)
        assert episode.play(reference(catalog, task_id)) == pytest.approx(1.0)
        assert episode.said["terminated"]
        verdict = episode.verdict()
        assert (verdict["score"], verdict["success"]) == (1.0, True), task_id
        episode.release()


@pytest.mark.parametrize("between", [". ", " then "])
def test_a_line_of_commands_earns_the_points_of_them_all(box, catalog, between):
    for task_id in catalog.task_ids("all"):
        *first, before, last = reference(catalog, task_id)
        episode = GameEpisode.create(box, catalog, task_id)
        earned = episode.play([*first, f"{before}{between}{last}{between}look"])
        assert earned == pytest.approx(1.0), task_id
        assert episode.said["terminated"]
        assert episode.verdict()["score"] == 1.0
        episode.release()


def test_a_line_of_commands_is_answered_as_they_are_one_by_one(box, catalog):
    actions = reference(catalog, "simple-1")[:4]
    one, many = (GameEpisode.create(box, catalog, "simple-1", valid_actions=True) for _ in range(2))
    answers = [one.act(action) for action in actions]
    assert many.act(". ".join(actions)) == "\n\n".join(answers)
    assert many.info == one.info


def test_commas_end_no_command_and_a_line_of_too_many_is_not_played(box, catalog):
    episode = GameEpisode.create(box, catalog, "cooking-1")
    assert "I only understood you" in episode.act("inventory, take milk from fridge")
    assert "You take the cookbook" in episode.act("take yellow apple, cookbook")
    assert "at most 8 commands" in episode.act("take milk from fridge" + ". look" * 8)
    assert "milk" not in episode.act("inventory")


def test_half_a_walkthrough_scores_in_between_where_the_game_has_points_for_it(box, catalog):
    episode = GameEpisode.create(box, catalog, "simple-1")
    episode.play(reference(catalog, "simple-1")[:4])
    assert 0 < episode.verdict()["score"] < 1
    assert episode.verdict(sparse=True) == {**episode.verdict(), "score": 0.0}


def test_a_spoilt_meal_ends_the_game_in_failure(box, catalog):
    episode = GameEpisode.create(box, catalog, "cooking-1")
    episode.play(["take milk from fridge", "drink milk"])
    assert "You lost" in episode.said["observation"]["messages"][0]["content"]
    assert episode.said["terminated"]
    assert not episode.verdict()["success"]


def test_two_instances_of_one_game_share_no_state(box, catalog):
    one, other = (GameEpisode.create(box, catalog, "simple-1") for _ in range(2))
    one.play(reference(catalog, "simple-1")[:2])
    assert "old key" in one.act("inventory")
    assert "nothing" in other.act("inventory")


def test_a_copy_goes_its_own_way(box, catalog):
    actions = reference(catalog, "simple-1")
    source = GameEpisode.create(box, catalog, "simple-1")
    source.play(actions[:4])
    copy = source.fork()
    copy.play(actions[4:])
    assert copy.verdict()["score"] == 1.0
    assert source.verdict()["score"] < 1.0
    source.play(actions[4:])
    assert source.verdict()["score"] == 1.0


def test_the_same_actions_get_the_same_answers(box, catalog):
    def heard():
        episode = GameEpisode.create(box, catalog, "cooking-3", valid_actions=True)
        said = [episode.said]
        for action in [*reference(catalog, "cooking-3")[:8], "look", "examine me", "dance"]:
            episode.act(action)
            said.append(episode.said)
        return json.loads(json.dumps(said).replace(episode.name, ""))

    assert heard() == heard()


def test_the_opening_tells_the_goal_and_the_room_and_no_frame(box, catalog):
    episode = GameEpisode.create(box, catalog, "cooking-1", valid_actions=True)
    text = episode.said["observation"]["messages"][-1]["content"]
    assert text.startswith(episode.info["task_description"])
    assert "-= Kitchen =-" in text
    assert "$$" not in text
    assert not text.endswith("0/1")
    assert "take milk from fridge" in episode.info["available_actions"]


@pytest.mark.parametrize(
    "action",
    [
        "save",
        "RESTORE",
        "look then quit",
        "look. script",
        "restart",
        "transcripts",
        "tw-trace-actions",
        "oops save",
    ],
)
def test_commands_to_the_machine_are_answered_and_not_passed_on(box, catalog, action):
    episode = GameEpisode.create(box, catalog, "simple-1")
    assert "is not part of the game" in episode.act(action)
    assert "Bedroom" in episode.act("look")


def test_what_the_game_does_not_know_is_its_answer(box, catalog):
    episode = GameEpisode.create(box, catalog, "simple-1")
    assert "not a verb I recognise" in episode.act("\ud800 \u4e2d\u6587 \x00 fly")
    assert "recognise" in episode.act("\\x" + "y" * 1900)
    assert "needs a text" in episode.act({"role": "assistant", "content": " "})


def test_a_wrong_parameter_is_refused(box, catalog):
    with pytest.raises(RefusedError, match="there is: valid_actions") as refused:
        GameEpisode.create(box, catalog, "simple-1", level=3)
    assert refused.value.code == "invalid_request"


@pytest.mark.skipif(uid_drop_missing() is not None, reason=str(uid_drop_missing()))
def test_it_plays_where_it_can_write_nothing_of_its_own(catalog):
    with game_box(catalog, drop=True, env_group=9999) as box:
        episode = GameEpisode.create(box, catalog, "coins-1")
        episode.play(reference(catalog, "coins-1"))
        assert episode.verdict()["score"] == 1.0
