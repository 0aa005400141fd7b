"""A run whose episodes are played by two processes of their own: one of them is killed, then the command."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.killed_run import KilledRun, RunPlan, ledger

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(1800)]

STEPS = 6
EPISODES = 8


def test_episodes_of_a_killed_worker_are_played_again_and_the_run_resumes(tmp_path):
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
    run = KilledRun(plan, "shared", plan.write())
    options = ("rollout.workers=2", "rollout.max_staleness=1", "service.start_timeout_s=900")
    run.start(*options)
    try:
        assert run.until_step(1), run.said()
        run.kill("episodes")
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
    assert run.family.left(wall_timeout_s=60) == []
