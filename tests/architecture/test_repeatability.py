"""Tests depend neither on the clock nor on chance."""

from hypothesis import HealthCheck, settings


def test_properties_are_checked_without_looking_at_the_clock() -> None:
    profile = settings.default
    assert profile is not None
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check
    assert profile.derandomize
