"""Each agent's package, unmodified, over the real gateway: its calls are understood, recorded and spliced."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from sandbox_contract.messages import FunctionCall, Message, ToolCall
from tests.fakes.served_episode import ServedEpisode
from tests.harness.agent_packages import AGENTS, ROOT, agent_python
from tests.harness.model_calls import trained
from tests.harness.served_gateway import served
from trainer.model_gateway.forest import Break

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

AGENT_S = 600
PLENTY = 16_000
SPLICING = [name for name in AGENTS if name != "smolagents"]


def calls(*named):
    """Return the model's message that calls tools, each given as its name and one argument."""
    made = [
        ToolCall(function=FunctionCall(name=name, arguments=json.dumps(arguments)))
        for name, arguments in named
    ]
    return Message(role="assistant", content="", tool_calls=tuple(made))


def lines(name):
    """A program and its answer, as the agent's tools take them."""
    program, end = ("python", {"code": "print(37+58)"}), ("submit", {"answer": "95"})
    if name == "smolagents":
        end = ("final_answer", {"answer": "95"})
    if name == "mini_swe_agent":
        program = ("bash", {"command": "echo $((37+58)) > answer.txt"})
        end = ("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})
    return program, end


async def play(name, at):
    """Run an agent's command until it ends; its exit status."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "OPENAI_BASE_URL": f"{at.gateway.url}/v1",
        "OPENAI_API_KEY": at.session.api_key,
        "AGENT_MODEL": "policy",
        "AGENT_EPISODE_URL": f"{at.gateway.url}/episode",
    }
    script = ROOT / "examples" / name / "agent.py"
    process = await asyncio.create_subprocess_exec(agent_python(name), script, env=variables)
    try:
        return await asyncio.wait_for(process.wait(), AGENT_S)
    finally:
        if process.returncode is None:
            process.kill()


async def recorded(at):
    """The recording, in which each token that the policy sampled is trained once."""
    recording = await at.session.close()
    sampled = [token for each in at.policy.sampled for token in each.token_ids]
    assert sorted(token for tokens in trained(recording.segments) for token in tokens) == sorted(sampled)
    assert [call.error for call in recording.calls] == [""] * len(at.policy.sampled)
    return recording


@pytest.mark.parametrize("notice", ["killed: it ran longer than 30 s", "the process died: out of memory"])
async def test_mini_swe_agent_takes_no_killed_command_for_one_that_succeeded(notice):
    agent_python("mini_swe_agent")
    line = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
    killed, end = ("bash", {"command": f"{line}\n[{notice}]"}), ("bash", {"command": line})
    episode = ServedEpisode()
    async with served(
        calls(killed), calls(end), extra_routes=episode.list_routes(), context_tokens=PLENTY
    ) as at:
        assert await play("mini_swe_agent", at) == 0
        recording = await recorded(at)
    assert len(recording.calls) == 2


@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_plays_its_episode_and_every_sampled_token_is_recorded(name):
    agent_python(name)
    program, end = lines(name)
    episode = ServedEpisode()
    script = (calls(program), calls(end), "Done.")
    async with served(*script, extra_routes=episode.list_routes(), context_tokens=PLENTY) as at:
        assert await play(name, at) == 0
        recording = await recorded(at)
    called = [argument for _, argument in episode.calls]
    assert called[0] in program[1].values()
    assert called[-1] in {"95", end[1].get("command")}
    assert all(call.spliced for call in recording.calls[1:]) == (name in SPLICING)


@pytest.mark.parametrize("name", SPLICING)
async def test_thoughts_and_several_calls_in_one_answer_stay_one_sequence(name):
    agent_python(name)
    program, end = lines(name)
    thinking = "<think>\nIt is a sum.\n</think>\n\nI calculate.\n"
    twice = "\n".join(
        f"<tool_call>\n{json.dumps({'name': program[0], 'arguments': program[1]})}\n</tool_call>"
        for _ in range(2)
    )
    episode = ServedEpisode()
    script = (thinking + twice, calls(end), "Done.")
    async with served(*script, extra_routes=episode.list_routes(), context_tokens=PLENTY) as at:
        assert await play(name, at) == 0
        recording = await recorded(at)
    assert len(episode.calls) == 3
    assert len(recording.segments) == 1
    assert [call.spliced for call in recording.calls[:2]] == [False, True]


async def test_smolagents_rewrites_its_history_so_that_each_call_is_a_sequence():
    agent_python("smolagents")
    program, end = lines("smolagents")
    episode = ServedEpisode()
    script = (calls(program), calls(end))
    async with served(*script, extra_routes=episode.list_routes(), context_tokens=PLENTY) as at:
        assert await play("smolagents", at) == 0
        recording = await recorded(at)
    assert [call.because for call in recording.calls] == [Break.FIRST, Break.REWRITTEN]
    assert len(recording.segments) == 2


@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_ends_when_its_budget_does(name):
    agent_python(name)
    program, _ = lines(name)
    episode = ServedEpisode()
    async with served(
        calls(program), extra_routes=episode.list_routes(), context_tokens=PLENTY, turns=2
    ) as at:
        await play(name, at)
        recording = await recorded(at)
    assert len(at.policy.sampled) == 2
    assert recording.limit == "horizon"
