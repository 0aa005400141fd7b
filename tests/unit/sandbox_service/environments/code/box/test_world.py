import copy
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_service.environments.code.box.prompts import NO_ACTION
from sandbox_service.environments.code.box.world import WORLD
from sandbox_service.runner.world import Context, WorldError
from tests.harness.agent import FakeAgent

GRADING = {"kind": "numeric", "answer": 7.0, "rel_tol": 0.0, "abs_tol": 0.0}
SLEEP = "```bash\nsleep 20\n```"


def say(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(tool: str, call_id: str = "c1", **arguments: object) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": function}]}


def test_the_opening_teaches_tools_and_names_files(make_world: Any) -> None:
    world = make_world()
    start = world.start()
    system, user = (message["content"] for message in start.messages)
    assert all(tool in system for tool in ("execute_bash", "str_replace_editor", "python", "submit"))
    assert "at most 5 messages" in system
    assert user.startswith("Add the numbers")
    assert "`in.txt`" in user
    assert "`answer.txt`" in user
    assert [tool["function"]["name"] for tool in start.tools][-1] == "submit"


def test_an_episode_from_start_to_score(make_world: Any, agent: FakeAgent) -> None:
    world = make_world()
    first = world.step(call("execute_bash", command="cat in.txt"), 20)
    assert first.messages == [
        {"role": "tool", "tool_call_id": "c1", "name": "execute_bash", "content": "3 4"}
    ]
    assert (first.reward, first.reward_terms, first.terminated) == (0, {}, False)
    last = world.step(call("submit", answer="7"), 20)
    assert last.terminated
    world.seal()
    verdict = world.evaluate({}, GRADING)
    assert (verdict.score, verdict.success) == (1, True)
    assert world.evaluate({}, GRADING) == verdict
    assert agent.calls == []


def test_plain_calls_are_answered_in_one_user_message(make_world: Any) -> None:
    outcome = make_world().step(say("```python\nx = 1\n```\n```bash\necho hi\n```"), 20)
    (message,) = outcome.messages
    assert message == {"role": "user", "content": "[1: python]\n[no output]\n\n[2: execute_bash]\nhi"}


def test_a_message_without_action_is_a_step_with_help(make_world: Any) -> None:
    world = make_world(max_steps=2)
    assert world.step(say("I wonder."), 20).messages == [{"role": "user", "content": NO_ACTION}]
    assert world.step(say("Still."), 20).truncated


def test_calls_after_submit_are_not_run(make_world: Any, agent: FakeAgent) -> None:
    message = call("submit", "a", answer="7")
    message["tool_calls"] += call("execute_bash", "b", command="touch late")["tool_calls"]
    outcome = make_world().step(message, 20)
    assert [reply["tool_call_id"] for reply in outcome.messages] == ["a", "b"]
    assert "Not run" in outcome.messages[1]["content"]
    assert all(info.path != "late" for info in agent.list_files())


def test_broken_calls_are_told_and_the_others_run(make_world: Any) -> None:
    message = call("python", "a", code="print('ran')")
    message["tool_calls"].append({"id": "b", "function": {"name": "python", "arguments": "{"}})
    message["tool_calls"].append({"id": "c", "function": {"name": "browse", "arguments": "{}"}})
    outcome = make_world().step(message, 20)
    texts = [reply["content"] for reply in outcome.messages]
    assert texts[0] == "ran"
    assert texts[1].startswith("Error: The arguments are not valid JSON")
    assert texts[2].startswith("Error: There is no tool 'browse'")


def test_tools_share_the_time_of_the_step(make_world: Any) -> None:
    outcome = make_world().step(say(f"{SLEEP}\n{SLEEP}"), 0.5)
    text = outcome.messages[0]["content"]
    assert "killed" in text
    assert "Not run: the time of this step is used up." in text


def test_one_tool_has_its_own_limit(make_world: Any) -> None:
    outcome = make_world(tool_timeout_s=0.3).step(say(SLEEP), 30)
    assert "longer than 0.3 s" in outcome.messages[0]["content"]


def test_evaluating_in_between_stops_the_agent_and_changes_nothing(make_world: Any, agent: FakeAgent) -> None:
    world = make_world()
    world.step(say("```python\nx = 5\n```\n```bash\necho 7 > answer.txt\n```"), 20)
    assert world.evaluate({}, GRADING).success
    assert world.evaluate({}, GRADING).success
    assert agent.calls == ["freeze", "thaw"] * 2
    outcome = world.step(say("```python\nx + 1\n```"), 20)
    assert outcome.messages[0]["content"] == "6"
    assert outcome.info["evaluations"] == 2


def test_the_agent_goes_on_also_when_the_grader_fails(make_world: Any, agent: FakeAgent) -> None:
    world = make_world()
    with pytest.raises(WorldError):
        world.evaluate({}, {"kind": "magic"})
    assert agent.calls in ([], ["freeze", "thaw"])


@pytest.mark.parametrize("late", ["echo 8 > answer.txt", "rm answer.txt", "rm -r ../workspace"])
def test_what_is_graded_is_what_there_was_at_the_end(make_world: Any, agent: FakeAgent, late: str) -> None:
    world = make_world(max_steps=1)
    outcome = world.step(say("```bash\necho 7 > answer.txt\n```"), 20)
    assert outcome.truncated
    assert not outcome.terminated
    world.seal()
    agent.shell(late, 5)
    assert world.evaluate({}, GRADING).success


TESTED = {
    "kind": "tests",
    "names": ["f"],
    "tests": ["assert f() == 1"],
    "setup": "",
    "timeout_s": 5.0,
    "write_back": False,
    "live": [],
}


def test_a_solution_that_changes_its_mind_is_graded_once(make_world: Any, agent: FakeAgent) -> None:
    world = make_world(tested=True, artifact="solution.py")
    memory = Path(agent.workspace, "memory")
    source = (
        f"path = {str(memory)!r}\n"
        "def f():\n"
        "    open(path, 'a').write('x')\n"
        "    return len(open(path).read()) - 1"
    )
    agent.write_file("solution.py", source.encode())
    world.step(call("submit"), 20)
    world.seal()
    verdicts = [world.evaluate({}, TESTED) for _ in range(4)]
    assert [verdict.score for verdict in verdicts] == [0] * 4
    assert memory.read_text() == "x"


class Unstoppable(FakeAgent):
    """An agent with a process that takes no stop."""

    def freeze(self) -> None:
        super().freeze()
        raise OSError("a process of the agent could not be stopped")


class Unkillable(Unstoppable):
    """An agent with a process that does not even die."""

    def kill(self) -> None:
        if self.calls:
            raise OSError("a process of the agent could not be killed")


def test_an_agent_that_cannot_be_stopped_is_ended_and_gets_its_score(make_world: Any, tmp_path: Path) -> None:
    agent = Unstoppable(tmp_path / "other")
    world = make_world(agent=agent)
    world.step(say("```bash\necho 8 > answer.txt\n```"), 20)
    assert world.evaluate({}, GRADING).score == 0
    assert agent.calls == ["freeze", "kill", "thaw"]


def test_an_agent_that_cannot_be_ended_is_the_sandbox_failing(make_world: Any, tmp_path: Path) -> None:
    world = make_world(agent=Unkillable(tmp_path / "other"))
    with pytest.raises(WorldError) as caught:
        world.evaluate({}, GRADING)
    assert caught.value.code == "sandbox_failed"


def test_sparse_scores_are_all_or_nothing(make_world: Any) -> None:
    world = make_world()
    world.step(call("submit", answer="A"), 20)
    world.seal()
    grading = {"kind": "choice", "answers": ["A", "B"]}
    assert world.evaluate({}, grading).score == pytest.approx(2 / 3)
    assert world.evaluate({"sparse": True}, grading).score == 0
    assert world.evaluate({"sparse": False}, grading).score == pytest.approx(2 / 3)


@pytest.mark.parametrize("params", [{"sparse": 1}, {"dense": True}])
def test_unknown_grader_parameters_are_refused(make_world: Any, params: dict) -> None:
    with pytest.raises(WorldError) as caught:
        make_world().evaluate(params, GRADING)
    assert caught.value.code == "invalid_request"


@pytest.mark.parametrize("params", [{"shaping": {"luck": 1}}, {"shaping": 3}, {"hints": True}])
def test_unknown_create_parameters_are_refused(make_world: Any, params: dict) -> None:
    with pytest.raises(WorldError) as caught:
        make_world(params)
    assert caught.value.code == "invalid_request"


def test_shaped_rewards_are_named_and_summed(make_world: Any) -> None:
    world = make_world({"shaping": {"execution_success": 0.1, "file_made": 0.2, "progress": 0.3}})
    first = world.step(say("```bash\nexit 1\n```"), 20)
    assert first.reward_terms == {"execution_success": 0, "file_made": 0, "progress": 0}
    second = world.step(say("```bash\necho 7 > answer.txt\n```"), 20)
    assert second.reward_terms == pytest.approx({"execution_success": 0.1, "file_made": 0.2, "progress": 0.2})
    assert second.reward == pytest.approx(0.5)
    third = world.step(call("submit"), 20)
    assert third.reward_terms == pytest.approx({"execution_success": 0, "file_made": 0, "progress": 0.1})


def test_input_files_may_be_binary_and_in_folders(make_world: Any, agent: FakeAgent) -> None:
    make_world(files={"d/a.bin": {"base64": "AP8="}, "b.txt": "é"})
    assert agent.read_file("d/a.bin", 10) == b"\x00\xff"
    assert agent.read_file("b.txt", 10) == "é".encode()


def test_a_copy_lives_on_its_own(make_world: Any, agent: FakeAgent) -> None:
    world = make_world()
    world.step(say("```bash\ntrue\n```"), 20)
    twin = world.fork(Context("j", 1, {}, agent))
    world.step(call("submit", answer="7"), 20)
    assert (twin.steps, twin.submitted, twin.answer) == (1, False, None)
    assert copy.deepcopy({key: value for key, value in vars(twin).items() if key != "context"})


def test_without_an_agent_the_world_says_so() -> None:
    world = WORLD({"files": {"a": "b"}}, Context("i", 1))
    with pytest.raises(WorldError, match="runs agent code"):
        world.start()
