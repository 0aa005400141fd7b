"""A segment ends, and another begins, at a rewritten history."""

import pytest

from tests.fakes.told_service import ToldService, observed
from tests.harness.scripted_episodes import END, SUBMIT, play, spoken
from tests.harness.tiny_chat import tiny_chat
from trainer.offline.tokens import tokenize_conversation
from trainer.recorded.run_rows import recorded_episodes
from trainer.recorded.types import RowOrigin
from trainer.types import StopReason

TOOL = {"type": "function", "function": {"name": "submit", "description": "", "parameters": {}}}


async def test_a_full_context_forgets_the_oldest_exchanges_in_a_new_segment() -> None:
    service = ToldService([observed(f"answer {number} " + "word " * 20) for number in range(6)])
    lines = [f"```python\nprint({number})\n```" for number in range(6)]
    played = await play(
        service, *lines, config={"when_full": "drop_oldest", "max_context_tokens": 200}, max_turns=6
    )
    assert played.stop is StopReason.HORIZON
    assert spoken(played) == lines
    assert len(played.segments) > 1
    chat = tiny_chat()
    for segment in played.segments:
        text = chat.decode(segment.token_ids)
        assert text.startswith("<|system|>You solve a task.<|end|><|user|>compute 37 plus 58<|end|>")
        assert len(segment.token_ids) <= 200
    later = played.segments[1]
    assert "print(0)" not in chat.decode(later.token_ids)
    assert not any(later.loss_mask[: later.turns[0].start])


async def test_another_session_begins_a_segment_with_nothing_of_the_first() -> None:
    opening = {"messages": [{"role": "user", "content": "Second talk."}]}
    steps = [{"observation": opening, "info": {"new_session": True}}, END]
    played = await play(ToldService(steps), "Bye.", SUBMIT)
    first, second = played.segments
    chat = tiny_chat()
    assert chat.decode(first.token_ids).endswith("<|assistant|>Bye.<|end|>")
    assert chat.decode(second.token_ids).startswith("<|user|>Second talk.<|end|><|assistant|>")
    assert played.score == 1.0
    assert [(frame.line, frame.first) for frame in played.frames] == [(0, 0), (3, 3)]
    assert learned(played) == [segment.token_ids for segment in played.segments]


def learned(played, **chat):
    """Return the tokens that a stage on the file of the run learns of an episode."""
    records = recorded_episodes(played, RowOrigin("trajectories.jsonl", 1))
    return [
        tokenize_conversation(tiny_chat(**chat), each.prompt, each.completion, each.tools).token_ids
        for each in records
    ]


async def test_other_tools_begin_a_segment_with_all_history() -> None:
    later = {"type": "function", "function": {"name": "later", "description": "", "parameters": {}}}
    steps = [observed("Here is more.", info={"tools": [TOOL, later]}), END]
    service = ToldService(steps, tools=[TOOL])
    played = await play(service, "Wait.", SUBMIT, chat={"tools": "prompt"})
    first, second = (tiny_chat().decode(segment.token_ids) for segment in played.segments)
    assert '"later"' not in first
    assert '"later"' in second
    assert "<|assistant|>Wait.<|end|><|user|>Here is more.<|end|><|assistant|>" in second
    assert [(frame.first, len(frame.tools)) for frame in played.frames] == [(0, 1), (0, 2)]
    assert learned(played, tools="prompt") == [segment.token_ids for segment in played.segments]


@pytest.mark.parametrize("told", [{"tools": [TOOL]}, {}], ids=["same-tools", "no-word"])
async def test_the_same_tools_begin_nothing(told) -> None:
    service = ToldService([observed("More.", info=told), END], tools=[TOOL])
    assert len((await play(service, "Wait.", SUBMIT, chat={"tools": "prompt"})).segments) == 1


async def test_nothing_is_forgotten_where_nothing_would_be_won() -> None:
    service = ToldService([observed("word " * 300)])
    played = await play(service, "Hm.", config={"when_full": "drop_oldest", "max_context_tokens": 200})
    assert played.stop is StopReason.CONTEXT_FULL
    assert len(played.segments) == 1
