"""A Gymnasium environment whose actions and observations are texts.

    import gymnasium
    import sandbox_client.adapters.gymnasium  # registers "sandbox/Episode-v0"

    env = gymnasium.make(
        "sandbox/Episode-v0", base_url="http://127.0.0.1:8080", environment="textcraft"
    )
    observation, info = env.reset(seed=0)
    observation, reward, terminated, truncated, info = env.step("inventory")

``reset`` starts an episode of a task, chosen at random from the split or named by
``options={"task_id": ...}``. Source of the interface: https://gymnasium.farama.org/api/env/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Space

from sandbox_client.counterparts import refuse_counterpart
from sandbox_client.errors import CounterpartFailed
from sandbox_client.sync_client import SandboxClient
from sandbox_contract.images import chat_messages

from .conversation import assistant_message, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import JsonValue

    from sandbox_client.episodes import Episode
    from sandbox_contract.episodes import StepResult

    from .conversation import Words

ID = "sandbox/Episode-v0"
_SAMPLED_LETTERS = 16


class MessageSpace(Space[str]):  # type: ignore[misc]
    """All texts. Gymnasium's own Text space has a fixed alphabet and a greatest length."""

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(dtype=str, seed=seed)

    def sample(self, mask: object = None, probability: object = None) -> str:
        """Return a random word of lower-case letters; masks are ignored."""
        return "".join(map(chr, self.np_random.integers(ord("a"), ord("z") + 1, _SAMPLED_LETTERS)))

    def contains(self, x: object) -> bool:
        """Return whether ``x`` is a text."""
        return isinstance(x, str)

    @property
    def is_np_flattenable(self) -> bool:
        """A text has no flat array."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessageSpace)

    __hash__ = Space.__hash__


class SandboxEnv(gymnasium.Env[str, "Words"]):  # type: ignore[misc]
    """Episodes of one environment of a service, one after the other.

    With ``reward="evaluation"`` the reward of the last step is the evaluation's score and that of all others
    is 0; with ``reward="steps"`` rewards are those of the steps. After the last step ``info["evaluation"]``
    has the verdict in both cases. ``max_steps`` truncates episodes after so many steps; that of
    ``gymnasium.make(max_episode_steps=...)`` is not the last step here, and has no verdict. Calls raise the
    errors of ``sandbox_client.errors``.
    """

    metadata: ClassVar[dict[str, object]] = {"render_modes": ["ansi"]}
    observation_space = MessageSpace()
    action_space = MessageSpace()

    def __init__(  # noqa: PLR0913 - the keywords of ``gymnasium.make``
        self,
        base_url: str,
        environment: str,
        *,
        split: str | None = None,
        task_ids: Sequence[str] | None = None,
        api_key: str | None = None,
        params: Mapping[str, JsonValue] | None = None,
        reward: Literal["evaluation", "steps"] = "evaluation",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        if reward not in ("evaluation", "steps"):
            raise ValueError(f'reward is "evaluation" or "steps", not {reward!r}')
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps is at least 1, not {max_steps}")
        self.render_mode = render_mode
        self._client = SandboxClient(base_url, api_key)
        self._environment = environment
        self._split = split
        self._task_ids = None if task_ids is None else tuple(task_ids)
        self._params = params
        self._rewarded_by = reward
        self._max_steps = max_steps
        self._steps = 0
        self._episode: Episode | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[str, dict[str, object]]:
        """Release the last episode and start the next one.

        ``options`` may have ``task_id``. A seed selects the task and seeds the episode. Returns the opening
        messages as a text, and ``info`` with ``task_id``, ``instance_id``, ``tools`` and
        ``messages``. Raises CounterpartFailed for an episode whose counterpart is a model.
        """
        super().reset(seed=seed)
        self._release()
        task_id = str((options or {}).get("task_id") or self._choose_task())
        episode = self._client.episode(self._environment, task_id, seed=seed, params=self._params)
        self._episode = episode.__enter__()
        self._steps = 0
        try:
            refuse_counterpart(episode.info)
        except CounterpartFailed:
            self._release()
            raise
        info: dict[str, object] = {
            "task_id": task_id,
            "instance_id": episode.instance_id,
            "tools": [tool.model_dump() for tool in episode.tools],
            **self._messages(),
        }
        return text_of(episode.observation.messages), info

    def step(self, action: Words) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Send an assistant message: its text, or a mapping with ``content`` and ``tool_calls``.

        Raises gymnasium.error.ResetNeeded before the first reset and after the end of an episode, and
        CounterpartFailed, which ends the episode, when a model would have to play its counterpart.
        """
        if self._episode is None or self._episode.finished or self._steps == self._max_steps:
            raise ResetNeeded("there is no episode to step; call reset() first")
        result = self._episode.step(assistant_message(action))
        self._steps += 1
        try:
            refuse_counterpart(result.info)
        except CounterpartFailed:
            # The instance would take a further step for the counterpart's message.
            self._release()
            raise
        info: dict[str, object] = {"step": dict(result.info), **self._messages()}
        reward = result.reward if self._rewarded_by == "steps" else 0.0
        truncated = result.truncated or (self._steps == self._max_steps and not result.terminated)
        if result.terminated or truncated:
            reward = self._evaluate(result, info)
        return text_of(result.observation.messages), reward, result.terminated, truncated, info

    def render(self) -> str | None:
        """Return the newest observation with ``render_mode="ansi"``, otherwise nothing."""
        if self.render_mode != "ansi" or self._episode is None:
            return None
        return text_of(self._episode.observation.messages)

    def close(self) -> None:
        """Release the episode and close the connections."""
        self._release()
        self._client.close()

    def _evaluate(self, result: StepResult, info: dict[str, object]) -> float:
        assert self._episode is not None
        verdict = self._episode.evaluate()
        info["evaluation"] = verdict.model_dump(exclude={"instance_id"})
        return verdict.score if self._rewarded_by == "evaluation" else result.reward

    def _choose_task(self) -> str:
        if self._task_ids is None:
            self._task_ids = self._client.get_env_profile(self._environment, self._split).task_ids
        if not self._task_ids:
            raise ValueError(f"{self._environment} has no tasks in this split")
        return self._task_ids[int(self.np_random.integers(len(self._task_ids)))]

    def _messages(self) -> dict[str, object]:
        assert self._episode is not None
        return {"messages": chat_messages(self._episode.observation.messages)}

    def _release(self) -> None:
        if self._episode is not None:
            self._episode.release()
            self._episode = None


gymnasium.register(ID, entry_point=SandboxEnv, disable_env_checker=True, order_enforce=False)
