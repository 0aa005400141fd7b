"""Behaviour of every text game."""

import copy

import pytest

from sandbox_service.environments.shared.box.game_world import GameTurn, GameWorld
from sandbox_service.runner.world import Context, WorldError

TASK = {"id": "t", "category": "counting", "max_steps": 9, "target": 3}


class CountingGame(GameWorld):
    """Say ``more`` until the target is reached; ``stop`` ends it."""

    PARAMS = ("from",)

    def system_prompt(self):
        return "Say more or stop."

    def open_game(self):
        self.count = self.context.params.get("from", 0)
        return GameTurn(f"Reach {self.task['target']}.", actions=("more", "stop"))

    def play_action(self, action, timeout_s):
        if action == "doze":
            return GameTurn("It is late.", score=self.turn.score, done=True, truncated=True)
        if action not in ("more", "stop"):
            return GameTurn(f"I do not know {action!r}.", score=self.turn.score)
        self.count += action == "more"
        reached = self.count == self.task["target"]
        return GameTurn(
            f"{self.count}.",
            reward=1 / 3 if action == "more" else 0.0,
            score=self.count / self.task["target"],
            done=reached or action == "stop",
            success=reached,
            info={"count": self.count},
            image=f"picture of {self.count}" if "from" in self.context.params else None,
        )


def game(**params):
    world = CountingGame(TASK, Context("i", 1, params))
    return world, world.start()


def say(world, content):
    return world.step({"role": "assistant", "content": content}, 5.0)


def call(name, arguments, call_id="c1"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_opening_has_instructions_task_tool_and_facts():
    _, start = game()
    assert [message["role"] for message in start.messages] == ["system", "user"]
    assert start.tools[0]["function"]["name"] == "act"
    told = {"category": "counting", "max_steps": 9, "score": 0.0, "available_actions": ["more", "stop"]}
    assert start.info == told


def test_an_unknown_parameter_names_the_known_ones():
    with pytest.raises(WorldError, match="from") as caught:
        game(speed=2)
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize(
    "content",
    [
        "more",
        "  more\n",
        "Thought: I should go on.\nAction: more",
        "Thought: Action: is a word.\nAction: stop\nNo, better:\nAction 2: more",
        "<think>stop? Action: stop</think>more",
        '<tool_call>{"name": "act", "arguments": {"action": "more"}}</tool_call>',
        "Action:\n```\nmore\n```",
    ],
    ids=["plain", "spaces", "react", "the last action", "after a thought", "tagged", "fenced"],
)
def test_one_action_is_read_in_every_notation(content):
    world, _ = game()
    outcome = say(world, content)
    assert outcome.messages == [{"role": "user", "content": "1."}]
    assert outcome.info["count"] == 1
    assert outcome.reward == pytest.approx(1 / 3)


def test_native_calls_are_played_in_order_and_answered_one_by_one():
    world, _ = game()
    calls = [call("act", '{"action": "more"}', "a"), call("act", {"action": "more"}, "b")]
    outcome = world.step({"role": "assistant", "content": None, "tool_calls": calls}, 5.0)
    assert [(each["role"], each["tool_call_id"]) for each in outcome.messages] == [
        ("tool", "a"),
        ("tool", "b"),
    ]
    assert [each["content"] for each in outcome.messages] == ["1.", "2."]
    assert outcome.reward == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": ""}, "needs a text"),
        ({"content": None}, "needs a text"),
        ({"content": "x" * 2001}, "at most 2000 characters"),
        ({"content": "<tool_call>{broken</tool_call>"}, "valid JSON"),
        ({"tool_calls": [call("fly", "{}")]}, "no tool 'fly'"),
        ({"tool_calls": [call("act", "[1]")]}, "must be a JSON object"),
        ({"tool_calls": [call("act", '{"action": 3}')]}, "needs a text"),
        ({"tool_calls": [call("act", '{"action": "more", "speed": 1}')]}, "no argument 'speed'"),
        ({"tool_calls": ["more"]}, "no function name"),
    ],
)
def test_what_cannot_be_played_is_told_and_costs_nothing(message, said):
    world, _ = game()
    outcome = world.step({"role": "assistant", **message}, 5.0)
    assert said in outcome.messages[0]["content"]
    assert (outcome.reward, outcome.terminated) == (0.0, False)
    assert say(world, "more").info["count"] == 1


def test_after_the_end_of_the_game_the_rest_of_a_message_is_refused():
    world, _ = game()
    calls = [call("act", {"action": action}) for action in ("stop", "more")]
    outcome = world.step({"role": "assistant", "tool_calls": calls}, 5.0)
    assert outcome.terminated
    assert outcome.messages[1]["content"].startswith("Not played")


def test_a_message_has_a_bounded_number_of_moves():
    world, _ = game()
    calls = [call("act", {"action": "look"}) for _ in range(9)]
    outcome = world.step({"role": "assistant", "tool_calls": calls}, 5.0)
    assert outcome.messages[8]["content"].startswith("Not played")


def test_evaluation_gives_the_score_or_the_success_and_changes_nothing():
    world, _ = game()
    say(world, "more")
    before = copy.copy(world.__dict__)
    assert world.evaluate({}, {}).score == pytest.approx(1 / 3)
    assert world.evaluate({"sparse": True}, {}).score == 0.0
    assert world.__dict__ == before
    say(world, "more")
    assert say(world, "more").terminated
    assert world.evaluate({"sparse": True}, {}) == world.evaluate({}, {})
    assert world.evaluate({}, {}).success


@pytest.mark.parametrize("params", [{"sparse": 1}, {"sparse": "yes"}, {"dense": True}])
def test_other_parameters_of_an_evaluation_are_refused(params):
    world, _ = game()
    with pytest.raises(WorldError, match="sparse"):
        world.evaluate(params, {})


def test_a_copy_plays_on_its_own():
    world, _ = game()
    say(world, "more")
    twin = world.fork(Context("j", 1))
    say(twin, "more")
    assert (world.count, twin.count) == (1, 2)


def test_each_answer_has_its_picture_and_a_refused_action_none():
    world, _ = game(**{"from": 0})
    calls = [call("act", '{"action": "more"}'), call("act", "{}", "c2"), call("act", '{"action": "more"}')]
    told = world.step({"role": "assistant", "content": None, "tool_calls": calls}, 5.0).messages
    assert [message.get("images") for message in told] == [["picture of 1"], None, ["picture of 2"]]
    assert say(world, "stop").messages[0]["images"] == ["picture of 2"]


def test_a_game_without_pictures_has_no_such_field():
    world, start = game()
    assert not any("images" in message for message in (*start.messages, *say(world, "more").messages))


def test_a_game_whose_own_time_is_over_truncates_the_episode():
    world, _ = game()
    outcome = say(world, "doze")
    assert (outcome.terminated, outcome.truncated) == (False, True)
    assert say(world, "more").messages[0]["content"] == "Not played: the game is over."
    ended, _ = game()
    outcome = say(ended, "stop")
    assert (outcome.terminated, outcome.truncated) == (True, False)
