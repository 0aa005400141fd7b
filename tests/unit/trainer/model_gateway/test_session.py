from tests.harness.model_calls import LOOK, call, calling, result, session, trained, user
from trainer.model_gateway.forest import Break

ASK = user("What is 2 + 3?")


def breaks(recording):
    return [each.because for each in recording.calls]


async def test_a_conversation_with_tools_is_one_sequence_of_all_that_was_sampled():
    opened, policy = session(calling("look"), "5")
    first = await opened.answer(call(ASK, tools=[LOOK]))
    (asked,) = first.message.tool_calls
    second = await opened.answer(call(ASK, first.message, result(asked), tools=[LOOK]))
    assert second.message.content == "5"
    recording = await opened.close()
    assert breaks(recording) == [Break.FIRST, Break.EXTENDS]
    assert [each.spliced for each in recording.calls] == [False, True]
    (segment,) = recording.segments
    assert trained([segment]) == [sum((each.token_ids for each in policy.sampled), ())]
    assert [line.role for line in recording.lines] == ["user", "assistant", "tool", "assistant"]
