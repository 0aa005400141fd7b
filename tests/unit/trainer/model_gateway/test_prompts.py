import pytest

from sandbox_contract.messages import FunctionCall, FunctionSchema, Message, Tool, ToolCall
from tests.harness.tiny_chat import tiny_chat
from trainer.model_gateway.forest import Break
from trainer.model_gateway.prompts import PromptPolicy, Prompts

SYSTEM = Message(role="system", content="Be brief.")
QUESTION = Message(role="user", content="What is 2 + 3?")
LOOK = Tool(function=FunctionSchema(name="look"))


@pytest.fixture(scope="module")
def chat():
    return tiny_chat(tools="prompt")


def calling(arguments, call_id="call_0"):
    function = FunctionCall(name="look", arguments=arguments)
    return Message(role="assistant", content="", tool_calls=(ToolCall(id=call_id, function=function),))


def made(prompts, messages, tools):
    return prompts.prompt(prompts.read(messages, tools))


def spliced(prompt):
    return prompt.history.behind is not None


def answered(prompts, chat, messages, answer, tools=()):
    """Answer a call with what the model would sample for a message; the tokens so far."""
    prompt, sampled = made(prompts, messages, tools), tuple(chat.turn(answer))
    prompts.record(prompt, answer, 0, sampled)
    return prompt.token_ids + sampled


def test_the_first_call_is_rendered(chat):
    prompt = made(Prompts(chat), [SYSTEM, QUESTION], ())
    assert prompt.token_ids == tuple(chat.opening([SYSTEM, QUESTION]))
    assert prompt.history.because is Break.FIRST


def test_new_messages_are_spliced_behind_the_sampled_tokens(chat):
    prompts, answer = Prompts(chat), Message(role="assistant", content="5")
    before = answered(prompts, chat, [SYSTEM, QUESTION], answer)
    more = Message(role="user", content="And 2 * 3?")
    prompt = made(prompts, [SYSTEM, QUESTION, answer, more], ())
    assert prompt.history.because is Break.EXTENDS
    assert prompt.token_ids == (*before, *chat.continuation([more], before[-1]))


def test_a_rendered_session_says_that_it_could_have_spliced(chat):
    prompts, answer = Prompts(chat, PromptPolicy.RENDER), Message(role="assistant", content="5")
    answered(prompts, chat, [QUESTION], answer)
    messages = [QUESTION, answer, Message(role="user", content="And 2 * 3?")]
    prompt = made(prompts, messages, ())
    assert prompt.history.because is Break.RENDERED
    assert prompt.token_ids == tuple(chat.opening(messages))


@pytest.mark.parametrize(
    "repeated",
    [
        calling('{"word": "a", "times": 2}'),
        calling('{"times": 2, "word": "a"}'),
        calling({"times": 2, "word": "a"}),
        calling('{"times":2,"word":"a"}').model_copy(update={"content": None}),
        calling('{"times":2,"word":"a"}').model_copy(update={"reasoning_content": "It is seldom sent back."}),
    ],
)
def test_an_answer_is_recognised_however_an_agent_repeats_it(chat, repeated):
    prompts = Prompts(chat)
    answered(prompts, chat, [QUESTION], calling('{"word": "a", "times": 2}'), [LOOK])
    result = Message(role="tool", content="found", tool_call_id="call_0")
    assert spliced(made(prompts, [QUESTION, repeated, result], [LOOK]))


@pytest.mark.parametrize(
    "repeated",
    [
        calling('{"word": "b"}'),
        calling('{"word": "a"}', call_id="call_9"),
        calling("[1]"),
        Message(role="assistant", content="5"),
    ],
)
def test_a_changed_answer_is_another_history(chat, repeated):
    prompts = Prompts(chat)
    answered(prompts, chat, [QUESTION], calling('{"word": "a"}'), [LOOK])
    result = Message(role="tool", content="found", tool_call_id="call_0")
    prompt = made(prompts, [QUESTION, repeated, result], [LOOK])
    assert prompt.history.because is Break.REWRITTEN


def test_the_longest_of_several_known_histories_is_extended(chat):
    prompts, answer = Prompts(chat), Message(role="assistant", content="5")
    answered(prompts, chat, [QUESTION], answer)
    before = answered(prompts, chat, [QUESTION, answer, QUESTION], answer)
    prompt = made(prompts, [QUESTION, answer, QUESTION, answer, QUESTION], ())
    assert prompt.token_ids[: len(before)] == before


def test_a_call_that_repeats_an_earlier_history_branches_from_it(chat):
    prompts, answer = Prompts(chat), Message(role="assistant", content="5")
    before = answered(prompts, chat, [QUESTION], answer)
    answered(prompts, chat, [QUESTION, answer, QUESTION], answer)
    other = made(prompts, [QUESTION, answer, Message(role="user", content="No.")], ())
    assert spliced(other)
    assert other.token_ids[: len(before)] == before


def test_a_message_of_the_assistant_that_was_not_sampled_is_rendered(chat):
    prompts, answer = Prompts(chat), Message(role="assistant", content="5")
    answered(prompts, chat, [QUESTION], answer)
    invented = Message(role="assistant", content="6")
    assert not spliced(made(prompts, [QUESTION, answer, invented, QUESTION], ()))
    assert not spliced(made(prompts, [QUESTION, answer], ()))


def test_fewer_messages_under_the_same_system_prompt_are_a_compaction(chat):
    prompts, answer = Prompts(chat), Message(role="assistant", content="5")
    answered(prompts, chat, [SYSTEM, QUESTION, answer, QUESTION], answer)
    summary = Message(role="user", content="So far: 5.")
    assert made(prompts, [SYSTEM, summary], ()).history.because is Break.SHORTENED


@pytest.mark.parametrize(
    ("system", "tools"), [(SYSTEM, [LOOK]), (Message(role="system", content="Plan."), [])]
)
def test_other_tools_or_another_system_prompt_are_another_agent(chat, system, tools):
    prompts = Prompts(chat)
    answered(prompts, chat, [SYSTEM, QUESTION], Message(role="assistant", content="5"))
    assert made(prompts, [system, QUESTION], tools).history.because is Break.TOOLS


def test_branches_from_one_history_keep_their_own_tokens(chat):
    prompts, answer = Prompts(chat), Message(role="assistant", content="5")
    answered(prompts, chat, [QUESTION], answer)
    ends = {}
    for text in ("And 1?", "And 2?", "And 3?"):
        more = [QUESTION, answer, Message(role="user", content=text), answer]
        ends[text] = (more, answered(prompts, chat, more[:-1], answer))
    for more, before in ends.values():
        prompt = made(prompts, [*more, QUESTION], ())
        assert spliced(prompt)
        assert prompt.token_ids[: len(before)] == before


def test_a_rendered_prompt_has_the_reasoning_that_the_agent_sends(chat):
    thought = Message(role="assistant", content="5", reasoning_content="A sum.")
    prompt = made(Prompts(chat), [QUESTION, thought, QUESTION], ())
    assert "<think>\nA sum.\n</think>\n\n5" in chat.decode(prompt.token_ids)


@pytest.mark.parametrize("arguments", ["not JSON", "[1, 2]", "[" * 100_000])
def test_arguments_that_are_no_object_may_come_back_as_an_empty_one(chat, arguments):
    prompts = Prompts(chat)
    answered(prompts, chat, [QUESTION], calling(arguments), [LOOK])
    result = Message(role="tool", content="invalid", tool_call_id="call_0")
    for repeated in (calling(arguments), calling({})):
        assert spliced(made(prompts, [QUESTION, repeated, result], [LOOK]))
