"""A run whose episodes an agent plays: its host is killed, then the batch actor, then the command."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.killed_run import KilledRun, RunPlan, ledger

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 6
EPISODES = 8


@pytest.mark.parametrize("workers", [0, 2], ids=["one-process", "workers"])
def test_episodes_of_killed_agents_are_played_again_and_the_run_resumes(tmp_path, workers):
    plan = RunPlan(
        tmp_path,
        'kind = "tiny"\nlayers = 2',
        steps=STEPS,
        groups=4,
        group_size=2,
        held_out=4,
        checkpoint_every=2,
        deadline_s=1500,
    )
    run = KilledRun(plan, "agents", plan.write())
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
        run.kill("driver")
        run.until_end()
        assert run.family.left(wall_timeout_s=120) == []
        run.start("--resume", *options)
        assert run.until_end() == 0, run.said()
    finally:
        run.stop()
    book = ledger(run)
    assert book.wrong == ()
    assert [len(ids) for ids in book.consumed] == [EPISODES] * STEPS
    assert all(line["metrics"]["staleness/max"] <= 1 for line in run.logged())
    stops = {name for line in run.logged() for name in line["metrics"] if name.startswith("stops/")}
    assert stops <= {"stops/terminated", "stops/horizon", "stops/context_full", "stops/agent_error"}
    assert run.family.left(wall_timeout_s=60) == []
