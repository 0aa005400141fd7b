"""Tests depend neither on the clock nor on chance."""

import re
from pathlib import Path

from hypothesis import HealthCheck, settings


def test_properties_are_checked_without_looking_at_the_clock() -> None:
    profile = settings.default
    assert profile is not None
    assert profile.deadline is None
    assert HealthCheck.too_slow in profile.suppress_health_check
    assert profile.derandomize


def test_no_test_asserts_how_long_something_took() -> None:
    timed = re.compile(r"assert (time\.)?(monotonic|perf_counter|time)\(\)( - \w+)? <")
    tests = [path for path in Path(__file__).parents[1].rglob("*.py") if path != Path(__file__)]
    assert [str(path) for path in tests if timed.search(path.read_text())] == []
