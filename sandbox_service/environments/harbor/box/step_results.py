"""Decide about a task by the results of its steps: which tests run next, or the verdict.

The tests run elsewhere: in the box of the agent, or in those of verifiers. A result is an object with the
``rewards`` of a step, or with a ``note`` that says why it has the least ones; a ``reason`` ends the task.
Standard library only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sandbox_service.runner.world import Verdict

from .rewards import KEY, RewardError, combine, falls_short, score_of

if TYPE_CHECKING:
    from sandbox_service.wire.json_types import JsonObject

_DONE = 1.0 - 1e-9
_NO_RESULT = "the grading of a step was broken off"
_CAUSES = ("exhausted", "exception")
"""Keys of what a world says of a grading that it did not end."""


@dataclass(frozen=True, slots=True)
class DueTests:
    """Tests of a step that run next."""

    index: int
    """The number of the step, from 0."""
    untouched: bool = False
    """They run on the task's untouched files, and not on what the agent left."""


def untested(note: str) -> JsonObject:
    """Return the result of a step that has nothing to test."""
    return {"note": note}


class StepResults:
    """The results of one grading, in the order in which they were asked for."""

    def __init__(self, grading: JsonObject, reached: int) -> None:
        """``reached`` is the number of steps that the agent has begun."""
        self._steps: list[JsonObject] = grading["steps"]
        self._strategy: str = grading["strategy"]
        self._least: float = grading["reward_range"][0]
        self._reached = reached

    def decide(self, results: Sequence[JsonObject]) -> DueTests | Verdict:
        """Return the tests that run next, or the verdict.

        Raises RewardError when the tests give no score on the task's untouched files either.
        """
        found: list[JsonObject] = []
        cut_short = False
        for index, step in enumerate(self._steps):
            if index >= self._reached:
                result = untested("not reached")
            elif index < len(results):
                result = results[index]
            else:
                return DueTests(index)
            if "reason" in result or not ("rewards" in result or "note" in result):
                return self._broken_off(result, index)
            found.append(result)
            if self._falls_short(result, step["min_reward"]) and index + 1 < len(self._steps):
                cut_short = True
                break
        shown = self._completed(found)
        total = combine([result["rewards"] for result in shown], self._strategy)
        try:
            score = score_of(total)
        except RewardError as error:
            return self._prove(str(error), results, len(shown))
        details: JsonObject = {"rewards": total}
        if len(self._steps) > 1:
            details |= {"steps": shown, "ended_by_min_reward": cut_short}
        elif "note" in shown[0]:
            details["note"] = shown[0]["note"]
        return Verdict(score, success=score >= _DONE, details=details)

    def _falls_short(self, result: JsonObject, thresholds: dict[str, float]) -> bool:
        return falls_short(result.get("rewards", dict.fromkeys(thresholds, self._least)), thresholds)

    def _completed(self, results: Sequence[JsonObject]) -> list[JsonObject]:
        """Return names, rewards and notes of steps; untested ones have the least reward of each key.

        The keys are those of the tested steps, so that the mean has no other ones. Where these are no score,
        the least one has the key of a score.
        """
        tested = [result["rewards"] for result in results if "rewards" in result]
        keys = {key for rewards in tested for key in rewards}
        least = dict.fromkeys(sorted(keys) if len(keys) == 1 or KEY in keys else [KEY], self._least)
        return [
            {
                "step": step["name"],
                "rewards": result.get("rewards", least),
                **({"note": result["note"]} if "note" in result else {}),
            }
            for step, result in zip(self._steps, results, strict=False)
        ]

    def lowest(self, reason: str, suspects: Sequence[int] = ()) -> Verdict:
        """Return the lowest score, for what the agent did in these steps."""
        details: JsonObject = {"rewards": {KEY: self._least}, "reason": reason}
        if len(self._steps) > 1 and suspects:
            details["steps"] = [self._steps[index]["name"] for index in suspects]
        return Verdict(self._least, success=False, details=details)

    def _broken_off(self, result: JsonObject, index: int) -> Verdict:
        """Return the lowest score for a step without usable rewards, with what its box says of the cause."""
        cause = {name: result[name] for name in _CAUSES if name in result}
        reason = ": ".join([_NO_RESULT, *map(str, cause.values())])
        found = self.lowest(result.get("reason", reason), [index])
        return Verdict(found.score, found.success, {**found.details, **cause})

    def _prove(self, reason: str, results: Sequence[JsonObject], graded: int) -> DueTests | Verdict:
        """Return the lowest score if the rewards of untouched files add up to one.

        They come behind the results of the ``graded`` steps.
        """
        proofs = results[graded:]
        if len(proofs) < graded:
            return DueTests(len(proofs), untouched=True)
        try:
            score_of(combine([_rewards_of(proof) for proof in proofs], self._strategy))
        except RewardError as own:
            raise RewardError(f"{reason}; on the task's untouched files {own}") from None
        return self.lowest(reason, range(graded))


def _rewards_of(proof: JsonObject) -> dict[str, float]:
    if "rewards" not in proof:
        causes = [str(proof[name]) for name in _CAUSES if name in proof]
        raise RewardError(": ".join([_NO_RESULT, *causes]))
    rewards: dict[str, float] = proof["rewards"]
    return rewards
