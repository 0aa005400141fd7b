"""Recorded episodes for tests, made of a few words."""

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from trainer.recorded.types import RecordedEpisode, RowOrigin


def message(role: str, content: str) -> Message:
    return Message.model_validate({"role": role, "content": content})


def episode(task: str = "t/1", said: str = "go north", row: int = 1, **more: object) -> RecordedEpisode:
    """Return an episode of one turn, whose prompt names the task."""
    messages = (message("user", f"task {task}"), message("assistant", said))
    given = {"messages": messages, "origin": RowOrigin("rows.jsonl", row), "task_id": task, **more}
    return RecordedEpisode(**given)


def calling(call: str, arguments: str = '{"answer": 7}', **more: object) -> RecordedEpisode:
    """Return an episode whose turn is a tool call with this id, which is answered."""
    calls = (ToolCall(id=call, function=FunctionCall(name="submit", arguments=arguments)),)
    turn = Message(role="assistant", tool_calls=calls)
    answer = Message(role="tool", content="ok", tool_call_id=call)
    return episode(messages=(message("user", "task t/1"), turn, answer), **more)


def in_sessions(name: str, *said: str, row: int = 1, **more: object) -> list[RecordedEpisode]:
    """Return the records of an episode of the task t/1, with a turn in each of its sessions."""
    earlier: tuple[Message, ...] = ()
    found = []
    for part, turn in enumerate(said):
        messages = (message("user", f"session {part}"), message("assistant", turn))
        found.append(episode(row=row, id=name, messages=messages, earlier=earlier, part=part, **more))
        earlier += messages
    return found


def with_changed_tools(name: str, *said: str, row: int = 1, **more: object) -> list[RecordedEpisode]:
    """Return the records of an episode of the task t/1 whose tools change before each of its later turns."""
    messages: tuple[Message, ...] = (message("user", "task t/1"),)
    found = []
    for part, turn in enumerate(said):
        before = frozenset(place for place, each in enumerate(messages) if each.role == "assistant")
        messages += (message("assistant", turn),)
        found.append(episode(row=row, id=name, messages=messages, skipped=before, part=part, **more))
        messages += (message("user", f"answer {part}"),)
    return found
