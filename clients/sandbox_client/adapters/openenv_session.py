"""One client's connection to the OpenEnv server: messages of ``/ws``, and the answers to them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue, NonNegativeInt, ValidationError

from sandbox_client.errors import SandboxError
from sandbox_contract.images import chat_messages

from .conversation import assistant_message
from .served_episode import EpisodeOverError, ServedEpisode

if TYPE_CHECKING:
    from sandbox_client.async_client import AsyncSandboxClient
    from sandbox_contract.inspection import Environment

    from .served_episode import RewardedBy, ServedTurn

Fields: TypeAlias = "dict[str, object]"
"""A JSON object that is sent."""


class Reset(BaseModel):
    """The data of a reset; other fields are ignored, since clients add their own."""

    model_config = ConfigDict(extra="ignore")

    task_id: str | None = None
    split: str | None = None
    index: NonNegativeInt = 0
    seed: NonNegativeInt | None = None
    params: dict[str, JsonValue] = {}


class OpenEnvSession:
    """One client's connection: an episode after another."""

    def __init__(self, client: AsyncSandboxClient, environment: Environment, rewarded_by: RewardedBy) -> None:
        self._client = client
        self._environment = environment
        self._rewarded_by: RewardedBy = rewarded_by
        self._episode: ServedEpisode | None = None

    async def handle(self, text: str) -> Fields | None:
        """Return the answer to a message, or None to the one that closes the session."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            return _error(f"Invalid JSON: {error}", "INVALID_JSON")
        if not isinstance(message, dict) or not isinstance(data := message.get("data") or {}, dict):
            return _error("a message and its data are JSON objects", "VALIDATION_ERROR")
        kind = message.get("type")
        try:
            if kind == "reset":
                return await self._reset(Reset.model_validate(data))
            if kind == "step":
                return await self._step(data)
            if kind == "state":
                return {"type": "state", "data": self._state()}
            if kind == "close":
                return None
        except SandboxError as error:
            return _error(
                str(error),
                "EXECUTION_ERROR",
                problem_code=error.code,
                failure_class=error.failure_class.value,
            )
        except ValidationError as error:
            return _error(f"Invalid message: {error}", "VALIDATION_ERROR")
        except EpisodeOverError:
            return _error("the episode is over; send a reset", "SESSION_ERROR")
        return _error(f"Unknown message type: {kind}", "UNKNOWN_TYPE")

    async def end(self) -> None:
        """Release the episode, if there is one."""
        if self._episode is not None:
            await self._episode.end()
            self._episode = None

    async def _reset(self, asked: Reset) -> Fields:
        await self.end()
        name = self._environment.name
        task_id = asked.task_id
        if task_id is None:
            profile = await self._client.get_env_profile(name, asked.split, offset=asked.index, limit=1)
            if not profile.task_ids:
                return _error(f"{profile.split} has no task {asked.index}", "VALIDATION_ERROR")
            task_id = profile.task_ids[0]
        self._episode = await ServedEpisode.start(
            self._client,
            name,
            task_id,
            seed=asked.seed,
            params=asked.params,
            rewarded_by=self._rewarded_by,
            sessions=True,
        )
        episode = self._episode.episode
        messages = episode.observation.messages
        observation: Fields = {
            "text": "\n\n".join(message.content or "" for message in messages),
            "messages": chat_messages(messages),
            "tools": [tool.model_dump() for tool in episode.tools],
        }
        return _observation(observation, None, done=False, metadata=self._state())

    async def _step(self, data: dict[str, JsonValue]) -> Fields:
        if self._episode is None:
            return _error("there is no episode; send a reset first", "SESSION_ERROR")
        message = assistant_message({name: value for name, value in data.items() if name != "metadata"})
        turn = await self._episode.step(message)
        observation: Fields = {"text": turn.text, "messages": chat_messages(turn.messages)}
        if turn.tools is not None:
            observation["tools"] = [tool.model_dump() for tool in turn.tools]
        if turn.new_session:
            observation["new_session"] = True
        return _observation(observation, turn.reward, done=turn.done, metadata=self._state() | _ending(turn))

    def _state(self) -> Fields:
        if self._episode is None:
            return {"episode_id": None, "step_count": 0, "task_id": None}
        episode = self._episode.episode
        return {
            "episode_id": episode.instance_id,
            "step_count": episode.step_index,
            "task_id": episode.task_id,
        }


def _ending(turn: ServedTurn) -> Fields:
    found: Fields = {"terminated": turn.terminated, "truncated": turn.truncated}
    if turn.evaluation is not None:
        found["evaluation"] = turn.evaluation.model_dump(exclude={"instance_id"})
    return found


def _observation(observation: Fields, reward: float | None, *, done: bool, metadata: Fields) -> Fields:
    data = {"observation": observation, "reward": reward, "done": done, "metadata": metadata}
    return {"type": "observation", "data": data}


def _error(message: str, code: str, **problem: str) -> Fields:
    return {"type": "error", "data": {"message": message, "code": code, "problem": problem}}
