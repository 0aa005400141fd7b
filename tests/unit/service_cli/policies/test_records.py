import json
from pathlib import Path

from sandbox_contract.episodes import Observation, StepResult
from sandbox_contract.messages import FunctionSchema, Message, Tool
from service_cli.policies.conversation import EpisodeConversation
from service_cli.policies.outcomes import PlayedOutcome
from service_cli.policies.records import EpisodeFile


def test_each_episode_is_a_line_with_its_messages_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "episodes.jsonl"
    conversation = EpisodeConversation()
    tool = Tool(function=FunctionSchema(name="act"))
    conversation.open((Message(role="user", content="Tu és."),), (tool,), {})
    with EpisodeFile(path, "echo", "random", 0.7) as file:
        file.write(PlayedOutcome("a", 1.0, score=0.5), conversation)
        file.write(PlayedOutcome("b", 1.0), EpisodeConversation())
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    first, second = lines
    assert (first["environment"], first["policy"], first["task_id"], first["score"]) == (
        "echo",
        "random",
        "a",
        0.5,
    )
    assert first["temperature"] == 0.7
    assert first["messages"] == [{"role": "user", "content": "Tu és."}]
    assert first["tools"][0]["function"]["name"] == "act"
    assert (second["messages"], second["score"]) == ([], None)


def test_each_line_has_the_parameters_by_which_it_was_played_and_graded(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    with EpisodeFile(path, "echo", "random", None, {"attempts": 2}, {"sparse": True}) as file:
        file.write(PlayedOutcome("a", 1.0), EpisodeConversation())
    line = json.loads(path.read_text())
    assert (line["params"], line["evaluation_params"]) == ({"attempts": 2}, {"sparse": True})


def test_sessions_and_changed_tools_are_recorded(tmp_path: Path) -> None:
    old, new = (Tool(function=FunctionSchema(name=name)) for name in ("old", "new"))
    conversation = EpisodeConversation()
    conversation.open((Message(role="user", content="task"),), (old,), {})
    conversation.add_action(Message(role="assistant", content="act"))
    conversation.add_observation(
        StepResult(
            instance_id="i",
            step_index=0,
            observation=Observation(messages=(Message(role="user", content="more"),)),
            reward=0.5,
            terminated=False,
            truncated=False,
            info={"tools": [new.model_dump()], "new_session": True},
        )
    )
    with EpisodeFile(tmp_path / "episodes.jsonl", "echo", "random") as file:
        file.write(PlayedOutcome("a", 1.0), conversation)
    line = json.loads((tmp_path / "episodes.jsonl").read_text())
    assert [tool["function"]["name"] for tool in line["tools"]] == ["old"]
    assert [(each["message"], each["first"]) for each in line["frames"]] == [(0, 0), (2, 2)]
    assert line["frames"][1]["tools"][0]["function"]["name"] == "new"


def test_an_earlier_file_is_replaced_with_the_first_episode_and_not_before(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    path.write_text("precious\n")
    with EpisodeFile(path, "echo", "random"):
        pass
    assert path.read_text() == "precious\n"
    with EpisodeFile(path, "echo", "random") as file:
        file.write(PlayedOutcome("a", 1.0), EpisodeConversation())
    assert [json.loads(line)["task_id"] for line in path.read_text().splitlines()] == ["a"]
