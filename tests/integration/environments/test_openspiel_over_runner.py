"""OpenSpiel's games in a box: references, opponents, warnings, and a model as the second player."""

from collections.abc import Iterator
from typing import Any

import pytest

from sandbox_service.config import OpenspielConfig
from sandbox_service.environments.openspiel.service.catalog import OpenspielCatalog
from sandbox_service.environments.shared.service.game_catalog import GameCatalog
from tests.harness.game_box import GameEpisode, RefusedError, catalog_of, game_box, reference
from tests.harness.runner_box import RunnerBox

OPPONENTS = ("random", "mcts", "optimal")
WITHOUT = (("connect_four", "optimal"), ("breakthrough", "optimal"), ("kuhn_poker", "mcts"))
"""Games that an opponent does not play."""
GAMES = ("tic_tac_toe", "connect_four", "breakthrough", "nim", "kuhn_poker")


@pytest.fixture(scope="module")
def catalog() -> GameCatalog:
    return catalog_of("openspiel")


@pytest.fixture(scope="module")
def box(catalog: GameCatalog) -> Iterator[RunnerBox]:
    with game_box(catalog) as box:
        yield box


def task(name: str, seat: int = 0, split: str = "train") -> str:
    return f"{name}_{split}_{seat}_00"


def last(episode: GameEpisode) -> str:
    text: str = episode.said["observation"]["messages"][-1]["content"]
    return text


def opponent(move: str) -> dict[str, Any]:
    return {"role": "assistant", "name": "opponent", "content": move}


def test_every_game_has_openings_for_both_seats_and_none_in_two_splits(catalog: GameCatalog) -> None:
    sizes = {split: len(catalog.task_ids(split)) for split in ("train", "validation", "test", "all")}
    assert sizes == {"train": 200, "validation": 50, "test": 80, "all": 330}
    tasks = [catalog.payload(task_id).task for task_id in catalog.task_ids("all")]
    openings = {str([each[key] for key in ("spec", "rounds", "seat")]) for each in tasks}
    assert len(openings) == len(tasks)


def test_no_game_begins_for_the_agent_as_one_of_another_split(box: RunnerBox, catalog: GameCatalog) -> None:
    """Openings that differ may lead to one state, by another order or by what the opponent plays first."""
    begun: dict[str, set[str]] = {}
    for task_id in catalog.task_ids("all"):
        if not task_id.startswith("kuhn_poker"):
            episode = GameEpisode.create(box, catalog, task_id)
            split, seat = task_id.split("_")[-3:-1]
            begun.setdefault(f"{seat} {episode.said['observation']['messages']}", set()).add(split)
            episode.release()
    assert [each for each, splits in begun.items() if len(splits) > 1] == []


def test_every_reference_wins(box: RunnerBox, catalog: GameCatalog) -> None:
    for task_id in catalog.task_ids("all"):
        episode = GameEpisode.create(box, catalog, task_id)
        assert episode.verdict()["score"] == 0.0
        assert episode.play(reference(catalog, task_id)) == 1.0, task_id
        assert episode.said["terminated"]
        assert episode.verdict() == episode.verdict(sparse=True)
        assert episode.verdict()["success"] is True
        episode.release()


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in GAMES for kind in OPPONENTS if (name, kind) not in WITHOUT],
)
def test_the_first_offered_moves_are_legal_against_every_opponent(
    box: RunnerBox, catalog: GameCatalog, name: str, kind: str
) -> None:
    for seat in (0, 1):
        episode = GameEpisode.create(box, catalog, task(name, seat), opponent=kind)
        rewards = 0.0
        while not episode.said.get("terminated"):
            episode.act(episode.info["available_actions"][0])
            rewards += episode.said["reward"]
            assert "warning" not in last(episode)
        assert rewards in (0.0, 0.5, 1.0)
        assert episode.verdict()["score"] == rewards


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("move", ["bet", "pass"])
def test_the_same_move_at_every_turn_wins_at_most_half_of_the_matches_of_poker(
    box: RunnerBox, catalog: GameCatalog, split: str, move: str
) -> None:
    for seat in (0, 1):
        ids = [each for each in catalog.task_ids(split) if each.startswith(f"kuhn_poker_{split}_{seat}_")]
        won = 0
        for task_id in ids:
            episode = GameEpisode.create(box, catalog, task_id)
            while not episode.said.get("terminated"):
                episode.act(move)
            won += episode.verdict()["success"]
            episode.release()
        assert won <= len(ids) // 2


@pytest.mark.parametrize(("name", "kind"), [*WITHOUT, ("nim", "nobody")])
def test_an_opponent_that_a_game_does_not_have_is_refused(
    box: RunnerBox, catalog: GameCatalog, name: str, kind: str
) -> None:
    with pytest.raises(RefusedError, match="is one of") as caught:
        GameEpisode.create(box, catalog, task(name), opponent=kind)
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize("name", ["tic_tac_toe", "nim"])
def test_nobody_beats_an_optimal_opponent_from_a_lost_position(
    box: RunnerBox, catalog: GameCatalog, name: str
) -> None:
    """Two optimal players: what the agent gets against one, its opponent gets against the other."""
    scores = []
    for number in range(8):
        episode = GameEpisode.create(box, catalog, f"{name}_train_0_{number:02d}", opponent="optimal")
        while not episode.said.get("terminated"):
            episode.act(episode.info["available_actions"][-1])
        scores.append(episode.verdict()["score"])
    assert sum(scores) < 4.0


@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("tic_tac_toe", "row 9, column 9"),
        ("connect_four", "the left one"),
        ("breakthrough", "a1a6"),
        ("nim", "pile 1, take 99"),
        ("kuhn_poker", "raise"),
    ],
)
def test_illegal_moves_are_warnings_and_then_lose_the_game(
    box: RunnerBox, catalog: GameCatalog, name: str, move: str
) -> None:
    episode = GameEpisode.create(box, catalog, task(name))
    before = episode.info["available_actions"]
    for warning in (1, 2):
        assert f"warning {warning} of 2" in episode.act(move)
        assert episode.info["available_actions"] == before
    assert "the game is lost" in episode.act(move)
    assert (episode.said["terminated"], episode.said["reward"]) == (True, 0.0)
    assert episode.verdict()["score"] == 0.0


def test_moves_are_read_in_the_words_of_players_and_of_the_library(
    box: RunnerBox, catalog: GameCatalog
) -> None:
    for written in ("{0},{1}", "({0}, {1})", "x({0},{1})", "Action: row {0} column {1}"):
        episode = GameEpisode.create(box, catalog, task("tic_tac_toe"))
        move = episode.info["available_actions"][0]
        assert "no legal move" not in episode.act(written.format(*move.split(",")))


def test_a_hidden_card_is_shown_to_its_player_only(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, task("kuhn_poker"), opponent="model")
    mine = last(episode)
    assert mine.count("Your card:") == 1
    episode.act("pass")
    assert last(episode).count("Your card:") == 1
    card = {text.split("Your card: ")[1][0] for text in (mine, last(episode))}
    assert len(card) == 2


def test_a_model_plays_the_opponent_move_by_move(box: RunnerBox, catalog: GameCatalog) -> None:
    ids = [each for each in catalog.task_ids("all") if each.startswith("nim")]
    episode = GameEpisode.create(box, catalog, ids[0], opponent="model")
    rewards = 0.0
    while not episode.said.get("terminated"):
        name = episode.info.get("awaits")
        assert name in (None, "opponent")
        move = last(episode).partition("Legal moves: ")[2].split("; ")[-1]
        episode.act(opponent(move) if name else move)
        rewards += episode.said["reward"]
    assert rewards in (0.0, 1.0)
    assert episode.info["opponent_reward"] == 1.0 - rewards
    assert episode.verdict()["score"] == rewards


def test_each_player_is_told_the_rules_once(box: RunnerBox, catalog: GameCatalog) -> None:
    told: dict[str, list[str]] = {"agent": [], "opponent": []}
    for seat in (0, 1):
        episode = GameEpisode.create(box, catalog, task("connect_four", seat), opponent="model")
        told = {"agent": [], "opponent": []}
        for _ in range(4):
            name = episode.info.get("awaits", "agent")
            told[name] += [each["role"] for each in episode.said["observation"]["messages"]]
            move = last(episode).partition("Legal moves: ")[2].split("; ")[0]
            episode.act(opponent(move) if name == "opponent" else move)
        assert [roles.count("system") for roles in told.values()] == [1, 1]


def test_a_native_call_is_answered_when_the_opponent_has_moved(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, task("connect_four"), opponent="model")
    if episode.info.get("awaits"):
        episode.act(opponent("3"))
    function = {"name": "act", "arguments": '{"action": "2"}'}
    episode.act({"role": "assistant", "tool_calls": [{"id": "c7", "type": "function", "function": function}]})
    assert episode.info["awaits"] == "opponent"
    episode.act(opponent("2"))
    (answer,) = episode.said["observation"]["messages"]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "c7")


def test_an_opponent_that_cannot_move_loses(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, task("connect_four"), opponent="model")
    if not episode.info.get("awaits"):
        episode.act("0")
    for _ in range(2):
        assert "warning" in episode.act(opponent("I give up"))
        assert episode.info["awaits"] == "opponent"
    episode.act(opponent("I give up"))
    assert (episode.said["terminated"], episode.said["reward"]) == (True, 1.0)


def test_a_message_of_the_wrong_player_is_refused(box: RunnerBox, catalog: GameCatalog) -> None:
    episode = GameEpisode.create(box, catalog, task("connect_four"))
    with pytest.raises(RefusedError, match="waits for a message of the agent") as caught:
        episode.act(opponent("0"))
    assert caught.value.code == "invalid_request"
    assert "no legal move" not in episode.act("0")


def test_a_copy_of_a_match_with_hands_goes_on_by_itself(box: RunnerBox, catalog: GameCatalog) -> None:
    moves = reference(catalog, task("kuhn_poker"))
    source = GameEpisode.create(box, catalog, task("kuhn_poker"))
    source.play(moves[:2])
    copy = source.fork()
    copy.play(moves[2:])
    assert (copy.verdict()["score"], source.verdict()["score"]) == (1.0, 0.0)
    source.play(moves[2:])
    assert source.verdict()["score"] == 1.0


def test_warnings_and_steps_are_the_operators(catalog: GameCatalog) -> None:
    assert catalog.spec.provisions is not None
    strict = OpenspielCatalog(OpenspielConfig(warnings=0, max_steps=9), catalog.spec.provisions)
    payload = strict.payload(task("nim"))
    assert (payload.task["warnings"], payload.max_steps) == (0, 9)
