"""Rewards by trained models, added to an episode when it is played.

A model of whole episodes gives its last turn a score, a process reward model gives each turn probabilities;
both become measurements of the turns (``trainer/reward/learned.py``), so that an episode is scored once,
whatever is restarted afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from trainer.advantage.step_estimation import probabilities
from trainer.config.learned_reward import STAGE, LearnedRewardConfig, ProcessRewardConfig
from trainer.errors import ConfigError, RewardFailed
from trainer.reward.learned import LEARNED, PROCESS
from trainer.reward_models.guards import pessimistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trainer.reward_models.note import RewardModelNote
    from trainer.reward_models.rows import EpisodeReader, ScoredRow
    from trainer.types import Trajectory


class RowScorer(Protocol):
    """A reward model, in this process or at a URL."""

    async def score_rows(self, rows: Sequence[ScoredRow]) -> list[NDArray[np.float32]]:
        """Return the outputs of rows, (ends, D). Raises RewardFailed, also after its own deadline."""
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class OpenedModel(Protocol):
    """An opened reward model."""

    @property
    def name(self) -> str:
        """Its folder or URL."""
        ...

    @property
    def note(self) -> RewardModelNote:
        """Its description."""
        ...

    @property
    def scorer(self) -> RowScorer:
        """Its scores."""
        ...

    @property
    def reader(self) -> EpisodeReader:
        """Makes its rows of an episode."""
        ...


class LearnedRewards:
    """Adds the scores of one setting's models to episodes."""

    def __init__(self, config: LearnedRewardConfig, open_model: Callable[[str], OpenedModel]) -> None:
        """``open_model`` opens a member of ``config.models`` in a thread; it may raise ConfigError."""
        self._config = config
        self._open_model = open_model
        self._opening: asyncio.Task[None] | None = None
        self._models: tuple[OpenedModel, ...] = ()

    async def add_reward(self, trajectory: Trajectory) -> Trajectory:
        """Return the episode with measurements. Raises RewardFailed; ConfigError for unusable models."""
        config = self._config
        agent = trajectory.without_counterpart()
        if not agent.turns:
            return trajectory
        models = await self._opened()
        outputs = await asyncio.gather(*(self._outputs(each, agent) for each in models))
        if isinstance(config, ProcessRewardConfig):
            return _with_terms(trajectory, self._step_terms(models, outputs, config))
        members = [self._scaled(model, found) for model, found in zip(models, outputs, strict=True)]
        score = float(pessimistic(members, config.bound, config.deviations))
        score = max(score, -np.inf if config.least is None else config.least)
        score = min(score, np.inf if config.most is None else config.most)
        return _with_terms(trajectory, [{}] * (len(agent.turns) - 1) + [{LEARNED: score}])

    async def close(self) -> None:
        """Close the models, also those that are being opened."""
        if self._opening is not None:
            await asyncio.gather(self._opening, return_exceptions=True)
        await asyncio.gather(*(model.scorer.close() for model in self._models))

    async def check_models(self) -> None:
        """Open and close the models that exist before the run. Raises ConfigError, RewardFailed."""
        for name in self._config.models:
            if not name.startswith(STAGE):
                model = await asyncio.to_thread(self._open_model, name)
                await model.scorer.close()
                _check(model, self._config)

    async def _opened(self) -> tuple[OpenedModel, ...]:
        """Return the models, which the first episode has opened. Another waits, also if that one ends."""
        if not self._models:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.create_task(self._open_all(), name="reward models")
            await asyncio.shield(self._opening)
        return self._models

    async def _open_all(self) -> None:
        names = self._config.models
        found = [await asyncio.to_thread(self._open_model, name) for name in names]
        for model in found:
            _check(model, self._config)
        self._models = tuple(found)

    async def _outputs(self, model: OpenedModel, trajectory: Trajectory) -> NDArray[np.float64]:
        """Return the outputs at each turn's end, (turns, D)."""
        rows = model.reader.read_episode(trajectory)
        found = await model.scorer.score_rows(rows)
        outputs = np.concatenate(found).astype(np.float64) if found else np.zeros((0, 1))
        if len(outputs) != len(trajectory.turns):
            raise RewardFailed(
                f"the messages of episode {trajectory.id} show {len(outputs)} turns, and it has "
                f"{len(trajectory.turns)}"
            )
        if not np.isfinite(outputs).all():
            raise RewardFailed(f"the reward model {model.name} gave a score that is no finite number")
        return outputs

    def _scaled(self, model: OpenedModel, outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        score: NDArray[np.float64] = outputs[-1, 0]
        return (score - model.note.mean) / model.note.deviation if self._config.normalize else score

    def _step_terms(
        self,
        models: Sequence[OpenedModel],
        outputs: Sequence[NDArray[np.float64]],
        config: ProcessRewardConfig,
    ) -> list[dict[str, float]]:
        bounded = {}
        for name in config.dimensions:
            columns = [
                probabilities(found[:, model.note.dimensions.index(name)])
                for model, found in zip(models, outputs, strict=True)
            ]
            bounded[name] = np.clip(pessimistic(columns, config.bound, config.deviations), 0.0, 1.0)
        count = len(outputs[0])
        return [
            {f"{PROCESS}{name}": float(each[turn]) for name, each in bounded.items()} for turn in range(count)
        ]


def _check(model: OpenedModel, config: LearnedRewardConfig) -> None:
    """Raise ConfigError where a model is of the other kind, or lacks a dimension."""
    process = isinstance(config, ProcessRewardConfig)
    setting = "reward.process" if process else "reward.learned"
    if (model.note.kind == "process") != process:
        wanted = "a process reward model" if process else "a reward model of whole episodes"
        raise ConfigError(f"{setting}.models: {model.name} is not {wanted}; its kind is {model.note.kind}")
    if isinstance(config, ProcessRewardConfig):
        missing = sorted(set(config.dimensions) - set(model.note.dimensions))
        if missing:
            raise ConfigError(
                f"{setting}.dimensions: {model.name} has no {', '.join(missing)}; its dimensions are "
                f"{', '.join(model.note.dimensions)}"
            )


def _with_terms(trajectory: Trajectory, terms: Sequence[Mapping[str, float]]) -> Trajectory:
    """Return the episode with further measurements of the agent's turns."""
    given = iter(terms)
    segments = [
        replace(
            segment,
            turns=tuple(replace(turn, terms={**turn.terms, **next(given)}) for turn in segment.turns),
        )
        if segment.is_agents
        else segment
        for segment in trajectory.segments
    ]
    return replace(trajectory, segments=tuple(segments))
