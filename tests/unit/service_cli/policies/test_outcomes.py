import pytest

from sandbox_client import Exchange
from service_cli.policies.outcomes import LatencyRecorder, percentile


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.5, 2.0), (0.95, 4.0), (1.0, 4.0)])
def test_percentiles_are_values_that_occurred(share: float, expected: float) -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], share) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_the_recorder_sums_up_by_verb() -> None:
    recorder = LatencyRecorder()
    for ms in (1.0, 2.0, 3.0):
        recorder(Exchange("step", ms / 1e3, 200, {"run": ms / 2}, None))
    recorder(Exchange("release_instance", 0.001, 200, {}, None))
    step, release = recorder.summaries()
    assert (step.verb, step.calls, step.p50_ms, step.max_ms, step.run_p50_ms) == ("step", 3, 2.0, 3.0, 1.0)
    assert release.run_p50_ms is None
