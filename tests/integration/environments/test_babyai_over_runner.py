"""BabyAI's levels in a box: words, moves, references, scores, copies."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from sandbox_contract.messages import Message
from sandbox_service.config import BabyaiConfig
from sandbox_service.environments.babyai.service.catalog import BabyaiCatalog
from sandbox_service.environments.shared.service.game_catalog import GameCatalog
from tests.harness.game_box import GameEpisode, RefusedError, catalog_of, game_box, reference
from tests.harness.runner_box import RunnerBox

ROOT = Path(__file__).resolve().parents[3]
TASK = "OpenRedDoor-1"


def last(episode: GameEpisode) -> str:
    """The text of the last message."""
    text: str = episode.said["observation"]["messages"][-1]["content"]
    return text


def answers(episode: GameEpisode, actions: Sequence[str]) -> list[str]:
    return [episode.act(action) for action in actions]


@pytest.fixture(scope="module")
def catalog() -> GameCatalog:
    return catalog_of("babyai")


@pytest.fixture(scope="module")
def box(catalog: GameCatalog) -> Iterator[RunnerBox]:
    with game_box(catalog) as box:
        yield box


def test_forty_levels_have_thirty_seeds_each_in_agentgyms_order(catalog: GameCatalog) -> None:
    everything = catalog.task_ids("all")
    assert len(everything) == 1200
    levels = [task_id.rpartition("-")[0] for task_id in everything[:40]]
    assert len(set(levels)) == 40
    assert everything[40:80] == tuple(f"{level}-1" for level in levels)


def test_splits_share_no_seed_and_hold_solved_tasks_only(catalog: GameCatalog) -> None:
    seeds: set[str] = set()
    for split in ("train", "validation", "test"):
        ids = catalog.task_ids(split)
        assert all(catalog.reference(task_id) for task_id in ids)
        own = {task_id.rpartition("-")[2] for task_id in ids}
        assert not own & seeds
        seeds |= own
    solved = [task_id for task_id in catalog.task_ids("all") if catalog.reference(task_id)]
    assert len(solved) == 1173


def test_references_of_all_levels_solve_them(box: RunnerBox, catalog: GameCatalog) -> None:
    for task_id in catalog.task_ids("validation")[:40]:
        episode = GameEpisode.create(box, catalog, task_id)
        actions = reference(catalog, task_id)
        episode.play(actions[:-1])
        assert episode.verdict()["score"] == 0.0
        episode.play(actions[-1:])
        assert last(episode) == "The task is completed."
        assert episode.said["terminated"] is True
        limit = episode.said["info"]["engine_max_steps"]
        official = 1 - 0.9 * len(actions) / limit
        assert episode.said["reward"] == pytest.approx(official)
        verdict = episode.verdict()
        assert (verdict["score"], verdict["success"]) == (1.0, True)
        assert verdict["details"]["reward"] == episode.said["reward"]
        episode.release()


def test_the_score_is_minigrids_reward_where_efficiency_is_asked_for(
    box: RunnerBox, catalog: GameCatalog
) -> None:
    episode = GameEpisode.create(box, catalog, TASK, efficiency=True)
    episode.play(["turn left", "turn right", "go to red closed door 1", "toggle"])
    verdict = episode.verdict()
    assert (verdict["score"], verdict["success"]) == (pytest.approx(1 - 0.9 * 6 / 50), True)
    assert episode.verdict(sparse=True)["score"] == 1.0


def test_the_observation_tells_what_is_seen_and_what_can_be_done(
    box: RunnerBox, catalog: GameCatalog
) -> None:
    episode = GameEpisode.create(box, catalog, TASK)
    assert last(episode).splitlines() == [
        "Your goal: open the red door",
        "In front of you in this room, you can see several objects: There is a red closed door 1 "
        "1 steps in front of you and 2 steps to your right. The room has walls around you. "
        "You are facing a wall 3 steps away. You are not carrying anything.",
        'Available actions: ["turn left", "turn right", "move forward", "toggle and go through '
        'red closed door 1", "go to red closed door 1", "check available actions"]',
    ]
    told = re.findall(r'"(.*?)"', last(episode).splitlines()[-1])
    assert episode.said["info"]["available_actions"] == told


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("toggle", "There is neither a door nor a box right in front of you."),
        ("drop", "You cannot drop anything, as you are not carrying anything."),
        ("go through red closed door 1", "You cannot go through red closed door 1, as it is closed."),
        ("go to green ball 1", "The action is not recognized."),
        ("Check available actions", "You can take the following actions: turn left, turn right,"),
        ("x" * 3000, "An action has at most"),
    ],
)
def test_what_cannot_be_done_is_told_and_costs_no_step_of_the_engine(
    box: RunnerBox, catalog: GameCatalog, action: str, answer: str
) -> None:
    episode = GameEpisode.create(box, catalog, TASK)
    assert episode.act(action).startswith(answer)
    assert episode.said["info"]["engine_steps"] == 0
    assert episode.said["terminated"] is False


def test_things_are_picked_up_and_dropped(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, "PutNextLocalS6N4-0")
    (name, *_) = [
        action for action in episode.said["info"]["available_actions"] if action.startswith("pick up ")
    ]
    thing = name.removeprefix("pick up ").rpartition(" ")[0]
    assert f"You are carrying a {thing}." in episode.act(f"pickup {name.removeprefix('pick up ')}")
    assert "You are not carrying anything." in episode.act("Action: drop")
    assert f"{thing} 1 right in front of you 1 steps away" in last(episode)


def test_a_failed_mission_ends_with_nothing(box: RunnerBox, catalog: GameCatalog) -> None:
    failing = [
        task_id
        for task_id in catalog.task_ids("all")
        if task_id.startswith("OpenDoorsOrderN4Debug") and not catalog.reference(task_id)
    ]
    for task_id in failing[:3]:
        episode = GameEpisode.create(box, catalog, task_id)
        for _ in range(8):
            doors = [
                action
                for action in episode.said["info"]["available_actions"]
                if action.startswith("toggle and go through")
            ]
            episode.act(doors[0] if doors else "turn left")
            if episode.said["terminated"]:
                break
        assert last(episode) == "The task has failed."
        assert (episode.verdict()["score"], episode.said["reward"]) == (0.0, 0.0)


def test_the_engines_own_limit_truncates_an_episode(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, TASK)
    while not episode.said.get("truncated"):
        episode.act("turn left")
    assert episode.said["terminated"] is False
    assert last(episode) == "There are no steps left."
    assert episode.said["info"]["engine_steps"] == 50
    assert episode.verdict()["success"] is False


def test_a_copy_goes_its_own_way_and_both_reach_the_goal(box: RunnerBox, catalog: GameCatalog) -> None:
    task_id = "UnlockPickupDist-0"
    actions = reference(catalog, task_id)
    source, undisturbed = GameEpisode.create(box, catalog, task_id), GameEpisode.create(box, catalog, task_id)
    expected = answers(undisturbed, actions)
    assert answers(source, actions[:9]) == expected[:9]
    copy = source.fork()
    assert answers(copy, actions[9:]) == expected[9:]
    assert (copy.verdict()["score"], source.verdict()["score"]) == (1.0, 0.0)
    assert answers(source, actions[9:]) == expected[9:]


def pictures(episode: GameEpisode) -> list[str]:
    """The pictures of the last observation."""
    return [
        picture
        for message in episode.said["observation"]["messages"]
        for picture in Message.model_validate(message).images or ()
    ]


def test_pictures_stand_beside_the_same_words_where_they_are_asked_for(
    box: RunnerBox, catalog: GameCatalog
) -> None:
    plain = GameEpisode.create(box, catalog, TASK)
    seeing, again = (GameEpisode.create(box, catalog, TASK, picture=True) for _ in range(2))
    shown = []
    for action in ("", *reference(catalog, TASK)):
        if action:
            assert plain.act(action) == seeing.act(action) == again.act(action)
        assert last(plain) == last(seeing)
        assert pictures(plain) == []
        (picture,) = pictures(seeing)
        assert pictures(again) == [picture]
        shown.append(picture)
    assert len(set(shown)) > 1


COMPARED = """
import gymnasium, minigrid, random
from sandbox_service.environments.babyai.box import drawing
env = gymnasium.make("BabyAI-BossLevel-v0", disable_env_checker=True).unwrapped
drawn, chance = [], random.Random(1)
drawing.png_url = lambda width, height, pixels: drawn.append(pixels)
view = env.reset(seed=3)[0]
for _ in range(60):
    drawing.draw_view(view["image"])
    assert drawn.pop() == env.get_pov_render(32).tobytes()
    view = env.step(chance.choice((0, 1, 2, 2, 2, 3, 4, 5)))[0]
"""


def test_the_picture_is_minigrids(catalog: GameCatalog) -> None:
    assert catalog.spec.provisions is not None
    paths = f"{ROOT}:{catalog.spec.provisions.packages}"
    command = [sys.executable, "-c", COMPARED]
    done = subprocess.run(command, env={"PYTHONPATH": paths}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("params", [{"efficiency": "yes"}, {"picture": 1}, {"speed": 1}])
def test_parameters_are_checked(box: RunnerBox, catalog: GameCatalog, params: dict[str, object]) -> None:
    with pytest.raises(RefusedError) as caught:
        GameEpisode.create(box, catalog, TASK, **params)
    assert caught.value.code == "invalid_request"


def test_the_step_limit_is_the_levels_unless_the_operators_is_lower(catalog: GameCatalog) -> None:
    assert catalog.payload(TASK).max_steps == 50
    assert catalog.spec.provisions is not None
    short = BabyaiCatalog(BabyaiConfig(max_steps=40), catalog.spec.provisions)
    assert short.payload(TASK).max_steps == 40
    assert short.payload("GoToObjS6-0").max_steps == 36
