"""One run in which an engine, the learner's worker and the batch actor are killed, one after another."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed")
pytest.importorskip("ray", reason="Ray is not installed")

from tests.harness.killed_run import KilledRun, RunPlan, ledger

pytestmark = [pytest.mark.ray, pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]

STEPS = 6


def test_a_run_survives_the_death_of_every_part_and_consumes_each_trajectory_once(tmp_path):
    plan = RunPlan(
        tmp_path,
        'kind = "tiny"\nlayers = 2',
        steps=STEPS,
        groups=2,
        group_size=2,
        held_out=4,
        checkpoint_every=2,
        deadline_s=800,
    )
    run = KilledRun(plan, "mortal", plan.write())
    run.start()
    try:
        for step, what in enumerate(("engine", "worker", "batches")):
            assert run.until_step(step), run.said()
            run.kill(what)
        assert run.until_end() == 0, run.said()
    finally:
        run.stop()
    book = ledger(run)
    assert book.wrong == ()
    assert [len(ids) for ids in book.consumed] == [4] * STEPS
    assert {line["step"] for line in run.logged()} == set(range(STEPS))
    assert [line["when"] for line in run.lines("evaluations.jsonl")] == ["before", "after"]
    assert (run.folder / "model" / "config.json").exists()
    assert run.family.left(wall_timeout_s=60) == []
