"""An agent of the OpenAI Agents SDK, over Responses. Its tools are those of the episode."""

from __future__ import annotations

import asyncio

from agents import Agent, FunctionTool, OpenAIResponsesModel, Runner, set_tracing_disabled
from agents.tool_context import ToolContext
from openai import AsyncOpenAI, DefaultAioHttpClient

from sandbox_client.agent import AgentEpisode

set_tracing_disabled(True)  # traces would be sent to the SDK's vendor

CONNECTIONS = DefaultAioHttpClient()
"""Shared by all episodes: each new one reads the machine's certificates, which takes 20 ms of CPU time."""


async def solve(episode: AgentEpisode) -> None:
    """Play one episode."""
    client = AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, http_client=CONNECTIONS)
    agent = Agent(
        name="solver",
        model=OpenAIResponsesModel(episode.model, client),
        tools=[_tool(episode, tool["function"]) for tool in episode.tools],
    )
    await Runner.run(agent, list(episode.messages), max_turns=50)


def _tool(episode: AgentEpisode, function: dict) -> FunctionTool:
    async def call(_: ToolContext, arguments: str) -> str:
        return await episode.call_tool(function["name"], arguments)

    return FunctionTool(
        name=function["name"],
        description=function["description"],
        params_json_schema=function["parameters"],
        on_invoke_tool=call,
        strict_json_schema=False,
    )


async def main() -> None:
    """Play the episode that the environment variables name."""
    async with CONNECTIONS, AgentEpisode.from_environment() as episode:
        await solve(episode)


if __name__ == "__main__":
    asyncio.run(main())
