"""The forest that each way of calling gives, and what is recorded of it."""

import asyncio

import pytest

from tests.fakes.rollout_engines import FakeEngine
from tests.harness.model_calls import (
    KEY,
    LOOK,
    assistant,
    call,
    calling,
    limits,
    result,
    sampled_tokens,
    session,
    system,
    trained,
    trained_tokens,
    user,
)
from tests.harness.template_families import chat_with
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, Generation, Sampling
from trainer.engines.pool import EnginePool
from trainer.model_gateway.forest import Break
from trainer.model_gateway.session import Session

ASK = user("What is 2 + 3?")
BRIEF = system("Be brief.")


def breaks(recording):
    return [each.because for each in recording.calls]


def refused(caught):
    return caught.value.status, caught.value.code


async def test_a_conversation_with_tools_is_one_sequence_of_all_that_was_sampled():
    opened, policy = session(calling("look"), "5")
    first = await opened.answer(call(ASK, tools=[LOOK]))
    (asked,) = first.message.tool_calls
    second = await opened.answer(call(ASK, first.message, result(asked), tools=[LOOK]))
    assert second.message.content == "5"
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS]
    assert [each.spliced for each in recording.calls] == [False, True]
    assert [len(tokens) for tokens in trained(recording.segments)] == [len(sampled_tokens(policy))]
    assert trained_tokens(recording) == sampled_tokens(policy)
    assert [line.role for line in recording.lines] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("family", "tool_format", "text"),
    [
        ("gptoss", "harmony", "<|start|>functions.look to=assistant"),
        ("gemma4_v5", "gemma4", "response:look{"),
        ("kimi_k2", "kimi_k2", "## Return of functions.look:0"),
    ],
)
async def test_a_spliced_prompt_names_the_tool_that_answers(family, tool_format, text):
    chat = chat_with(family, tool_format=tool_format)
    opened, _ = session(calling("look").model_copy(update={"content": None}), "5", chat=chat)
    first = await opened.answer(call(ASK, tools=[LOOK]))
    (asked,) = first.message.tool_calls
    await opened.answer(call(ASK, first.message, result(asked), tools=[LOOK]))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS]
    told = chat.decode(recording.segments[0].token_ids)
    assert text in told
    assert "made_up_tool" not in told


async def test_each_token_is_recorded_with_its_own_logprob_and_version():
    opened, policy = session("5", "6")
    first = await opened.answer(call(ASK))
    policy.version = 4
    await opened.answer(call(ASK, first.message, ASK))
    (segment,) = (await opened.close()).segments
    kept = [logprob for logprob, mask in zip(segment.logprobs, segment.loss_mask, strict=True) if mask]
    assert kept == [logprob for each in policy.sampled for logprob in each.logprobs]
    assert [[span.version for span in turn.versions] for turn in segment.turns] == [[0], [4]]


class UpdatedEngine(FakeEngine):
    """Has new weights after each part that it samples."""

    async def generate(self, request):
        part = await super().generate(request)
        self.version += 1
        return part


async def test_an_answer_that_a_weight_update_interrupts_has_the_versions_of_its_parts():
    pool = EnginePool([UpdatedEngine(cut=[3])])
    opened = Session(KEY, pool, tiny_chat(), Sampling(), limits(turn_tokens=8))
    await opened.answer(call(ASK))
    recording = await opened.close()
    (turn,) = recording.segments[0].turns
    parts = [(span.start - turn.start, span.end - turn.start, span.version) for span in turn.versions]
    assert parts == [(0, 3, 0), (3, 8, 1)]
    assert recording.calls[0].versions == (0, 1)


async def test_an_agent_that_drops_the_reasoning_goes_on_behind_it():
    opened, policy = session("<think>\nA sum.\n</think>\n\n5", "6")
    first = await opened.answer(call(ASK))
    assert (first.message.reasoning_content, first.message.content) == ("A sum.", "5")
    await opened.answer(call(ASK, assistant("5"), user("And 3 + 3?")))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS]
    assert "A sum." in policy.chat.decode(policy.asked[1].token_ids)


async def test_an_agent_that_repeats_the_reasoning_in_the_text_goes_on_behind_it():
    opened, _ = session("<think>\nA sum.\n</think>\n\n5", "6")
    await opened.answer(call(ASK))
    await opened.answer(call(ASK, assistant("<think>\nA sum.\n</think>\n\n5"), user("And 3 + 3?")))
    assert breaks(await opened.close()) == [Break.FIRST, Break.EXTENDS]


async def test_a_rendered_session_shows_the_template_the_reasoning_that_the_agent_repeats():
    opened, policy = session("<think>\nA sum.\n</think>\n\n5", "6", prompts="render")
    first = await opened.answer(call(ASK))
    await opened.answer(call(ASK, first.message, user("And 3 + 3?")))
    assert "A sum." in policy.chat.decode(policy.asked[1].token_ids)
    assert [each.spliced for each in (await opened.close()).calls] == [False, False]


async def test_compaction_begins_a_sequence_with_fewer_messages():
    opened, policy = session("5", "6", "So far: 5 and 6.", "7")
    first = await opened.answer(call(BRIEF, ASK))
    await opened.answer(call(BRIEF, ASK, first.message, ASK))
    await opened.answer(call(BRIEF, user("So far: 5 and 6.")))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS, Break.SHORTENED]
    assert [len(segment.turns) for segment in recording.segments] == [2, 1]
    assert trained_tokens(recording) == sampled_tokens(policy)


async def test_a_sub_agent_is_a_sequence_of_its_own_and_its_caller_goes_on():
    opened, policy = session("5", "a finding", "6")
    first = await opened.answer(call(BRIEF, ASK))
    await opened.answer(call(system("You search."), user("Search."), tools=[LOOK]))
    await opened.answer(call(BRIEF, ASK, first.message, user("It found: a finding")))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.TOOLS, Break.EXTENDS]
    assert [len(segment.turns) for segment in recording.segments] == [1, 2]
    assert trained_tokens(recording) == sampled_tokens(policy)
    said = [[recording.lines[turn.line].content for turn in each.turns] for each in recording.segments]
    assert said == [["a finding"], ["5", "6"]]


async def test_parallel_calls_on_one_history_branch_and_train_it_once():
    opened, policy = session("5", "a", "b", "c")
    first = await opened.answer(call(ASK))
    await asyncio.gather(
        *(opened.answer(call(ASK, first.message, user(f"Variant {number}."))) for number in range(3))
    )
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS, Break.BRANCH, Break.BRANCH]
    assert [len(segment.turns) for segment in recording.segments] == [2, 1, 1]
    assert trained_tokens(recording) == sampled_tokens(policy)
    lines = [turn.line for segment in recording.segments for turn in segment.turns]
    assert [recording.lines[line].content for line in lines] == ["5", "a", "b", "c"]


async def test_rewritten_history_begins_a_sequence():
    opened, policy = session("5", "6")
    await opened.answer(call(BRIEF, ASK))
    await opened.answer(call(BRIEF, ASK, assistant("It is five."), ASK))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.REWRITTEN]
    assert len(recording.segments) == 2
    assert trained_tokens(recording) == sampled_tokens(policy)


async def test_a_conversation_is_one_sequence_spliced_and_several_rendered():
    """A template that drops earlier reasoning rewrites the prompt; both record what was sampled."""
    lines = [f"<think>\nStep {number}.\n</think>\n\nAnswer {number}" for number in range(4)]
    recordings = {}
    for prompts in ("splice", "render"):
        opened, policy = session(*lines, prompts=prompts)
        history = [ASK]
        for _ in lines:
            reply = await opened.answer(call(*history))
            history += [assistant(reply.message.content), user("Go on.")]
        recordings[prompts] = await opened.close()
        assert trained_tokens(recordings[prompts]) == sampled_tokens(policy)
    spliced, rendered = recordings["splice"], recordings["render"]
    assert (len(spliced.segments), len(rendered.segments)) == (1, 4)
    assert breaks(rendered) == [Break.FIRST, Break.RENDERED, Break.RENDERED, Break.RENDERED]
    assert len(trained_tokens(spliced)) == len(trained_tokens(rendered))
    assert sum(len(each.token_ids) for each in spliced.segments) < sum(
        len(each.token_ids) for each in rendered.segments
    )


async def test_an_answer_ends_at_the_agents_stop_text_and_is_extended():
    opened, policy = session("Action: look\nObservation: made up", "5")
    reply = await opened.answer(call(ASK, stop=("Observation:",)))
    assert reply.message.content == "Action: look\n"
    assert (reply.cut, reply.stop) == (False, "Observation:")
    await opened.answer(call(ASK, reply.message, user("Observation: found")))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS]
    kept = recording.calls[0].sampled
    assert kept < len(policy.sampled[0].token_ids)
    assert trained_tokens(recording) == sorted(
        policy.sampled[0].token_ids[:kept] + policy.sampled[1].token_ids
    )


async def test_an_agent_that_asks_for_one_tool_call_gets_the_first_and_only_its_tokens_are_trained():
    opened, policy = session(calling("look", "look", "look"), "5")
    reply = await opened.answer(call(ASK, tools=[LOOK], one_tool_call=True))
    (only,) = reply.message.tool_calls
    assert (only.function.name, reply.cut) == ("look", False)
    await opened.answer(call(ASK, reply.message, result(only), tools=[LOOK], one_tool_call=True))
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS]
    assert [each.dropped for each in recording.calls] == [2, 0]
    kept = recording.calls[0].sampled
    assert kept < len(policy.sampled[0].token_ids)
    assert trained_tokens(recording) == sorted(
        policy.sampled[0].token_ids[:kept] + policy.sampled[1].token_ids
    )


@pytest.mark.parametrize(
    ("tool_format", "text"),
    [
        ("llama3", '{"name": "Alice", "age": 3}'),
        ("hermes", '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'),
        ("pythonic", "[look()]"),
    ],
)
@pytest.mark.parametrize("one", [False, True], ids=["any-calls", "one-call"])
async def test_an_answer_to_a_call_without_tools_is_text(tool_format, text, one):
    said = f"<think>\nHm.\n</think>\n\n{text}"
    opened, _ = session(said, "5", chat=tiny_chat(tools="prompt", tool_format=tool_format))
    reply = await opened.answer(call(ASK, one_tool_call=one))
    assert (reply.message.content, reply.message.reasoning_content) == (text, "Hm.")
    assert reply.message.tool_calls is None
    await opened.answer(call(ASK, reply.message, user("Go on.")))
    assert breaks(await opened.close()) == [Break.FIRST, Break.EXTENDS]


async def test_an_answer_that_speaks_of_the_marks_of_thoughts_keeps_its_words():
    words = "Models close a thought with </think> and then answer."
    opened, _ = session(words, f"<think>\nHm.\n</think>\n\n{words}")
    first, second = [(await opened.answer(call(ASK))).message for _ in range(2)]
    assert (first.content, first.reasoning_content) == (words, None)
    assert (second.content, second.reasoning_content) == (words, "Hm.")


async def test_the_prompt_tokens_that_the_engine_had_cached_are_reported_and_recorded():
    opened, policy = session()
    ids = tuple(policy.chat.turn("5"))
    policy.lines = [Generation(ids, (-1.0,) * len(ids), Finish.STOP, (), cached=12), "6"]
    replies = [await opened.answer(call(ASK)) for _ in range(2)]
    assert [reply.usage.cached for reply in replies] == [12, None]
    assert [each.cached for each in (await opened.close()).calls] == [12, None]


async def test_step_rewards_are_added_to_the_last_call_or_the_named_one():
    opened, _ = session(calling("look"), "6")
    assert not opened.add_reward(1.0, {}, 0.0)
    first = await opened.answer(call(ASK, tools=[LOOK]))
    opened.add_reward(0.5, {"found": 1.0}, 0.1)
    (asked,) = first.message.tool_calls
    await opened.answer(call(ASK, first.message, result(asked), tools=[LOOK]))
    opened.add_reward(2.0, {}, 0.0)
    opened.add_reward(0.25, {"found": 2.0}, 0.1, asked.id)
    opened.add_reward(0.125, {}, 0.0, first.call_id)
    assert not opened.add_reward(1.0, {}, 0.0, "an-id-of-nothing")
    (segment,) = (await opened.close()).segments
    assert [turn.reward for turn in segment.turns] == [0.875, 2.0]
    assert segment.turns[0].terms == {"found": 3.0}
    assert segment.turns[0].sandbox_s == pytest.approx(0.2)


async def test_a_history_that_is_sent_again_is_shown_once():
    opened, _ = session("5", "6", "7")
    first = await opened.answer(call(BRIEF, ASK))
    await opened.answer(call(BRIEF, ASK, first.message, user("And?")))
    await opened.answer(call(BRIEF, ASK, user("Summary.")))
    lines = (await opened.close()).lines
    assert [(line.role, line.content) for line in lines] == [
        ("system", "Be brief."),
        ("user", "What is 2 + 3?"),
        ("assistant", "5"),
        ("user", "And?"),
        ("assistant", "6"),
        ("user", "Summary."),
        ("assistant", "7"),
    ]


async def test_calls_are_checked_for_drift_as_configured():
    opened, _ = session("5", checks=lambda number: number == 1)
    first = await opened.answer(call(ASK))
    await opened.answer(call(ASK, first.message, ASK))
    recording = await opened.close()
    assert (recording.checked, recording.drifted) == (1, 0)
