"""Tool calls and lists of tools as LLaMA-Factory writes them into ShareGPT files."""

import json
import re
from pathlib import Path

import pytest

from trainer.config.recorded import RecordedFiles
from trainer.errors import DataError
from trainer.recorded.reading import read_episodes
from trainer.recorded.types import RecordedEpisode

ASK = {"from": "human", "value": "How is the weather?"}
SAY = {"from": "gpt", "value": "Sunny."}
FUNCTION = {"name": "weather", "description": "Look outside.", "parameters": {"type": "object"}}


def read(folder: Path, *entries: dict, **columns: object) -> RecordedEpisode:
    path = folder / "rows.jsonl"
    path.write_text(json.dumps({"conversations": entries, **columns}) + "\n", encoding="utf-8")
    (episode,) = read_episodes(RecordedFiles(files=(path,)))
    return episode


def calls(*made: object, **more: object) -> dict:
    value = made[0] if len(made) == 1 else list(made)
    return {"from": "function_call", "value": json.dumps(value), **more}


def seen(value: str) -> dict:
    return {"from": "observation", "value": value}


def named(episode: RecordedEpisode) -> list[object]:
    """The names and ids of an episode's calls, and the ids of its answers."""
    return [
        [(call.function.name, call.id) for call in message.tool_calls or ()]
        if message.role == "assistant"
        else message.tool_call_id
        for message in episode.messages
    ]


def test_a_function_call_is_a_tool_call_and_the_observation_its_answer(tmp_path: Path) -> None:
    call = {"name": "weather", "arguments": {"city": "Oslo"}}
    episode = read(tmp_path, ASK, calls(call), seen("sun"), SAY)
    assert [message.role for message in episode.messages] == ["user", "assistant", "tool", "assistant"]
    made = episode.messages[1]
    assert made.content is None
    assert made.tool_calls is not None
    assert made.tool_calls[0].function.model_dump() == call
    assert made.tool_calls[0].id == episode.messages[2].tool_call_id == "000000000"


def test_several_calls_are_answered_in_their_order(tmp_path: Path) -> None:
    a, b, c = ({"name": name, "arguments": "{}"} for name in "abc")
    episode = read(tmp_path, ASK, calls(a, b), seen("1"), seen("2"), seen("3"), calls(c), seen("4"), SAY)
    first, second, third = "000000000", "000000001", "000000002"
    assert named(episode) == [
        None,
        [("a", first), ("b", second)],
        first,
        second,
        None,
        [("c", third)],
        third,
        [],
    ]


def test_an_observation_answers_no_call_from_before_somebody_spoke(tmp_path: Path) -> None:
    episode = read(tmp_path, ASK, calls({"name": "a"}), SAY, seen("1"), SAY)
    assert named(episode)[3] is None


def test_a_call_without_loss_is_skipped(tmp_path: Path) -> None:
    episode = read(tmp_path, ASK, calls({"name": "a"}, loss=False), seen("1"), SAY)
    assert episode.skipped == {1}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("I look outside.", "is not JSON of a call: Expecting value"),
        ("3", "must be an object with name and arguments, or a list"),
        ("[]", "must be an object with name and arguments, or a list"),
        ('{"arguments": {}}', "name: field required"),
        ('{"name": "a", "arguments": [1]}', "arguments"),
        ('{"name": "a", "parameters": {}}', "parameters: there is no such field"),
    ],
)
def test_a_function_call_that_cannot_be_read_is_named(tmp_path: Path, value: str, reason: str) -> None:
    words = re.escape("conversations.1.value: of a function_call: ") + ".*" + re.escape(reason)
    with pytest.raises(DataError, match=words):
        read(tmp_path, ASK, {"from": "function_call", "value": value}, SAY)


@pytest.mark.parametrize("text", [False, True], ids=["list", "text"])
@pytest.mark.parametrize("bare", [False, True], ids=["tools", "functions"])
def test_tools_may_be_functions_alone(tmp_path: Path, bare: bool, text: bool) -> None:
    given = [FUNCTION if bare else {"type": "function", "function": FUNCTION}]
    episode = read(tmp_path, ASK, SAY, tools=json.dumps(given) if text else given)
    (tool,) = episode.tools
    assert tool.function.model_dump() == FUNCTION


def test_a_tool_of_another_form_is_refused(tmp_path: Path) -> None:
    """Its schema would be lost."""
    with pytest.raises(DataError, match=r"tools\.0\.function: field required"):
        read(tmp_path, ASK, SAY, tools=[{"name": "weather", "input_schema": {"type": "object"}}])
