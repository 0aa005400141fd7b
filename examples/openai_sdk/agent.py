"""A loop over the OpenAI SDK: it calls the tools that the model asks for, until the model asks for none."""

from __future__ import annotations

import asyncio

from openai import AsyncOpenAI, DefaultAioHttpClient

from sandbox_client.agent import AgentEpisode

CONNECTIONS = DefaultAioHttpClient()
"""Shared by all episodes: each new one reads the machine's certificates, which takes 20 ms of CPU time."""


async def solve(episode: AgentEpisode) -> None:
    """Play one episode."""
    client = AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, http_client=CONNECTIONS)
    messages = [*episode.messages]
    while not episode.finished:
        completion = await client.chat.completions.create(
            model=episode.model, messages=messages, tools=episode.tools
        )
        answer = completion.choices[0].message
        if not answer.tool_calls:
            return
        messages.append(answer.model_dump(exclude_none=True))
        messages += await episode.step(answer)


async def main() -> None:
    """Play the episode that the environment variables name."""
    async with CONNECTIONS, AgentEpisode.from_environment() as episode:
        await solve(episode)


if __name__ == "__main__":
    asyncio.run(main())
