"""A policy by a script."""

import math
from dataclasses import replace

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.harness.template_families import chat_with
from tests.harness.tiny_chat import tiny_chat
from trainer.engines.generation import Finish, GenerationRequest, Sampling
from trainer.errors import EngineError
from trainer.rollout.scripted import Latency, ScriptedPolicy
from trainer.types import EpisodeKey, TaskRef, VersionSpan

KEY = EpisodeKey("0.1", TaskRef("code", "train", "t"), seed=7)


def request(turn: int = 0, **changes: object) -> GenerationRequest:
    key = replace(KEY, turn=turn, **changes)
    return GenerationRequest(key, (1, 2), max_tokens=32, sampling=Sampling())


async def test_lines_are_said_by_task_and_turn() -> None:
    policy = ScriptedPolicy({"t": ["one", "two"]}, tiny_chat(), version=3)
    said = [await policy.generate(request(turn)) for turn in (0, 1)]
    assert [tiny_chat().said(each.token_ids) for each in said] == ["one", "two"]
    first = said[0]
    assert first.finish is Finish.STOP
    assert first.versions == (VersionSpan(0, len(first.token_ids), 3),)
    assert len(first.logprobs) == len(first.token_ids)
    assert all(math.isfinite(each) and each <= 0 for each in first.logprobs)


async def test_a_function_may_say_what_an_episode_hears() -> None:
    policy = ScriptedPolicy(lambda key: f"{key.task.task_id} {key.seed} {key.turn}", tiny_chat())
    assert tiny_chat().said((await policy.generate(request(2))).token_ids) == "t 7 2"


async def test_messages_are_written_in_the_tokenizers_format() -> None:
    call = ToolCall(function=FunctionCall(name="python", arguments={"code": "print(1)"}))
    policy = ScriptedPolicy({"t": [Message(role="assistant", tool_calls=(call,))]}, tiny_chat())
    assert tiny_chat().said((await policy.generate(request())).token_ids) == "```python\nprint(1)\n```"


@pytest.mark.parametrize(
    ("head", "said"), [("<think>\n", "\n</think>\n\n5"), ("", "5")], ids=["opened", "not opened"]
)
async def test_a_message_closes_a_thought_only_where_the_prompt_opened_one(head, said) -> None:
    chat = chat_with("qwen3_5_think")
    policy = ScriptedPolicy({"t": [Message(role="assistant", content="5")]}, chat)
    prompt = tuple(chat.encode(f"<|im_start|>user\n2 + 3?<|im_end|>\n<|im_start|>assistant\n{head}"))
    assert chat.said((await policy.generate(replace(request(), token_ids=prompt))).token_ids) == said


async def test_a_line_is_cut_at_the_requests_limit() -> None:
    policy = ScriptedPolicy({"t": ["1234567890"]}, tiny_chat())
    said = await policy.generate(replace(request(), max_tokens=4))
    assert (said.finish, len(said.token_ids), len(said.logprobs)) == (Finish.LENGTH, 4, 4)


@pytest.mark.parametrize(("task", "turn"), [("t", 1), ("other", 0)])
async def test_a_script_without_a_line_is_an_engines_failure(task, turn) -> None:
    policy = ScriptedPolicy({"t": ["one"]}, tiny_chat())
    with pytest.raises(EngineError, match=f"{task} has no line for turn {turn}"):
        await policy.generate(request(turn, task=TaskRef("code", "train", task)))


async def test_latencies_are_the_same_in_whatever_order_turns_are_asked_for() -> None:
    async def slept(*turns: int) -> list[float]:
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)

        latency = Latency(median_s=1.0, sigma=1.0)
        policy = ScriptedPolicy({"t": ["a"] * 64}, tiny_chat(), latency=latency, seed=1, sleep=sleep)
        for turn in turns:
            await policy.generate(request(turn))
        return waits

    forth, back = await slept(*range(64)), await slept(*reversed(range(64)))
    assert forth == back[::-1]
    assert min(forth) < 0.5
    assert max(forth) > 3.0


async def test_a_latency_has_a_ceiling() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    latency = Latency(median_s=1.0, sigma=2.0, most_s=1.5)
    policy = ScriptedPolicy({"t": ["a"] * 32}, tiny_chat(), latency=latency, sleep=sleep)
    for turn in range(32):
        await policy.generate(request(turn))
    assert max(waits) == 1.5
