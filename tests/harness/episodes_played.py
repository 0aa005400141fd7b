"""Episodes as they might have been played, written down by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainer.types import FailureNote, Segment, StopReason, TaskRef, Trajectory, Turn

FAILURE = FailureNote("sandbox", "box_lost", "the box died", "step")


def played(
    *terms: Mapping[str, float],
    rewards: Sequence[float] = (),
    tokens: Sequence[int] = (),
    score: float | None = 1.0,
    success: bool | None = True,
    failure: FailureNote | None = None,
    weight: float = 1.0,
) -> Trajectory:
    """One segment, with a turn for each of ``terms``, of one token unless ``tokens`` says otherwise."""
    sizes = list(tokens) or [1] * len(terms)
    turns: list[Turn] = []
    start = 1
    for index, facts in enumerate(terms):
        reward = rewards[index] if rewards else 0.0
        turns.append(Turn(start, start + sizes[index], (), reward=reward, terms=dict(facts)))
        start += sizes[index]
    segment = Segment((0,) * start, (False, *(True,) * (start - 1)), (0.0,) * start, tuple(turns))
    return Trajectory(
        id="0.0",
        task=TaskRef("code", "train", "1"),
        seed=0,
        segments=(segment,),
        stop=StopReason.FAILED if failure else StopReason.TERMINATED,
        score=score,
        success=success,
        failure=failure,
        weight=weight,
    )
