"""The progress of an episode, for both clients."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from sandbox_contract.base import JsonObject
    from sandbox_contract.episodes import (
        CreateInstanceResult,
        ForkInstanceResult,
        Observation,
        StepResult,
    )
    from sandbox_contract.messages import Tool

__all__ = ["Progress"]

logger = logging.getLogger("sandbox_client")


class Progress:
    """Progress of an episode: its instance, step index and results."""

    def __init__(
        self,
        environment: str,
        task_id: str,
        seed: int | None = None,
        params: Mapping[str, JsonValue] | None = None,
        fresh: bool = False,
    ) -> None:
        self.environment = environment
        self.task_id = task_id
        self.step_index = 0
        """Index that the next step will have."""
        self.total_reward = 0.0
        """Sum of the steps' rewards."""
        self.finished = False
        """The last step terminated or truncated the episode."""
        self._seed = seed
        self._params = params
        self._fresh = fresh
        self._instance_id: str | None = None
        self._observation: Observation | None = None
        self._tools: tuple[Tool, ...] = ()
        self._info: JsonObject = {}
        self._released = False

    def __repr__(self) -> str:
        where = self._instance_id or "not created"
        return f"<{type(self).__name__} {self.environment}/{self.task_id} {where} step {self.step_index}>"

    @property
    def instance_id(self) -> str:
        """The instance's id. Raises RuntimeError before the episode was entered."""
        if self._instance_id is None:
            raise RuntimeError("the episode has not begun; enter it with a with-statement first")
        return self._instance_id

    @property
    def observation(self) -> Observation:
        """The newest observation. Raises RuntimeError before the episode was entered."""
        if self._observation is None:
            raise RuntimeError("the episode has not begun; enter it with a with-statement first")
        return self._observation

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the agent may call."""
        return self._tools

    @property
    def info(self) -> JsonObject:
        """Return the information that the environment gave at the start."""
        return self._info

    @property
    def evaluate_s(self) -> float | None:
        """Seconds that grading may take by the task; None where it does not say."""
        seconds = self._info.get("evaluate_s")
        return float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else None

    def _created(self, result: CreateInstanceResult) -> None:
        self._instance_id = result.instance_id
        self._observation = result.observation
        self._tools = result.tools
        self._info = result.info

    def _stepped(self, result: StepResult) -> None:
        self.step_index = result.step_index + 1
        self.total_reward += result.reward
        self.finished = result.terminated or result.truncated
        self._observation = result.observation

    def _copied(self, source: Progress, instance_id: str, forked: ForkInstanceResult) -> None:
        self._instance_id = instance_id
        self._observation = source.observation
        self._tools = source.tools
        self._info = source.info
        self.step_index = forked.step_index
        self.total_reward = source.total_reward
        self.finished = source.finished

    def _release_failed(self, error: BaseException) -> None:
        why = str(error) or type(error).__name__
        logger.warning("release of %s failed, its lease will end it: %s", self._instance_id, why)
