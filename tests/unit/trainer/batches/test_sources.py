"""Runs of several sources: listed once, played by weight, told apart in metrics, resumed where they were."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.fakes.batches import FakePlayer, FakeTaskService, alternating, failure, run_config, trajectory
from tests.harness.producer_steps import same, started, sync_weights
from trainer.batches.events import Issued, TasksListed
from trainer.batches.journal import BatchJournal, journal_file
from trainer.batches.listing import list_run
from trainer.types import GroupSpec, TaskRef

SOURCES = [
    {"name": "sums", "environment": "code", "splits": ["easy"], "held_out": ["easy_test"], "weight": 3},
    {"environment": "openspiel", "params": {"opponent": "mcts"}, "limit": 4},
]


def sources_of(batch):
    return Counter(sample.source for sample in batch.samples)


async def test_tasks_of_all_sources_are_listed_with_their_source() -> None:
    config = run_config(tasks={"sources": SOURCES}, evaluation={"limit": 2})
    listed = await list_run(FakeTaskService(), config.tasks, config.evaluation, config.rollout)
    assert Counter((task.source, task.environment, task.split) for task in listed.tasks) == {
        ("sums", "code", "easy"): 10,
        ("openspiel", "openspiel", "train"): 4,
    }
    assert listed.held_out == tuple(TaskRef("code", "easy_test", f"t{n}", source="sums") for n in range(2))
    assert config.has_held_out


async def test_batches_have_the_sources_by_weight_and_metrics_of_each(tmp_path) -> None:
    player = FakePlayer()
    made = await started(run_config(tasks={"sources": SOURCES}), tmp_path, player)
    await sync_weights(made, player, 0)
    batch = await made.get_batch(0)
    assert sources_of(batch) == {"sums": 6, "openspiel": 2}
    assert batch.metrics["source/sums/success"] == 0.5
    assert batch.metrics["source/openspiel/episodes"] == 2
    assert batch.metrics["source/sums/issued"] == 3
    await made.close()


async def test_a_source_that_always_fails_does_not_starve_the_others(tmp_path) -> None:
    def behaviour(spec, member, attempt):
        down = spec.task.source == "openspiel"
        return failure("sandbox") if down else alternating(spec, member, attempt)

    player = FakePlayer(behaviour)
    made = await started(run_config(tasks={"sources": SOURCES}), tmp_path, player)
    lost = 0.0
    for step in range(4):
        await sync_weights(made, player, step)
        batch = await made.get_batch(step)
        assert sources_of(batch) == {"sums": 8}
        lost += batch.metrics.get("source/openspiel/failed", 0.0)
    assert lost > 0
    assert player.groups_of.total() >= 16
    await made.close()


@pytest.mark.parametrize("phases", [False, True])
async def test_a_run_of_sources_goes_on_after_a_restart_as_it_would_have(tmp_path, phases) -> None:
    tasks = {"sources": SOURCES}
    if phases:
        tasks["phases"] = [{"steps": 2, "sources": ["sums"]}, {"steps": 4, "sources": ["openspiel"]}]
    config = run_config(tasks=tasks, steps=6)
    player = FakePlayer(chance=random.Random(1))
    whole = await started(config, tmp_path / "whole", player)
    expected = []
    for step in range(6):
        await sync_weights(whole, player, step)
        expected.append(await whole.get_batch(step))
    await whole.close()
    found = []
    for step in range(6):
        player = FakePlayer(chance=random.Random(step))
        made = await started(config, tmp_path / "parts", player)
        await made.rewind(step)
        await sync_weights(made, player, step)
        found.append(await made.get_batch(step))
        await made.close()
    assert [sources_of(each) for each in found] == [sources_of(each) for each in expected]
    # Without the metrics, which have seconds.
    pairs = zip(found, expected, strict=True)
    assert all(same(replace(one, metrics={}), replace(other, metrics={})) for one, other in pairs)
    if phases:
        assert [set(sources_of(each)) for each in found] == [{"sums"}] * 2 + [{"openspiel"}] * 4


@pytest.mark.parametrize(("oversample", "staleness"), [(1.0, 1), (1.5, 0), (1.5, 1), (2.0, 2), (1.0, 4)])
@pytest.mark.parametrize("seed", range(3))
async def test_each_step_of_a_phase_trains_on_tasks_of_its_own_sources(
    tmp_path, seed, oversample, staleness
) -> None:
    def sometimes_flat(spec, member, attempt):
        flat = random.Random(f"{seed} {spec.index}").random() < 0.5
        return trajectory(spec, member, points=1.0 if flat else float(member % 2))

    phases = [{"steps": steps, "sources": [name]} for steps, name in ((3, "sums"), (1, "openspiel"))] * 2
    player = FakePlayer(sometimes_flat, chance=random.Random(seed))
    rollout = {"oversample": oversample, "max_staleness": staleness}
    config = run_config(steps=8, rollout=rollout, tasks={"sources": SOURCES, "phases": phases})
    made = await started(config, tmp_path, player)
    for step in range(8):
        await sync_weights(made, player, step)
        name = "openspiel" if step % 4 == 3 else "sums"
        assert sources_of(await made.get_batch(step)) == {name: 8}
    await made.close()


async def test_a_journal_whose_later_phase_has_begun_too_early_goes_on(tmp_path) -> None:
    phases = [{"steps": 1, "sources": ["sums"]}, {"steps": 1, "sources": ["openspiel"]}]
    tasks = [
        TaskRef("code", "easy", "t0", source="sums"),
        TaskRef("openspiel", "t", "t0", source="openspiel"),
    ]
    journal = BatchJournal(journal_file(tmp_path))
    journal.append(TasksListed(tuple(tasks)))
    for index in range(4):
        journal.append(Issued(GroupSpec(index, tasks[1], seed=1, size=2, max_turns=4, step=1)))
    journal.close()
    player = FakePlayer()
    made = await started(run_config(steps=2, tasks={"sources": SOURCES, "phases": phases}), tmp_path, player)
    for step, name in enumerate(("sums", "openspiel")):
        await sync_weights(made, player, step)
        assert sources_of(await made.get_batch(step)) == {name: 8}
    await made.close()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            {"steps": 5, "tasks": {"sources": SOURCES, "phases": [{"steps": 4, "sources": ["sums"]}]}},
            "the phases have 4 steps, and steps is 5: set steps=4",
        ),
        (
            {"tasks": {"sources": SOURCES}, "evaluation": {"splits": ["test"]}},
            "set held_out in each source",
        ),
        (
            {"tasks": {"sources": SOURCES}, "agent": {"kind": "box", "command": ["x"]}},
            "an agent of kind box needs tasks of one environment",
        ),
    ],
)
def test_settings_that_contradict_sources_are_refused(words, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        run_config(**words)


async def test_groups_are_recorded_with_all_parameters_of_their_instances(tmp_path) -> None:
    player = FakePlayer()
    params = {"opponent": "random", "shaping": True}
    made = await started(run_config(tasks={"sources": SOURCES}, rollout={"params": params}), tmp_path, player)
    await sync_weights(made, player, 0)
    await made.get_batch(0)
    await made.close()
    groups = [json.loads(line)["spec"] for line in (tmp_path / "trajectories.jsonl").read_text().splitlines()]
    assert {group["task"]["source"]: group["params"] for group in groups} == {
        "sums": params,
        "openspiel": {**params, "opponent": "mcts"},
    }


async def test_a_group_that_an_earlier_release_issued_is_played_with_all_parameters(tmp_path) -> None:
    asked = {}

    def remembered(spec, member, attempt):
        asked[spec.index] = spec.params
        return alternating(spec, member, attempt)

    task = TaskRef("openspiel", "train", "t0", source="openspiel")
    journal = BatchJournal(journal_file(tmp_path))
    for event in (TasksListed((task,)), Issued(GroupSpec(0, task, seed=1, size=2, max_turns=4))):
        journal.append(event)
    journal.close()
    player = FakePlayer(remembered)
    config = run_config(
        tasks={"sources": SOURCES[1:]}, rollout={"params": {"opponent": "random", "board": 3}}
    )
    made = await started(config, tmp_path, player)
    await sync_weights(made, player, 0)
    await made.get_batch(0)
    await made.close()
    assert asked[0] == {"opponent": "mcts", "board": 3}
