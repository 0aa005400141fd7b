"""Reference solutions as demonstrations."""

import json
from pathlib import Path

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from sandbox_service.config import CodeConfig
from sandbox_service.environments.code.service.catalog import CodeCatalog
from sandbox_service.environments.echo.service.catalog import EchoCatalog
from sandbox_service.environments.shared.box.actions import parse_actions
from service_cli.policies.demonstrations import ReferenceDemonstration, as_text, demonstrations, fences_of
from service_cli.policies.policies import View, read_script

CATALOG = CodeCatalog(CodeConfig())


def asked(message: Message) -> list[tuple[str, dict[str, object]]]:
    """Return the calls that the environment understands."""
    actions = parse_actions(message.model_dump(mode="json", exclude_none=True))
    assert all(action.problem is None for action in actions)
    return [(action.name, action.arguments) for action in actions]


def called(name: str, **arguments: object) -> Message:
    function = FunctionCall(name=name, arguments=json.dumps(arguments))
    return Message(role="assistant", tool_calls=(ToolCall(id="c", function=function),))


def test_text_asks_for_the_same_as_native_calls() -> None:
    native = list(demonstrations(CATALOG, CATALOG.task_ids("train"), text=False))
    text = list(demonstrations(CATALOG, CATALOG.task_ids("train"), text=True))
    assert len(native) == len(CATALOG.task_ids("train"))
    for one, other in zip(native, text, strict=True):
        assert not any(message.tool_calls for message in other.messages)
        assert [_told(asked(message)) for message in one.messages] == [
            _told(asked(message)) for message in other.messages
        ]


def _told(calls: list[tuple[str, dict[str, object]]]) -> list[tuple[str, object]]:
    """Without the line end that closes a block."""
    return [(name, {key: str(value).rstrip("\n") for key, value in given.items()}) for name, given in calls]


def test_a_sum_is_a_program_and_its_answer() -> None:
    (sum_,) = demonstrations(CATALOG, ["arithmetic/train/easy/1"], text=True)
    assert json.loads(sum_.line()) == {
        "environment": "code",
        "task_id": "arithmetic/train/easy/1",
        "messages": [
            {"role": "assistant", "content": "```python\nprint(46+80)\n```"},
            {
                "role": "assistant",
                "content": '<tool_call>{"name": "submit", "arguments": {"answer": 126}}</tool_call>',
            },
        ],
    }


@pytest.mark.parametrize("code", ["print('```')", "```python\nprint(1)\n```", "x = '````'"])
def test_a_fence_is_longer_than_any_within_the_code(code: str) -> None:
    message = as_text(called("python", code=code), fences_of(CATALOG))
    assert asked(message) == [("python", {"code": code + "\n"})]


def test_words_beside_calls_and_several_calls_keep_their_order() -> None:
    one, other = called("python", code="print(1)"), called("submit", answer="1")
    both = Message(
        role="assistant", content="First.", tool_calls=(*(one.tool_calls or ()), *(other.tool_calls or ()))
    )
    message = as_text(both, fences_of(CATALOG))
    assert (message.content or "").startswith("First.\n```python")
    assert [name for name, _ in asked(message)] == ["python", "submit"]


def test_a_tool_that_only_has_the_name_of_one_that_runs_code_is_called_as_any_other() -> None:
    message = as_text(called("python", code="x"), fences_of(EchoCatalog()))
    assert message.content == '<tool_call>{"name": "python", "arguments": {"code": "x"}}</tool_call>'


def test_a_message_without_calls_stays_as_it_is() -> None:
    message = Message(role="assistant", content="go north")
    assert as_text(message, {}) is message


async def test_what_is_written_can_be_played_as_a_script(tmp_path: Path) -> None:
    (sum_,) = demonstrations(CATALOG, ["arithmetic/train/easy/1"], text=False)
    file = tmp_path / "demonstrations.jsonl"
    file.write_text(sum_.line() + "\n")
    view = View((), (), {})
    actor = read_script(file).make_actor("arithmetic/train/easy/1", 0)
    assert [await actor.act(view), await actor.act(view), await actor.act(view)] == [*sum_.messages, None]


async def test_line_separators_of_unicode_do_not_end_a_line_of_a_script(tmp_path: Path) -> None:
    spoken = Message(role="assistant", content="a\u2028b\u2029c\u0085d\x0be")
    file = tmp_path / "demonstrations.jsonl"
    line = ReferenceDemonstration("echo", "echo-1", (spoken,)).line()
    file.write_text(f"{line}\n", encoding="utf-8")
    assert await read_script(file).make_actor("echo-1", 0).act(View((), (), {})) == spoken
