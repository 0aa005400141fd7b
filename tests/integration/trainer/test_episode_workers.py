"""A run whose episodes are played by two processes of their own: one of them is killed, then the command."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.killed_run import ledger, short_run
from tests.harness.sampling import where_changed

pytestmark = [
    pytest.mark.ray,
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    where_changed("killed_runs", "test_recovery kills the parts of a run without workers"),
]


def test_episodes_of_a_killed_worker_are_played_again_and_the_run_resumes(tmp_path):
    run = short_run(tmp_path, "shared")
    options = ("rollout.workers=2", "rollout.max_staleness=1", "service.start_timeout_s=900")
    run.start(*options)
    try:
        assert run.until_step(1), run.said()
        run.kill("episodes")
        assert run.until_step(3), run.said()
        assert run.resume_after_a_kill(*options) == 0, run.said()
    finally:
        run.stop()
    assert ledger(run).wrong == ()
    assert all(line["metrics"]["staleness/max"] <= 1 for line in run.logged())
    assert run.family.left(wall_timeout_s=60) == []
