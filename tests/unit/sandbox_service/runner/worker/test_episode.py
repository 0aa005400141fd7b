"""Rewards of a step that is broken off; evaluations of parts, some with work of another box."""

from __future__ import annotations

import json

import pytest

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.worker.episode import WorldEpisode
from sandbox_service.wire.frames import Frame, Op
from sandbox_service.wire.json_types import JsonObject
from tests.fakes.essay_world import EssayWorld


class Stairs(GameWorld):
    """Each step up earns a quarter; a jump raises, and a fall earns no number."""

    def system_prompt(self) -> str:
        return "Say up or jump."

    def open_game(self) -> GameTurn:
        return GameTurn("Climb.")

    def play_action(self, action: str, timeout_s: float) -> GameTurn:
        if action == "jump":
            raise RecursionError
        earned = float("nan") if action == "fall" else 0.25
        return GameTurn("Higher.", earned, self.turn.score + 0.25)


def climbed(*steps: list[str]) -> list[JsonObject]:
    """The results of steps, each with its actions in one message, and the verdict as the last."""
    request = {"environment": "stairs", "task_id": "t", "task": {"category": "stairs", "max_steps": 9}}
    create = Frame(Op.CREATE, 1, "i", {"seed": 0, "max_steps": 9}, json.dumps(request).encode())
    episode = WorldEpisode(create, Stairs, None)
    episode.start(create)
    results = []
    for actions in steps:
        calls = [
            {"type": "function", "function": {"name": "act", "arguments": json.dumps({"action": action})}}
            for action in actions
        ]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
        body = json.dumps({"message": message}).encode()
        results.append(json.loads(episode.step(Frame(Op.STEP, 2, "i", {"deadline_s": 5.0}, body)).body))
    graded = episode.evaluate(Frame(Op.EVALUATE, 3, "i", {"deadline_s": 5.0}, b"{}"))
    return [*results, json.loads(graded.body)]


@pytest.mark.parametrize("steps", [[["up"], ["up", "up", "jump", "up"]], [["up", "up", "up"], ["jump"]]])
def test_actions_before_the_one_that_breaks_a_step_off_keep_their_rewards(steps: list[list[str]]) -> None:
    *results, verdict = climbed(*steps)
    assert results[-1]["truncated"]
    assert results[-1]["info"] == {"exhausted": "recursion"}
    assert sum(result["reward"] for result in results) == verdict["score"] == 0.75


def test_a_step_that_is_broken_off_by_a_reward_that_is_no_number_earns_nothing() -> None:
    result, _ = climbed(["up", "fall"])
    assert (result["reward"], result["info"]) == (0.0, {"exception": "ValueError"})


def evaluated(body: JsonObject) -> Frame:
    request = {"environment": "essay", "task_id": "essay-1", "task": {"kind": "verifier"}}
    create = Frame(Op.CREATE, 1, "i", {"seed": 0, "max_steps": 9}, json.dumps(request).encode())
    episode = WorldEpisode(create, EssayWorld, None)
    episode.start(create)
    return episode.evaluate(Frame(Op.EVALUATE, 2, "i", {"deadline_s": 5.0}, json.dumps(body).encode()))


def test_a_world_counts_and_exports_its_parts() -> None:
    assert evaluated({"count_parts": True}).meta["parts"] == 3
    assert json.loads(evaluated({"export_work": {"number": 1}}).body) == {"text": "", "number": 1}


def test_beside_work_of_another_box_nothing_is_counted_or_exported() -> None:
    graded = {"work": {"text": "well"}, "params": {}, "grading": {}, "part": {"number": 1}}
    for planted in ("export_work", "count_parts"):
        details = json.loads(evaluated({**graded, planted: {}}).body)["details"]
        assert details == {"kind": "verifier", "text": "well", "part": {"number": 1}}
