"""The conversation of an episode names the tools that answer, and where its turns are among its messages."""

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.harness.template_families import chat_with
from trainer.engines.generation import Finish, Generation
from trainer.rollout.conversation import Conversation

pytest.importorskip("trl")

TASK = Message(role="user", content="What is a kestrel?")
FUNCTION = FunctionCall(name="look_up", arguments='{"word": "a"}')
CALL = Message(role="assistant", tool_calls=(ToolCall(id="000000000", function=FUNCTION),))


@pytest.mark.parametrize(
    ("name", "tool_format", "text"),
    [
        ("gptoss", "harmony", "<|start|>functions.look_up to=assistant"),
        ("gemma4_v5", "gemma4", "response:look_up{"),
        ("kimi_k2", "kimi_k2", "## Return of functions.look_up:0"),
    ],
)
def test_an_observation_without_a_name_has_that_of_the_call(name: str, tool_format: str, text: str) -> None:
    chat = chat_with(name, tool_format=tool_format)
    conversation = Conversation(chat, 4000)
    conversation.begin([TASK], ())
    ids = tuple(chat.turn(CALL))
    (call,) = conversation.add_turn(Generation(ids, (-1.0,) * len(ids), Finish.STOP, ())).tool_calls or ()
    before = len(conversation.prompt)
    conversation.add_observation([Message(role="tool", content="A bird.", tool_call_id=call.id)])
    seen = chat.decode(conversation.prompt[before:])
    assert text in seen
    assert "made_up_tool" not in seen


def test_turns_know_their_messages_behind_answers_that_the_environment_shows() -> None:
    chat = chat_with("qwen3")
    conversation = Conversation(chat, 4000)
    conversation.begin([TASK, Message(role="assistant", content="A bird."), TASK], ())
    for number in range(2):
        ids = tuple(chat.turn(Message(role="assistant", content=f"turn {number}")))
        conversation.add_turn(Generation(ids, (-1.0,) * len(ids), Finish.STOP, ()))
        conversation.add_observation([TASK])
    (segment,) = conversation.segments()
    lines = [conversation.lines[turn.line].content for turn in segment.turns if turn.line is not None]
    assert [text.split()[-1] for text in lines] == ["0", "1"]


class CountedRenderings:
    """A chat that counts how often it renders a whole history."""

    def __init__(self, chat):
        self._chat = chat
        self.renderings = 0

    def __getattr__(self, name):
        return getattr(self._chat, name)

    def opening(self, messages, tools):
        self.renderings += 1
        return self._chat.opening(messages, tools)


def test_a_long_history_is_rendered_a_few_times_to_find_what_is_kept_of_it() -> None:
    chat = CountedRenderings(chat_with("qwen3"))
    conversation = Conversation(chat, 4000, drops_oldest=True, least_room=64)
    conversation.begin([TASK], ())
    turns = 0
    while not conversation.must_drop:
        ids = tuple(chat.turn(Message(role="assistant", content=f"turn {turns}")))
        conversation.add_turn(Generation(ids, (-1.0,) * len(ids), Finish.STOP, ()))
        conversation.add_observation([TASK])
        turns += 1
    chat.renderings = 0
    assert turns > 50
    assert 2000 <= conversation.room() < 2100
    assert chat.renderings < 10
