"""A run whose episodes an agent plays: its host is killed, then the process that plays, then the command."""

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
    where_changed("killed_runs", "test_recovery kills the parts of a run whose episodes no agent plays"),
]


@pytest.mark.parametrize("workers", [0, 2], ids="workers={}".format)
def test_episodes_of_killed_agents_are_played_again_and_the_run_resumes(tmp_path, workers):
    run = short_run(tmp_path, "agents")
    options = (
        "agent=tests.fakes.agent_functions:loop",
        f"rollout.workers={workers}",
        "rollout.max_staleness=1",
        "service.start_timeout_s=900",
    )
    run.start(*options)
    try:
        assert run.until_step(1), run.said()
        run.kill("agents")
        assert run.until_step(2), run.said()
        run.kill("episodes" if workers else "batches")
        assert run.until_step(3), run.said()
        assert run.resume_after_a_kill(*options) == 0, run.said()
    finally:
        run.stop()
    assert ledger(run).wrong == ()
    assert all(line["metrics"]["staleness/max"] <= 1 for line in run.logged())
    stops = {name for line in run.logged() for name in line["metrics"] if name.startswith("stops/")}
    assert stops <= {"stops/terminated", "stops/horizon", "stops/context_full", "stops/agent_error"}
    assert run.family.left(wall_timeout_s=60) == []
