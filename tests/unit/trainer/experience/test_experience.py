"""Batches by step: once each, the same each time, never older than allowed."""

import asyncio
import json

import numpy as np
import pytest

from tests.fakes.clock import FakeClock
from tests.fakes.experience import (
    FakePlayer,
    FakeTaskService,
    FakeTracker,
    alternating,
    experience,
    failure,
    run_config,
    trajectory,
)
from tests.fakes.waiting import until
from trainer.errors import CheckpointError, ConfigError, DataError, NoProgress
from trainer.rollout.watch import Watch
from trainer.types import Objective


async def started(config, folder, player, **parts):
    made = experience(config, folder, player, **parts)
    await made.start()
    return made


async def publish(made, player, version):
    player.version = version
    await made.published(version)


def same(batch, other):
    """Batches are equal to the last number."""
    if batch.step != other.step or batch.facts != other.facts or len(batch.samples) != len(other.samples):
        return False
    return all(
        mine.id == theirs.id
        and mine.weight == theirs.weight
        and all(
            np.array_equal(getattr(mine, name), getattr(theirs, name))
            for name in ("token_ids_T", "mask_T", "logprobs_T", "rewards_T", "turns_T", "versions_T")
        )
        for mine, theirs in zip(batch.samples, other.samples, strict=True)
    )


def ids(batch):
    return [sample.trajectory_id for sample in batch.samples]


def consumed(folder):
    return [json.loads(line) for line in (folder / "consumed.jsonl").read_text().splitlines()]


async def test_a_batch_has_all_episodes_of_its_groups_with_their_rewards(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    batch = await made.take(0)
    assert batch.objective is Objective.REINFORCE
    assert ids(batch) == [f"{group}.{member}" for group in range(4) for member in range(2)]
    assert [float(sample.rewards_T.sum()) for sample in batch.samples] == [0.0, 1.0] * 4
    assert batch.facts["reward/mean"] == 0.5
    assert batch.facts["success/mean"] == 0.5
    assert batch.facts["staleness/max"] == 0.0
    await made.close()


async def test_without_staleness_nothing_is_sampled_until_the_weights_of_the_step_are_there(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    for step in range(3):
        await publish(made, player, step)
        await made.take(step)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(player.begun) == 8 * (step + 1)
        assert {version for _, version in player.begun[8 * step :]} == {step}
    await made.close()


async def test_with_staleness_the_next_groups_are_sampled_during_the_update(tmp_path):
    player = FakePlayer()
    made = await started(run_config(rollout={"max_staleness": 1}), tmp_path, player)
    await publish(made, player, 0)
    await made.take(0)
    await until(lambda: len(player.begun) == 16)
    await publish(made, player, 1)
    batch = await made.take(1)
    assert batch.facts["staleness/max"] == 1.0
    await made.close()


async def test_a_group_that_would_become_too_old_is_waited_for(tmp_path):
    player = FakePlayer()
    made = await started(run_config(rollout={"max_staleness": 1, "groups": 2}), tmp_path, player)
    release = asyncio.Event()
    play = player.play

    async def slow_first(spec, member, sampling):
        if spec.index == 0:
            await release.wait()
        return await play(spec, member, sampling)

    player.play = slow_first
    await publish(made, player, 0)
    assert {sample.group for sample in (await made.take(0)).samples} == {1, 2}
    await publish(made, player, 1)
    waiting = asyncio.create_task(made.take(1))
    await until(lambda: len(player.begun) >= 10)
    assert not waiting.done()
    release.set()
    assert 0 in {sample.group for sample in (await waiting).samples}
    await made.close()


async def test_weights_that_are_published_every_second_step_serve_two_steps(tmp_path):
    player = FakePlayer()
    made = await started(run_config(sync={"every": 2}), tmp_path, player)
    await publish(made, player, 0)
    assert (await made.take(0)).step == 0
    assert (await made.take(1)).facts["staleness/max"] == 1.0
    await made.close()


async def test_a_step_is_the_same_batch_for_every_caller(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    first, second = await asyncio.gather(made.take(0), made.take(0))
    assert same(first, second)
    assert same(first, await made.take(0))
    await made.close()


async def test_after_a_restart_the_same_batches_come_again_and_ready_groups_are_not_played_again(tmp_path):
    player = FakePlayer()
    config = run_config(rollout={"max_staleness": 1})
    made = await started(config, tmp_path, player)
    await publish(made, player, 0)
    first = await made.take(0)
    await until(lambda: len(player.begun) == 16 and player.under_way == 0)
    await made.close()

    service = FakeTaskService()
    again = await started(config, tmp_path, player, service=service)
    assert same(first, await again.take(0))
    await publish(again, player, 1)
    assert not set(ids(await again.take(1))) & set(ids(first))
    assert max(player.attempts.values()) == 1
    assert service.listed == 0
    await again.close()


async def test_groups_under_way_at_a_restart_are_played_again_from_their_beginning(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    player.hold()
    await publish(made, player, 0)
    await until(lambda: player.under_way == 8)
    await made.close()

    player.held = None
    again = await started(run_config(), tmp_path, player)
    await publish(again, player, 0)
    assert ids(await again.take(0)) == [f"{group}.{member}" for group in range(4) for member in range(2)]
    assert set(player.attempts.values()) == {2}
    await again.close()


async def test_who_takes_the_place_of_a_dead_one_goes_on_with_the_weights_that_the_engines_have(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    await made.take(0)
    await publish(made, player, 1)
    await made.close()

    again = experience(run_config(), tmp_path, player)
    await again.start(go_on=True)
    assert (await again.take(1)).facts["staleness/max"] == 0.0
    await again.rewind(1)
    await again.close()

    last = experience(run_config(), tmp_path, player)
    await last.start(go_on=True)
    assert (await last.status()).version is None
    await last.close()


async def test_rewound_steps_come_again_and_then_new_ones(tmp_path):
    player = FakePlayer()
    made = await started(run_config(), tmp_path, player)
    taken = []
    for step in range(4):
        await publish(made, player, step)
        taken.append(await made.take(step))
    played = len(player.begun)
    await made.rewind(1)
    for step in (1, 2, 3):
        await publish(made, player, step)
        assert same(taken[step], await made.take(step))
    assert len(player.begun) == played
    await publish(made, player, 4)
    assert not set(ids(await made.take(4))) & {each for batch in taken for each in ids(batch)}
    await made.close()


async def test_after_a_rewind_nothing_begins_before_weights_are_published(tmp_path):
    player = FakePlayer()
    made = await started(run_config(rollout={"max_staleness": 1}), tmp_path, player)
    await publish(made, player, 0)
    await made.take(0)
    await until(lambda: player.under_way == 0 and len(player.begun) == 16)
    player.hold()
    await publish(made, player, 1)
    await until(lambda: player.under_way == 8)
    await made.rewind(0)
    assert player.under_way == 0
    await asyncio.sleep(0.01)
    assert player.under_way == 0
    # What was under way belongs to step 2, which weights of version 0 may not sample.
    await publish(made, player, 0)
    await asyncio.sleep(0.01)
    assert player.under_way == 0
    await publish(made, player, 1)
    await until(lambda: player.under_way == 8)
    await made.close()


async def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    made = await started(run_config(), tmp_path, FakePlayer())
    with pytest.raises(CheckpointError, match="step 3"):
        await made.rewind(3)
    await made.close()


async def test_a_step_beyond_the_next_is_refused(tmp_path):
    made = await started(run_config(), tmp_path, FakePlayer())
    with pytest.raises(CheckpointError, match="batch 1"):
        await made.take(1)
    await made.close()


async def test_what_no_checkpoint_needs_is_forgotten_and_the_rest_is_kept(tmp_path):
    player = FakePlayer()
    config = run_config(checkpoint={"keep": 2})
    made = await started(config, tmp_path, player)
    for step in range(4):
        await publish(made, player, step)
        await made.take(step)
        await made.committed(step + 1)
    await made.close()
    again = await started(config, tmp_path, player)
    assert (await again.take(2)).step == 2
    with pytest.raises(CheckpointError, match="group"):
        await again.take(1)
    await again.close()


async def test_a_learner_that_does_not_find_its_newest_checkpoint_goes_on_from_the_one_before(tmp_path):
    player = FakePlayer()
    made = await started(run_config(checkpoint={"keep": 1}), tmp_path, player)
    for step in range(3):
        await publish(made, player, step)
        await made.take(step)
        await made.committed(step + 1)
    for _ in range(2):
        await made.rewind(2)
        await publish(made, player, 2)
        assert (await made.take(2)).step == 2
        await made.committed(3)
    await made.close()


async def test_flat_groups_are_replaced_and_counted(tmp_path):
    def often_flat(spec, member, attempt):
        return trajectory(spec, member, points=1.0 if spec.index % 2 == 0 else float(member % 2))

    player = FakePlayer(often_flat)
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    batch = await made.take(0)
    assert {sample.group for sample in batch.samples} == {1, 3, 5, 7}
    assert batch.facts["groups/dropped"] == 4.0
    # What was dropped was all solved: the policy is better than what it is trained on.
    assert batch.facts["reward/trained"] == 0.5
    assert batch.facts["reward/mean"] == batch.facts["success/mean"] == 0.75
    await made.close()


async def test_when_nearly_all_groups_are_flat_the_step_goes_on_with_what_there_is(tmp_path):
    player = FakePlayer(lambda spec, member, attempt: trajectory(spec, member, points=0.0))
    made = await started(run_config(algorithm={"most_dropped": 2.0}), tmp_path, player)
    await publish(made, player, 0)
    batch = await made.take(0)
    assert batch.facts["groups/dropped"] == 8.0
    assert len({sample.group for sample in batch.samples}) == 4
    await made.close()


async def test_failures_are_counted_for_retried_attempts_and_never_rewarded(tmp_path):
    def first_breaks(spec, member, attempt):
        if attempt == 1 and member == 0:
            return failure("sandbox")
        return alternating(spec, member, attempt)

    player = FakePlayer(first_breaks)
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    batch = await made.take(0)
    assert batch.facts["failures/sandbox"] == 4.0
    assert batch.facts["reward/mean"] == 0.5
    assert batch.facts["episodes/attempts"] == 1.5
    await made.close()


async def test_a_minimum_group_trains_on_those_with_a_verdict_and_tells_both_rewards(tmp_path):
    def last_breaks(spec, member, attempt):
        return failure("timeout") if member == 3 else trajectory(spec, member, points=float(member != 0))

    player = FakePlayer(last_breaks)
    config = run_config(rollout={"group_size": 4, "strategy": {"kind": "minimum_group", "share": 0.5}})
    made = await started(config, tmp_path, player)
    await publish(made, player, 0)
    batch = await made.take(0)
    assert len(batch.samples) == 12
    assert batch.facts["reward/mean"] == pytest.approx(2 / 3)
    assert batch.facts["reward/with_failures"] == 0.5
    assert consumed(tmp_path)[0]["trajectories"] == ids(batch)
    await made.close()


async def test_a_broken_task_is_never_played_again(tmp_path):
    def behaviour(spec, member, attempt):
        if spec.task.task_id == "t3":
            return failure("task", "grader_failed")
        return alternating(spec, member, attempt)

    player = FakePlayer(behaviour)
    made = await started(run_config(), tmp_path, player)
    for step in range(6):
        await publish(made, player, step)
        await made.take(step)
    # 24 groups of 10 tasks: every other task came at least twice.
    assert player.groups_of["t3"] == 1
    assert len(player.groups_of) == 10
    assert sum(count >= 2 for count in player.groups_of.values()) == 9
    await made.close()


async def test_a_request_that_the_service_refuses_ends_the_run(tmp_path):
    player = FakePlayer(lambda *_: failure("request", "unknown_environment", "create"))
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    with pytest.raises(ConfigError, match="unknown_environment"):
        await made.take(0)
    await made.close()


async def test_when_every_task_is_broken_the_run_ends(tmp_path):
    player = FakePlayer(lambda *_: failure("task", "task_invalid", "create"))
    made = await started(run_config(), tmp_path, player)
    await publish(made, player, 0)
    with pytest.raises(DataError, match="no task is left"):
        await made.take(0)
    await made.close()


async def test_a_stall_names_instance_and_phase(tmp_path):
    clock = FakeClock()
    watch = Watch(clock.monotonic)
    player = FakePlayer()
    player.hold()
    config = run_config(rollout={"stall_timeout_s": 100.0, "stall_report_s": 50.0})
    made = await started(config, tmp_path, player, watch=watch)
    await publish(made, player, 0)
    taking = asyncio.create_task(made.take(0))
    await until(lambda: player.under_way == 8)
    watch.entered("0.0", "step", "code-77")
    clock.advance(101.0)
    with pytest.raises(NoProgress, match=r"episode 0\.0 in step for 101 s \(instance code-77\)"):
        await taking
    await made.close()


async def test_progress_keeps_a_stall_away_but_not_for_ever(tmp_path):
    clock = FakeClock()
    watch = Watch(clock.monotonic)
    player = FakePlayer()
    player.hold()
    config = run_config(rollout={"stall_timeout_s": 100.0}, learner={"batch_timeout_s": 350.0})
    made = await started(config, tmp_path, player, watch=watch)
    await publish(made, player, 0)
    taking = asyncio.create_task(made.take(0))
    await until(lambda: player.under_way == 8)
    for _ in range(3):
        clock.advance(99.0)
        watch.entered("0.0", "step")
        await asyncio.sleep(0.01)
        assert not taking.done()
    clock.advance(60.0)
    with pytest.raises(NoProgress, match="batch 0 is not there after 357 s"):
        await taking
    await made.close()


async def test_an_evaluation_has_a_deadline_of_its_own(tmp_path):
    clock = FakeClock()
    watch = Watch(clock.monotonic)
    player = FakePlayer()
    player.hold()
    words = {"splits": ["test"], "limit": 1, "timeout_s": 500.0}
    config = run_config(learner={"batch_timeout_s": 100.0}, evaluation=words)
    made = await started(config, tmp_path, player, watch=watch)
    evaluating = asyncio.create_task(made.evaluate(0))
    await until(lambda: player.under_way == 1)
    clock.advance(499.0)
    watch.restart()
    await asyncio.sleep(0.01)
    assert not evaluating.done()
    clock.advance(2.0)
    with pytest.raises(NoProgress, match="evaluation 0 is not there after 501 s"):
        await evaluating
    await made.close()


async def test_replayed_groups_come_on_top_of_fresh_ones_and_are_told_apart(tmp_path):
    player = FakePlayer()
    config = run_config(tasks={"replay": {"share": 0.5}})
    made = await started(config, tmp_path, player)
    batches = []
    for step in range(3):
        await publish(made, player, step)
        batches.append(await made.take(step))
    assert [len(batch.samples) for batch in batches] == [4, 8, 8]
    lines = consumed(tmp_path)
    assert lines[0]["replayed"] == []
    assert set(lines[1]["replayed"]) == set(lines[0]["trajectories"])
    fresh = [each for line in lines for each in line["trajectories"]]
    assert len(set(fresh)) == len(fresh) == 12
    await made.close()


async def test_held_out_tasks_are_evaluated_once_a_step_over_restarts(tmp_path):
    player = FakePlayer()
    config = run_config(evaluation={"splits": ["test"], "limit": 3, "episodes": 2}, steps=5)
    made = await started(config, tmp_path, player)
    first, second = await asyncio.gather(made.evaluate(0), made.evaluate(0))
    assert first == second
    assert first["evaluation/success"] == 0.5
    assert len(player.begun) == 6
    await made.close()
    with (tmp_path / "evaluations.jsonl").open("a") as lines:
        lines.write('{"step": 5, "wh')
    again = await started(config, tmp_path, player)
    assert await again.evaluate(0) == first
    assert len(player.begun) == 6
    await again.evaluate(5)
    written = [json.loads(line) for line in (tmp_path / "evaluations.jsonl").read_text().splitlines()]
    assert [(line["step"], line["when"]) for line in written] == [(0, "before"), (5, "after")]
    await again.close()


async def test_metrics_go_to_the_tracker_and_close_may_come_twice(tmp_path):
    tracker = FakeTracker()
    made = await started(run_config(), tmp_path, FakePlayer(), tracker=tracker)
    await made.record(3, {"loss/policy": 0.5})
    await made.close()
    await made.close()
    assert tracker.logged == [(3, {"loss/policy": 0.5})]
    assert tracker.closed


async def test_a_run_without_a_warm_start_has_nothing_to_imitate(tmp_path):
    made = await started(run_config(), tmp_path, FakePlayer())
    with pytest.raises(DataError, match="no warm start"):
        await made.imitation(0)
    await made.close()


async def test_demonstrations_are_played_once_for_all_steps(tmp_path):
    class Demonstrations:
        played = 0

        async def play(self):
            self.played += 1
            return self

        def batch(self, step):
            return f"batch {step}"

    demonstrations = Demonstrations()
    config = run_config(warm_start={"demonstrations": "none.jsonl"})
    made = await started(config, tmp_path, FakePlayer(), imitation=demonstrations.play)
    assert await asyncio.gather(made.imitation(0), made.imitation(1)) == ["batch 0", "batch 1"]
    assert demonstrations.played == 1
    await made.close()
