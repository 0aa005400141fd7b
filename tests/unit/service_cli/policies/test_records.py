import json
from pathlib import Path

from sandbox_contract.messages import FunctionSchema, Message, Tool
from service_cli.policies.conversation import Conversation
from service_cli.policies.outcomes import EpisodeOutcome
from service_cli.policies.records import EpisodeFile


def test_each_episode_is_a_line_with_its_messages_as_soon_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "episodes.jsonl"
    conversation = Conversation()
    tool = Tool(function=FunctionSchema(name="act"))
    conversation.begin((Message(role="user", content="Tu és."),), (tool,), {})
    with EpisodeFile(path, "echo", "random") as file:
        file.write(EpisodeOutcome("a", 1.0, score=0.5), conversation)
        file.write(EpisodeOutcome("b", 1.0), Conversation())
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    first, second = lines
    assert (first["environment"], first["policy"], first["task_id"], first["score"]) == (
        "echo",
        "random",
        "a",
        0.5,
    )
    assert first["messages"] == [{"role": "user", "content": "Tu és."}]
    assert first["tools"][0]["function"]["name"] == "act"
    assert (second["messages"], second["score"]) == ([], None)
