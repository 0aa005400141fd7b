import pytest

from tests.fakes.recorded import episode
from trainer.recorded.statistics import GroupCounts, statistics_of


def test_episodes_are_counted_by_group_and_measured() -> None:
    given = [
        episode("t/1", "a", score=1.0, success=True, policy="small", temperature=0.5),
        episode("t/1", "b", score=0.0, success=False, policy="small", temperature=1.0),
        episode("t/2", "c", policy="large", failure_class="timeout"),
    ]
    found = statistics_of(given)
    assert found.groups["all"]["all"] == GroupCounts(episodes=3, tasks=2, graded=2, solved=1, failed=1)
    assert found.groups["policy"]["small"] == GroupCounts(2, 1, 2, 1, 0)
    assert set(found.groups["temperature"]) == {"0.5", "1", "(none)"}
    assert "environment" not in found.groups
    assert found.failures == {"timeout": 1}
    assert found.per_task == {1: 1, 2: 1}
    score = found.distributions["score"]
    assert (score.count, score.mean, score.least, score.most) == (2, 0.5, 0.0, 1.0)
    assert score.percentiles == pytest.approx((0.1, 0.5, 0.9))
    assert "return" not in found.distributions
