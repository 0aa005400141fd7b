import pytest

from clients import Exchange
from deploy.policy_runs.outcomes import (
    EpisodeOutcome,
    Failed,
    Recorder,
    failure_counts,
    group,
    groups,
    percentile,
)

OUTCOMES = [
    EpisodeOutcome("a", 1.0, difficulty="easy", score=1.0, success=True),
    EpisodeOutcome("b", 1.0, difficulty="easy", score=0.5, success=False),
    EpisodeOutcome("c", 1.0, difficulty="hard", failed=Failed("sandbox", "instance_lost", "gone")),
]


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.95, 4.0), (1.0, 4.0)])
def test_percentiles_are_values_that_occurred(share: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_a_failure_is_never_a_score() -> None:
    overall = group("all", OUTCOMES)
    assert (overall.episodes, overall.graded, overall.successes, overall.mean_score) == (3, 2, 1, 0.75)
    assert failure_counts(OUTCOMES) == {"sandbox": 1}


def test_groups_are_by_value_and_a_group_without_verdicts_has_no_mean() -> None:
    easy, hard = groups(OUTCOMES, "difficulty")
    assert (easy.name, easy.successes) == ("easy", 1)
    assert (hard.graded, hard.mean_score) == (0, None)
    assert groups(OUTCOMES, "category") == ()


def test_the_recorder_sums_up_by_verb() -> None:
    recorder = Recorder()
    for ms in (1.0, 2.0, 3.0):
        recorder(Exchange("step", ms / 1e3, 200, {"run": ms / 2}, None))
    recorder(Exchange("release_instance", 0.001, 200, {}, None))
    step, release = recorder.summaries()
    assert (step.verb, step.calls, step.p50_ms, step.max_ms, step.run_p50_ms) == ("step", 3, 2.0, 3.0, 1.0)
    assert release.run_p50_ms is None
