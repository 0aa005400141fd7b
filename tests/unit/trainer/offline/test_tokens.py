"""Recorded conversations become the tokens that an episode would have had."""

import numpy as np
import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.harness.template_families import chat_with
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, Generation
from trainer.offline.tokens import tokenize_conversation
from trainer.rollout.conversation import Conversation

ASK = (Message(role="system", content="Add."), Message(role="user", content="2 + 3?"))
CALL = Message(
    role="assistant",
    tool_calls=(ToolCall(id="call_0", function=FunctionCall(name="python", arguments='{"code": "2+3"}')),),
)
SAW = Message(role="tool", content="5", tool_call_id="call_0", name="python")
SUBMIT = Message(role="assistant", content="5")


def said(chat, conversation):
    return [
        chat.decode(conversation.token_ids[turn.start : turn.end])
        for turn in conversation.turns
        if turn.trained
    ]


def test_tokens_are_those_of_a_rollout_that_sampled_the_same_turns():
    chat = tiny_chat()
    recorded = tokenize_conversation(chat, ASK, (CALL, SAW, SUBMIT))
    episode = Conversation(chat, 1000)
    episode.begin(ASK, ())
    for message, observation in ((CALL, [SAW]), (SUBMIT, [])):
        ids = tuple(chat.turn(message))
        episode.add_turn(Generation(ids, (-1.0,) * len(ids), Finish.STOP, ()))
        if observation:
            episode.add_observation(observation)
    (segment,) = episode.segments()
    assert recorded.token_ids == segment.token_ids
    assert recorded.sample("0.0", 0).mask_T.tolist() == list(segment.loss_mask)


def test_the_loss_is_on_the_assistants_tokens_tool_calls_and_stop_tokens_included():
    chat = tiny_chat()
    call, answer = said(chat, tokenize_conversation(chat, ASK, (CALL, SAW, SUBMIT)))
    assert "2+3" in call
    assert answer.startswith("5")
    assert chat.encode(answer)[-1] in chat.stop_ids


def test_messages_behind_the_last_turn_are_left_out():
    chat = tiny_chat()
    whole = tokenize_conversation(chat, ASK, (SUBMIT, Message(role="user", content="Thanks")))
    assert whole == tokenize_conversation(chat, ASK, (SUBMIT,))


def test_skipped_turns_are_read_and_carry_no_loss():
    chat = tiny_chat()
    conversation = tokenize_conversation(chat, ASK, (CALL, SAW, SUBMIT), skipped=frozenset({0}))
    assert [turn.trained for turn in conversation.turns] == [False, True]
    assert not conversation.sample("0.0", 0).mask_T[: conversation.turns[0].end].any()


def test_a_cut_conversation_ends_with_its_last_turn_that_fits():
    chat = tiny_chat()
    whole = tokenize_conversation(chat, ASK, (CALL, SAW, SUBMIT))
    first, last = whole.turns
    assert whole.cut(last.end) == whole
    assert len(whole.cut(last.end - 1)) == first.end
    assert not whole.cut(first.end - 1).has_loss


def test_samples_have_no_version_and_their_turns_are_counted():
    sample = tokenize_conversation(tiny_chat(), ASK, (CALL, SAW, SUBMIT)).sample("3.0", 3, preferred=True)
    assert (sample.group, sample.preferred) == (3, True)
    assert set(sample.versions_T.tolist()) == {-1}
    assert sorted(set(sample.turns_T[sample.mask_T].tolist())) == [0, 1]
    assert not np.any(sample.turns_T[~sample.mask_T] >= 0)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("name", ["qwen3", "qwen3_5_think", "qwen3_8", "glm4_7", "gptoss", "ministral3"])
def test_a_recorded_thought_is_trained_on(name, field):
    chat = chat_with(name)
    thinking = SUBMIT.model_copy(update={field: "A sum."})
    (turn,) = said(chat, tokenize_conversation(chat, ASK, (thinking,)))
    assert turn.index("A sum.") < turn.index("5")


@pytest.mark.parametrize(
    ("name", "tool_format", "text"),
    [
        ("gptoss", "harmony", "<|start|>functions.python to=assistant"),
        ("gemma4_v5", "gemma4", "response:python{"),
        ("kimi_k2", "kimi_k2", "## Return of functions.python:1"),
    ],
)
def test_a_recorded_answer_names_its_call(name, tool_format, text):
    chat = chat_with(name, tool_format=tool_format)
    seen = SAW.model_copy(update={"name": None})
    recorded = tokenize_conversation(chat, ASK, (CALL, seen, CALL, seen, SUBMIT))
    told = chat.decode(recorded.token_ids)
    assert text in told
    assert "made_up_tool" not in told
    assert "call_0" not in told


def test_several_calls_are_turns_of_their_own_where_the_template_has_one() -> None:
    chat = chat_with("gptoss", tool_format="harmony")
    calls = [
        ToolCall(id=f"call_{name}", function=FunctionCall(name=name, arguments="{}"))
        for name in ("python", "look")
    ]
    both = CALL.model_copy(update={"tool_calls": tuple(calls)})
    answers = [SAW.model_copy(update={"name": None, "tool_call_id": call.id}) for call in calls]
    recorded = tokenize_conversation(chat, ASK, (both, *answers, SUBMIT), skipped=frozenset({3}))
    first, second = said(chat, recorded)
    assert ("functions.python" in first, "functions.look" in first) == (True, False)
    assert ("functions.python" in second, "functions.look" in second) == (False, True)
    text = chat.decode(recorded.token_ids)
    assert text.index("functions.look to=assistant") > text.index("functions.python to=assistant")
    assert [turn.trained for turn in recorded.turns] == [True, True, False]
    assert [turn.number for turn in recorded.turns] == [0, 0, 1]
    assert not recorded.cut(recorded.turns[1].end - 1).turns


@pytest.mark.parametrize(
    ("name", "tool_format"),
    [
        ("deepseek_v3_1", "deepseek_v31"),
        ("gemma4_v5", "gemma4"),
        ("glm4_7", "glm"),
        ("gptoss", "harmony"),
        ("granite3_3", "granite"),
        ("kimi_k2", "kimi_k2"),
        ("lfm2", "lfm2"),
        ("llama3_1", "llama3"),
        ("llama4", "llama3"),
        ("minimax_m2", "minimax"),
        ("ministral3", "mistral"),
        ("mistral_nemo", "mistral"),
        ("phi4_mini", "phi4_mini"),
        ("qwen3", "hermes"),
        ("qwen3_5_think", "qwen3_coder"),
        ("smollm3", "hermes"),
    ],
)
def test_a_turn_that_a_run_displayed_is_learned_as_it_was_sampled(name, tool_format):
    chat = chat_with(name, tool_format=tool_format)
    sampled = tokenize_conversation(chat, ASK, (CALL, SAW, SUBMIT))
    call = sampled.turns[0]
    displayed = (
        Message(role="assistant", content=chat.said(sampled.token_ids[call.start : call.end])),
        Message(role="tool", content="5"),
        SUBMIT,
    )
    assert tokenize_conversation(chat, ASK, displayed) == sampled


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"python","arguments":{"code":"1"}}</tool_call>',
        '<tool_call>\n{"arguments": {"code": "1"}, "name": "python"}\n</tool_call>',
        'First.\n\n<tool_call>\n{"name": "python", "arguments": {"code": "1"}}\n</tool_call>\nThen I look.',
    ],
    ids=["spaces", "order", "words behind"],
)
@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "smollm3"])
def test_a_displayed_turn_keeps_the_models_own_way_of_writing(name, text):
    chat = chat_with(name, tool_format="hermes")
    learned = tokenize_conversation(chat, ASK, (Message(role="assistant", content=text),))
    (turn,) = learned.turns
    assert list(learned.token_ids[turn.start : turn.end - 1]) == chat.encode(text)


WRITTEN = "<tool_call>\n<function=python>\n<parameter=code>\n2+3\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("text", "learned"),
    [
        (WRITTEN, f"\n</think>\n\n{WRITTEN}"),
        (f"<think>\nA sum.\n</think>\n\n{WRITTEN}", f"A sum.\n</think>\n\n{WRITTEN}"),
        (f"<think>A sum.\n</think>\n\n{WRITTEN}", f"A sum.\n</think>\n\n{WRITTEN}"),
        (f"A sum.\n</think>\n\n{WRITTEN}", f"A sum.\n</think>\n\n{WRITTEN}"),
    ],
    ids=["no thought", "a thought of its own", "as a run displays it", "as it was sampled"],
)
def test_a_displayed_call_stands_behind_the_thought_that_the_prompt_opened(text, learned):
    chat = chat_with("qwen3_5_think", tool_format="qwen3_coder")
    given = Message(role="assistant", content=text)
    recorded = tokenize_conversation(chat, ASK, (given, SAW, given))
    for turn in recorded.turns:
        prompt, ids = recorded.token_ids[: turn.start], recorded.token_ids[turn.start : turn.end]
        assert chat.decode(prompt).endswith("<think>\n")
        assert chat.said(ids) == learned
        assert chat.parse(learned, prompt=prompt).tool_calls


def test_an_example_in_the_opening_is_read_as_in_a_rollout():
    chat = chat_with("mistral_nemo", tool_format="mistral")
    example = Message(role="assistant", content='[TOOL_CALLS][{"name": "python", "arguments": {}}]')
    opening = (*ASK, example, Message(role="user", content="And 3 + 4?"))
    learned = tokenize_conversation(chat, opening, (SUBMIT,))
    assert list(learned.token_ids[: learned.turns[0].start]) == chat.opening(opening)


def test_a_text_without_a_call_is_learned_as_it_is():
    chat = chat_with("qwen3", tool_format="hermes")
    unfinished = Message(role="assistant", content='<tool_call>\n{"name": "python"')
    (turn,) = said(chat, tokenize_conversation(chat, ASK, (unfinished,)))
    assert (unfinished.content or "") in turn
