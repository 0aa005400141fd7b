import pytest

from sandbox_contract.messages import Message
from trainer.sft.notation import Call, call_in, program, say, with_call

SUBMIT = Call("submit", {"answer": 7})


@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
@pytest.mark.parametrize("words", ["", "First, the sum."], ids=["alone", "after-words"])
@pytest.mark.parametrize(
    "call",
    [program("print(1)"), program("x = '''\n```\n'''\nprint(x)"), SUBMIT, Call("submit")],
    ids=["program", "program-with-a-fence", "answer", "no-answer"],
)
def test_a_call_that_was_said_is_read_and_replaced_in_its_notation(
    call: Call, words: str, native: bool
) -> None:
    message = say(call, words=words, native=native)
    assert call_in(message) == call
    other = with_call(message, SUBMIT)
    assert call_in(other) == SUBMIT
    assert bool(other.tool_calls) == native
    assert (other.content or "").startswith(words)


@pytest.mark.parametrize(
    "message",
    [
        Message(role="assistant", content="I do not know."),
        Message(role="assistant", content="```python\nprint(1)\n```\n```python\nprint(2)\n```"),
        Message(role="assistant", content="<tool_call>{broken</tool_call>"),
        Message(role="assistant", content='<tool_call>{"name": 3}</tool_call>'),
        Message(role="assistant", content='<tool_call>{"name": "submit", "arguments": 3}</tool_call>'),
        Message.model_validate(
            {"role": "assistant", "tool_calls": [{"function": {"name": "submit", "arguments": "{"}}]}
        ),
        Message.model_validate({"role": "assistant", "tool_calls": [{"function": {"name": "submit"}}] * 2}),
    ],
    ids=["none", "several", "broken", "no-name", "no-arguments", "broken-native", "several-native"],
)
def test_what_is_not_one_whole_call_is_no_call(message: Message) -> None:
    assert call_in(message) is None
