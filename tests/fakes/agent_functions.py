"""Agents as their authors write them, good and bad: functions, and a command that runs one of them.

python -m tests.fakes.agent_functions NAME

The openai package is imported by those that use it: it takes longer to import than all else in a host.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from typing import Any

import httpx

from sandbox_client import AgentEpisode, SyncAgentEpisode

__all__ = ["PLAIN"]

HALF_A_CHARACTER = r'{"path": "a\ud83d"}'


async def loop(episode: AgentEpisode) -> None:
    """The loop that most agents are."""
    import openai

    async with openai.AsyncOpenAI(base_url=episode.base_url, api_key=episode.api_key) as model:
        messages: list[Any] = [*episode.messages]
        while not episode.finished:
            answered = await model.chat.completions.create(model=episode.model, messages=messages)
            messages.append(answered.choices[0].message)
            messages += await episode.step(answered.choices[0].message)


def loop_in_thread(episode: SyncAgentEpisode) -> None:
    """The same, as a plain function."""
    import openai

    with openai.OpenAI(base_url=episode.base_url, api_key=episode.api_key) as model:
        messages: list[Any] = [*episode.messages]
        while not episode.finished:
            answered = model.chat.completions.create(model=episode.model, messages=messages)
            messages.append(answered.choices[0].message)
            messages += episode.step(answered.choices[0].message)


def ask(episode: AgentEpisode | SyncAgentEpisode) -> None:
    """One call of the model."""
    answer = httpx.post(
        f"{episode.base_url}/chat/completions",
        json={"model": episode.model, "messages": list(episode.messages)},
        headers={"Authorization": f"Bearer {episode.api_key}"},
        timeout=600,
    )
    answer.raise_for_status()


def raises(episode: SyncAgentEpisode) -> None:
    """Fail after an answer."""
    ask(episode)
    raise ValueError("the agent gives up")


def quotes_half_a_character(episode: SyncAgentEpisode) -> None:
    """Fail after an answer with half of a surrogate pair, which JSON of a model can escape."""
    ask(episode)
    raise ValueError(f"no such file: {json.loads(HALF_A_CHARACTER)['path']}")


async def exits(episode: AgentEpisode) -> None:
    """Leave as a program does, after an answer."""
    await asyncio.to_thread(ask, episode)
    sys.exit(3)


async def never_ends(episode: AgentEpisode) -> None:
    """Wait for nothing, after an answer."""
    await asyncio.to_thread(ask, episode)
    await asyncio.sleep(3600)


def never_ends_in_thread(episode: SyncAgentEpisode) -> None:
    """The same, where nothing can interrupt it."""
    ask(episode)
    threading.Event().wait()


async def kills_its_host(episode: AgentEpisode) -> None:
    """End the whole process."""
    await asyncio.to_thread(ask, episode)
    os._exit(1)


async def tells_its_environment(episode: AgentEpisode) -> None:
    """Fail with what it was given."""
    await asyncio.to_thread(ask, episode)
    names = ("OWN", "SECRET", "PYTHONPATH")
    raise ValueError(" ".join(f"{name}={os.environ.get(name)}" for name in names))


PLAIN = {"loop": loop_in_thread, "raises": raises}


def main(name: str) -> None:
    """Run a plain function as a command."""
    sys.stdout.write("the command begins\n")
    sys.stdout.flush()
    with SyncAgentEpisode.from_environment() as episode:
        PLAIN[name](episode)


if __name__ == "__main__":
    main(sys.argv[1])
