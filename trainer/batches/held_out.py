"""Evaluate the success rate on held-out tasks, with the same player and sandboxes as in training."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainer.appended_lines import cut_torn_line
from trainer.evaluate.forgetting import phase_outcomes
from trainer.evaluate.played import summarise
from trainer.evaluate.results import append_evaluation, read_evaluations
from trainer.tasks.create_params import create_params
from trainer.types import GroupSpec

if TYPE_CHECKING:
    from trainer.config import BatchSettings
    from trainer.evaluate.results import EvaluationResult, When
    from trainer.rollout.attempts import Attempts
    from trainer.types import TaskRef

    from .assemble import Score


_SALT = 7_919
"""Keeps the seeds of evaluations apart from those of training."""


class HeldOut:
    """Plays every held-out task, with the same seeds each time, so that evaluations are comparable."""

    def __init__(
        self,
        attempts: Attempts,
        settings: BatchSettings,
        tasks: Sequence[TaskRef],
        file: Path,
        score: Score,
    ) -> None:
        """``file`` keeps the results; ``score`` composes the rewards of episodes."""
        cut_torn_line(file)
        evaluation, rollout = settings.evaluation, settings.rollout
        self._file = file
        self._score = score
        self._rewarded = settings.reward.is_graded_by_environment
        self._attempts = attempts
        self._episodes = evaluation.episodes
        self._max_turns = rollout.max_turns
        self._params = {
            source: create_params(rollout, settings.tasks, source, evaluation.params)
            for source in {task.source for task in tasks}
        }
        self._seed = settings.seed
        self._steps = settings.steps
        # Those of reinforcement learning come after them.
        self._offline_steps = settings.offline_steps
        self._phases = settings.tasks.phases
        self._tasks = tuple(tasks)
        self._sampling = rollout.sampling.model_copy(update={"temperature": evaluation.temperature})

    async def evaluate(self, step: int) -> Mapping[str, float]:
        """Return the metrics after so many steps of reinforcement learning, from the file if it has them."""
        updates = step + self._offline_steps
        for known in read_evaluations(self._file):
            if known.step == updates and known.when != "alone":
                return {**figures(known), **self._forgetting(step)}
        when: When = "before" if step == 0 else "after" if step == self._steps else "during"
        result = await self.play(updates, when)
        append_evaluation(self._file, result)
        return {**figures(result), **self._forgetting(step)}

    def _forgetting(self, step: int) -> dict[str, float]:
        """Return the average forgetting if this is the end of a phase that has one."""
        evaluations = read_evaluations(self._file) if self._phases else ()
        outcomes = phase_outcomes(self._phases, evaluations, self._offline_steps)
        average = next((each.average for each in outcomes if each.step == step), None)
        return {} if average is None else {"evaluation/forgetting": average}

    async def play(self, step: int, when: When) -> EvaluationResult:
        """Play all episodes of all tasks; ``step`` is only recorded. Raises the errors that end a run."""
        began = asyncio.get_running_loop().time()
        specs = [
            GroupSpec(
                index=-1 - place,
                task=task,
                seed=int(np.random.SeedSequence([self._seed, _SALT, place]).generate_state(1)[0] >> 2),
                size=self._episodes,
                max_turns=self._max_turns,
                params=self._params[task.source],
            )
            for place, task in enumerate(self._tasks)
        ]
        tasks = [
            asyncio.create_task(self._attempts.play_episode(spec, member, self._sampling))
            for spec in specs
            for member in range(spec.size)
        ]
        try:
            played = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        seconds = asyncio.get_running_loop().time() - began
        rewarded = [
            self._score(each.trajectory.without_counterpart(), self._max_turns).trajectory for each in played
        ]
        return summarise(rewarded, step=step, when=when, seconds=seconds, rewarded=self._rewarded)


def figures(result: EvaluationResult) -> dict[str, float]:
    """Return the evaluation as metrics; rates are absent where no episode has a verdict.

    The seconds are those in which it was played, also where it is read from the file again.
    """
    metrics = {"evaluation/failures": float(result.failures)}
    if result.seconds:
        metrics["time/evaluate"] = result.seconds
    if not result.episodes:
        return metrics
    by_difficulty = {
        f"evaluation/success/{name}": part.success_rate
        for name, part in result.by_difficulty().items()
        if name
    }
    by_source = {f"evaluation/source/{name}": part.success_rate for name, part in result.by_source().items()}
    rates = {
        "evaluation/success": result.success_rate,
        "evaluation/low": result.interval.low,
        "evaluation/high": result.interval.high,
        "evaluation/score": result.mean_score,
        **by_difficulty,
        **by_source,
    }
    return metrics | {name: rate for name, rate in rates.items() if rate is not None}
