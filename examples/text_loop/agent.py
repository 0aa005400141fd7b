"""The smallest agent: it answers in text, and the environment reads what it wrote."""

from __future__ import annotations

from openai import AsyncOpenAI, DefaultAioHttpClient

from sandbox_client.agent import AgentEpisode

CONNECTIONS = DefaultAioHttpClient()
"""Shared by all episodes: each new one reads the machine's certificates, which takes 20 ms of CPU time."""


async def play(episode: AgentEpisode) -> None:
    """Play one episode."""
    model = AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key, http_client=CONNECTIONS)
    messages = [*episode.messages]
    while not episode.finished:
        answered = await model.chat.completions.create(model=episode.model, messages=messages)
        messages.append(answered.choices[0].message)
        messages += await episode.step(answered.choices[0].message)
