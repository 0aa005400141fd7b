"""The smallest agent: it answers in text, and the environment reads what it wrote."""

from __future__ import annotations

from openai import AsyncOpenAI

from sandbox_client.agent import AgentEpisode


async def play(episode: AgentEpisode) -> None:
    """Play one episode."""
    messages = [*episode.messages]
    async with AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key) as model:
        while not episode.finished:
            answered = await model.chat.completions.create(model=episode.model, messages=messages)
            messages.append(answered.choices[0].message)
            messages += await episode.step(answered.choices[0].message)
