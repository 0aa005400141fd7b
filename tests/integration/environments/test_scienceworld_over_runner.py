"""ScienceWorld in a real runner: official scores, games that share a Java process, and what is left of it."""

import json
import os
import random
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest

from sandbox_service.wire.frames import Op
from tests.harness.game_box import GameEpisode, RefusedError, catalog_of, game_box, reference
from tests.harness.runner_box import is_alive, uid_drop_missing

HEAVY = ("mendelian", "grow", "inclined-plane-friction-unnamed")
"""Tasks whose references take the engine long."""


@pytest.fixture(scope="module")
def catalog():
    return catalog_of("scienceworld")


@pytest.fixture(scope="module")
def box(catalog):
    with game_box(catalog) as made:
        yield made


def java_processes(above: int) -> list[int]:
    """Java processes below a process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            name, rest = stat.partition("(")[2].rpartition(")")[::2]
            parents[int(entry.name)] = (name, int(rest.split()[1]))
    found = []
    for pid, (name, parent) in parents.items():
        while name == "java" and parent > 1 and parent != above:
            parent = parents.get(parent, ("", 0))[1]
        if name == "java" and parent == above:
            found.append(pid)
    return found


def wander(box, catalog, task_id, seed, steps, others=()):
    """Return the observations of a random walk, with steps of other episodes in between."""
    chance, elsewhere = random.Random(seed), random.Random(seed)
    episode = GameEpisode.create(box, catalog, task_id, valid_actions=True)
    heard = [episode.said]
    for _ in range(steps):
        safe = [each for each in episode.info["available_actions"] if not each.startswith("focus")]
        episode.act(chance.choice([*safe, "wait1", "look around"]))
        heard.append(episode.said)
        for other in others:
            other.act(elsewhere.choice(["wait1", "look around", "objects"]))
        if episode.said["terminated"]:
            break
    episode.release()
    return json.loads(json.dumps(heard).replace(episode.name, ""))


@pytest.mark.slow
def test_the_gold_path_of_every_quick_task_scores_one(box, catalog):
    scores = {}
    for task_id in catalog.task_ids("gold"):
        if task_id.startswith(HEAVY):
            continue
        episode = GameEpisode.create(box, catalog, task_id)
        begun = episode.info["score"]
        earned = episode.play(reference(catalog, task_id))
        verdict = episode.verdict()
        scores[task_id] = verdict["score"]
        assert verdict["success"]
        assert episode.said["terminated"]
        assert begun + earned == pytest.approx(1.0)
        episode.release()
    assert len(scores) == 25
    assert set(scores.values()) == {1.0}


def test_doing_nothing_does_not_solve(box, catalog):
    episode = GameEpisode.create(box, catalog, "boil-0")
    assert episode.verdict() == {**episode.verdict(), "score": 0.0, "success": False}
    episode.play(["look around", "wait1"])
    assert episode.verdict(sparse=True)["score"] == 0.0


def test_a_wrong_focus_ends_in_failure_and_takes_back_what_was_earned(box, catalog):
    episode = GameEpisode.create(box, catalog, "find-animal-0")
    assert episode.info["score"] > 0
    episode.act("focus on picture")
    assert episode.said["terminated"]
    assert episode.info["failed"]
    assert episode.said["reward"] < 0
    assert episode.verdict()["score"] == 0.0


def test_what_the_engine_does_not_know_is_its_answer(box, catalog):
    episode = GameEpisode.create(box, catalog, "boil-0")
    assert "No known action" in episode.act("dance \ud800 wildly\nwith \u4e2d\u6587 and \x00")
    assert "needs a text" in episode.act({"role": "assistant", "content": ""})
    assert "Ambiguous request" in episode.act("open door")
    assert "already open" in episode.act("0")


def test_the_task_is_told_at_the_opening(box, catalog):
    episode = GameEpisode.create(box, catalog, "boil-0")
    assert episode.info["category"] == "boil"
    assert episode.info["task_description"].startswith("Your task is to boil water.")
    system, user = (message["content"] for message in episode.said["observation"]["messages"])
    assert "teleport OBJ" in system
    assert user.startswith(episode.info["task_description"])


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"simplifications": "magic"}, "no simplification 'magic'"),
        ({"simplifications": "easy,openDoors"}, "easy stands alone"),
        ({"simplifications": 3}, "a text with commas"),
        ({"valid_actions": "yes"}, "true or false"),
        ({"difficulty": 1}, "there are: simplifications, valid_actions"),
    ],
)
def test_a_wrong_parameter_is_refused_with_what_there_is(box, catalog, params, sentence):
    with pytest.raises(RefusedError, match=sentence) as refused:
        GameEpisode.create(box, catalog, "boil-0", **params)
    assert refused.value.code == "invalid_request"


def test_simplifications_change_the_actions_of_one_game_only(box, catalog):
    hard = GameEpisode.create(box, catalog, "boil-0", simplifications="")
    easy = GameEpisode.create(box, catalog, "boil-0")
    assert "No known action" in hard.act("teleport to kitchen")
    assert "You teleport" in easy.act("teleport to kitchen")
    assert "No known action" in hard.act("teleport to kitchen")


@pytest.mark.slow
@pytest.mark.parametrize("task_id", ["find-animal-5", "power-component-1", "boil-2", "grow-plant-11"])
def test_a_game_among_others_is_as_it_would_be_alone(catalog, task_id):
    with game_box(catalog) as alone:
        expected = wander(alone, catalog, task_id, seed=1, steps=10)
    with game_box(catalog) as crowded:
        others = [GameEpisode.create(crowded, catalog, each) for each in ("grow-fruit-3", "chemistry-mix-0")]
        assert wander(crowded, catalog, task_id, seed=1, steps=10, others=others) == expected


def test_a_copy_goes_on_as_its_source_does_and_apart_from_it(box, catalog):
    actions = reference(catalog, "find-plant-0")
    source = GameEpisode.create(box, catalog, "find-plant-0")
    source.play(actions[:5])
    copy, other = source.fork(), source.fork()
    other.act("wait")
    for action in actions[5:]:
        assert copy.act(action) == source.act(action)
    assert copy.verdict()["score"] == source.verdict()["score"] == 1.0
    assert other.verdict()["score"] < 1.0


def test_java_starts_with_the_first_game_and_once(catalog):
    with game_box(catalog) as box:
        assert java_processes(box.process.pid) == []
        for task_id in ("boil-0", "boil-1", "freeze-0"):
            GameEpisode.create(box, catalog, task_id)
        assert len(java_processes(box.process.pid)) == 1


def test_java_listens_on_loopback_only_and_obeys_none_without_its_token(catalog):
    with game_box(catalog) as box:
        episode = GameEpisode.create(box, catalog, "boil-0")
        (pid,) = java_processes(box.process.pid)
        connections = psutil.Process(pid).net_connections(kind="tcp")
        (address,) = [each.laddr for each in connections if each.status == psutil.CONN_LISTEN]
        assert address.ip in ("127.0.0.1", "::ffff:127.0.0.1")
        with socket.create_connection(("127.0.0.1", address.port), 5) as stranger:
            stranger.sendall(b"r\nu\nSystem\nrj\ne\n")
            stranger.settimeout(5)
            assert not stranger.recv(1000).startswith(b"!y")
        assert "hallway" in episode.act("look around")


def test_nothing_of_java_is_left_when_the_worker_is_killed(catalog):
    with game_box(catalog) as box:
        GameEpisode.create(box, catalog, "boil-0")
        (java,) = java_processes(box.process.pid)
        worker = int(Path(f"/proc/{java}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(worker, signal.SIGKILL)
        _await_end(java)


def test_nothing_of_java_is_left_after_a_reset_or_the_end_of_the_box(catalog):
    with game_box(catalog) as box:
        GameEpisode.create(box, catalog, "boil-0")
        first = java_processes(box.process.pid)
        assert box.reset().op is Op.REPLY
        assert not any(map(is_alive, first))
        GameEpisode.create(box, catalog, "boil-0")
        second = java_processes(box.process.pid)
        assert second not in ([], first)
    assert not any(map(is_alive, second))


def test_without_java_the_worker_ends_and_no_score_is_given(catalog):
    with game_box(catalog) as box:
        episode = GameEpisode.create(box, catalog, "boil-0")
        (java,) = java_processes(box.process.pid)
        os.kill(java, signal.SIGKILL)
        with pytest.raises(RefusedError) as refused:
            episode.act("look around")
        assert refused.value.code in ("instance_lost", "sandbox_failed")


@pytest.mark.skipif(uid_drop_missing() is not None, reason=str(uid_drop_missing()))
def test_it_plays_where_it_can_write_nothing_of_its_own(catalog):
    assert catalog.spec.provisions is not None
    with game_box(catalog, drop=True, env_group=9999) as box:
        episode = GameEpisode.create(box, catalog, "chemistry-mix-0")
        episode.play(reference(catalog, "chemistry-mix-0"))
        assert episode.verdict()["score"] == 1.0


def _await_end(pid: int) -> None:
    for _ in range(500):
        if not is_alive(pid):
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is alive")
