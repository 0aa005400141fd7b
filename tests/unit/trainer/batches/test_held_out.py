"""Evaluations on held-out tasks: rewards and metrics."""

from pathlib import Path
from types import SimpleNamespace

from trainer.batches.held_out import HeldOut, figures
from trainer.config.reading import read_run
from trainer.evaluate.results import EvaluationResult, TaskOutcome
from trainer.reward.compose import score
from trainer.types import (
    Segment,
    StopReason,
    TaskRef,
    Trajectory,
    Turn,
    VersionSpan,
)


def test_an_evaluation_is_metrics_by_difficulty_and_source() -> None:
    tasks = (
        TaskOutcome("a", "easy", 2, 1, 0.5, source="math"),
        TaskOutcome("b", "hard", 0, 0, 0.0, failures=2, source="code"),
    )
    found = figures(EvaluationResult(0, "before", "test", tasks, seconds=3.0))
    assert found["evaluation/success"] == found["evaluation/score"] == 0.5
    assert found["evaluation/success/easy"] == found["evaluation/source/math"] == 0.5
    assert found["evaluation/failures"] == 2.0
    assert found["time/evaluate"] == 3.0
    assert not found.keys() & {"evaluation/success/hard", "evaluation/source/code"}


def test_an_evaluation_without_a_verdict_has_no_success() -> None:
    lost = EvaluationResult(0, "before", "test", (TaskOutcome("a", "easy", 0, 0, 0.0, failures=4),))
    assert figures(lost) == {"evaluation/failures": 4.0}


async def test_turns_of_a_trained_counterpart_do_not_count_for_the_reward(tmp_path: Path) -> None:
    def segment(*, partner: bool) -> Segment:
        turn = Turn(1, 2, (VersionSpan(1, 2, 0),), terms={} if partner else {"well_formed": 1.0})
        return Segment((1, 2), (False, True), (0.0, -1.0), (turn,), partner=partner)

    terms = ["reward.terms.efficiency=0.5", "reward.terms.format=0.5", "rollout.max_turns=8"]
    run = read_run(Path("deploy/runs/cpu_demo.toml"), terms)
    task = TaskRef("code", "test", "t")
    rewards = []
    for partners in (0, 4):
        segments = (segment(partner=False),) * 2 + (segment(partner=True),) * partners
        played = Trajectory("-1.0", task, 0, segments, StopReason.TERMINATED, score=1.0, success=True)

        class Attempts:
            async def play_episode(
                self, spec: object, member: int, sampling: object, played: Trajectory = played
            ) -> SimpleNamespace:
                return SimpleNamespace(trajectory=played)

        held_out = HeldOut(
            Attempts(),  # type: ignore[arg-type]
            run.batch_settings,
            (task,),
            tmp_path / "evaluations.jsonl",
            lambda trajectory, horizon: score(trajectory, run.reward, horizon, 1000),
        )
        totals = (await held_out.play(0, "before")).tasks[0].totals
        assert totals is not None
        rewards.append(totals.reward)
    assert rewards == [1.875, 1.875]
