"""A policy that finds the errors of its reward model is held by the guards, and betrayed by the alarm.

An answer has a quality and a length. The reward models have seen short answers only, of which the longer ones
were the better ones: beyond that they go by what they began with. In truth, long answers are worse. A policy
climbs the learned reward by policy gradients.
"""

from dataclasses import dataclass

import numpy as np
import pytest

from trainer.reward_models.guards import AgreementAlarm, ComparedStep, pessimistic, rank_correlation

STEPS = 120
SEEN = 1.0
"""Greatest length in the data."""
KNEES = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])


def truth(answers):
    quality, length = answers.T
    return 0.5 * quality + np.minimum(length, SEEN) - 0.5 * np.maximum(length - SEEN, 0.0)


def features(answers):
    quality, length = answers.T
    return np.column_stack([np.ones_like(quality), quality, np.maximum(length[:, None] - KNEES, 0.0)])


def fitted(seed: int):
    """A member: gradient descent from random weights, of which the data leaves some as they were."""
    rng = np.random.default_rng(seed)
    quality = rng.uniform(0, 0.6, 200)
    answers = np.column_stack([quality, np.clip(quality + rng.normal(0, 0.2, 200), 0, SEEN)])
    inputs, targets = features(answers), truth(answers) + rng.normal(0, 0.1, 200)
    weights = rng.normal(0, 0.5, inputs.shape[1])
    for _ in range(3000):
        weights -= 0.3 * inputs.T @ (inputs @ weights - targets) / len(targets)
    return weights


@dataclass
class Climbed:
    """The end of a policy."""

    true: list[float]
    learned: list[float]
    alarms: list[str | None]


def climb(members, bound: str, deviations: float = 2.0, most: float = np.inf) -> Climbed:
    rng = np.random.default_rng(0)
    mean = np.array([0.3, 0.3])
    alarm = AgreementAlarm(window=10, least_correlation=0.0)
    found = Climbed([], [], [])
    for _ in range(STEPS):
        noise = rng.normal(0, 0.1, (64, 2))
        answers = np.clip(mean + noise, [0, 0], [1, 6])
        scores = [features(answers) @ weights for weights in members]
        learned = np.minimum(pessimistic(scores, bound, deviations), most)
        true = truth(answers)
        advantages = (learned - learned.mean()) / (learned.std() + 1e-6)
        mean = np.clip(mean + (advantages[:, None] * noise).mean(axis=0), [0, 0], [1, 6])
        step = ComparedStep(
            float(learned.mean()), float(true.mean()), rank_correlation(learned.tolist(), true.tolist())
        )
        found.alarms.append(alarm.add(step))
        found.true.append(step.true)
        found.learned.append(step.learned)
    return found


@pytest.fixture(scope="module")
def members():
    return [fitted(seed) for seed in range(8)]


@pytest.fixture(scope="module")
def exploited(members):
    """The member that a policy gains most from, alone."""
    long = np.array([[0.5, 6.0]])
    return climb([max(members, key=lambda weights: float((features(long) @ weights)[0]))], "mean")


def test_a_single_model_is_exploited_and_the_alarm_says_so(exploited) -> None:
    assert exploited.learned[-1] > exploited.learned[0] + 5
    assert exploited.true[-1] < exploited.true[0] - 1
    first = next(place for place, why in enumerate(exploited.alarms) if why is not None)
    assert exploited.true[first] > exploited.true[-1] + 0.5, "in time: most of the harm is still to come"


@pytest.mark.parametrize(("bound", "deviations"), [("min", 0.0), ("deviations", 2.0)])
def test_a_pessimistic_ensemble_holds(members, exploited, bound: str, deviations: float) -> None:
    held = climb(members, bound, deviations)
    assert held.true[-1] > held.true[0] + 0.1
    assert held.true[-1] > exploited.true[-1] + 1.5


def test_a_cap_bounds_the_learned_reward_that_is_won(members, exploited) -> None:
    weights = max(members, key=lambda each: float((features(np.array([[0.5, 6.0]])) @ each)[0]))
    capped = climb([weights], "mean", most=0.8)
    assert max(capped.learned) <= 0.8
    assert capped.true[-1] > capped.true[0] + 0.5
