import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sandbox_client import AgentEpisode
from tests.fakes.agents import LocalAgents
from tests.fakes.clock import FakeClock
from tests.fakes.told_service import ToldService
from tests.harness.agent_episodes import agent_player, ask
from tests.harness.scripted_episodes import END, SUBMIT
from tests.harness.tiny_chat import tiny_chat
from trainer.config import RunConfig, WarmStartConfig
from trainer.errors import CheckpointError, DataError
from trainer.rollout.progress import ProgressMonitor
from trainer.sft.row_batches import RowBatches
from trainer.sft.warm_start import batches_of, prepare_warm_start, read_played, write_played
from trainer.types import Line, Objective, Sample, Segment, StopReason, TaskRef, Trajectory, Turn, VersionSpan


def trajectory(number: int, *, success: bool) -> Trajectory:
    turn = Turn(2, 4, (VersionSpan(2, 4, 0),), terms={"actions": 1.0})
    segment = Segment((7, 8, number, 1), (False, False, True, True), (0.0, 0.0, -0.1, -0.2), (turn,))
    return Trajectory(
        f"{number}.0",
        TaskRef("code", "", f"t/{number}"),
        3,
        (segment,),
        StopReason.TERMINATED,
        float(success),
        success,
        lines=(Line("assistant", "größer"),),
    )


PLAYED = tuple(trajectory(number, success=number % 2 == 0) for number in range(5))


def config(**settings: object) -> WarmStartConfig:
    return WarmStartConfig.model_validate({"demonstrations": "nowhere.jsonl", "batch": 3, **settings})


def test_solved_demonstrations_are_trained_on_and_others_only_if_so_configured() -> None:
    solved = batches_of(PLAYED, config(), 0)
    assert {each.trajectory_id for step in range(3) for each in solved.get_batch(step).samples} == {
        "0.0",
        "2.0",
        "4.0",
    }
    every = batches_of(PLAYED, config(keep_failures=True), 0)
    assert len({each.trajectory_id for step in range(5) for each in every.get_batch(step).samples}) == 5
    assert solved.get_batch(0).metrics["demonstrations/success"] == 0.6
    assert solved.get_batch(0).metrics["demonstrations/kept"] == 3


def test_nothing_is_learned_from_an_opponent_that_lost() -> None:
    (own,) = PLAYED[0].segments
    both = replace(PLAYED[0], segments=(own, replace(own, token_ids=(7, 8, 9, 9), opponent=True)))
    (sample,) = batches_of([both], config(batch=1), 0).get_batch(0).samples
    assert sample.token_ids_T.tolist() == list(own.token_ids)


def test_rows_are_what_the_assistant_said() -> None:
    (sample,) = batches_of(PLAYED[:1], config(batch=1), 0).get_batch(0).samples
    assert sample.mask_T.tolist() == [False, False, True, True]
    assert sample.token_ids_T.tolist() == [7, 8, 0, 1]
    assert not sample.rewards_T.any()


def test_nothing_solved_is_an_error() -> None:
    with pytest.raises(DataError, match="no demonstration to train on: 0 of 1 played ones solved"):
        batches_of(PLAYED[1:2], config(), 0)
    with pytest.raises(DataError, match="none could be played"):
        batches_of((), config(), 0)


def test_demonstrations_that_do_not_fit_the_context_say_what_to_raise() -> None:
    cut = replace(PLAYED[1], stop=StopReason.CONTEXT_FULL)
    with pytest.raises(DataError, match=r"2 by context_full.* raise model\.context"):
        batches_of((cut, cut), config(), 0)


def test_what_was_played_is_kept_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "demonstrations.jsonl"
    assert read_played(path) is None
    failed = replace(PLAYED[0], score=None, success=None, stop=StopReason.FAILED)
    write_played(path, (*PLAYED, failed))
    assert read_played(path) == (*PLAYED, failed)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    path.write_text("{}\n")
    with pytest.raises(CheckpointError, match=r"demonstrations.jsonl"):
        read_played(path)


async def test_whoever_waits_sees_the_progress_of_demonstrations_that_are_played(tmp_path: Path) -> None:
    clock = FakeClock()
    watch = ProgressMonitor(clock.monotonic)
    path = tmp_path / "d.jsonl"
    messages = [{"role": "assistant", "content": SUBMIT}]
    path.write_text(json.dumps({"task_id": "t/1", "messages": messages}) + "\n")
    run = RunConfig.model_validate({"warm_start": {"demonstrations": path, "batch": 1}})
    clock.advance(10_000.0)
    async with ToldService([END]).client() as client:
        await prepare_warm_start(run.warm_start_settings, tmp_path, client, tiny_chat(), watch)
    assert watch.silence_s == 0.0
    assert "0 episodes in progress" in watch.report()


async def test_demonstrations_have_parameters_of_their_own_over_those_of_their_source(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text(
        json.dumps({"task_id": "t/1", "messages": [{"role": "assistant", "content": SUBMIT}]}) + "\n"
    )
    run = RunConfig.model_validate(
        {
            "rollout": {"params": {"opponent": "model", "length": 1, "hints": 1}},
            "tasks": {"sources": [{"environment": "code", "params": {"length": 2, "hints": 2}}]},
            "warm_start": {
                "demonstrations": path,
                "batch": 1,
                "params": {"opponent": "random", "length": 3},
            },
        }
    )
    service = ToldService([END])
    async with service.client() as client:
        await prepare_warm_start(run.warm_start_settings, tmp_path, client, tiny_chat())
    (created,) = service.bodies("create_instance")
    assert created["params"] == {"opponent": "random", "length": 3, "hints": 2}


async def test_an_agent_plays_demonstrations_behind_its_own_prompts(tmp_path: Path) -> None:
    async def answer_once(episode: AgentEpisode) -> None:
        said = await ask(episode, [{"role": "system", "content": "Be an agent."}, *episode.messages])
        await episode.step(said)

    path = tmp_path / "d.jsonl"
    path.write_text(
        json.dumps({"task_id": "t/1", "messages": [{"role": "assistant", "content": SUBMIT}]}) + "\n"
    )
    run = RunConfig.model_validate({"warm_start": {"demonstrations": path, "batch": 1}})
    service = ToldService([END])
    async with service.client() as client:
        await prepare_warm_start(
            run.warm_start_settings,
            tmp_path,
            client,
            tiny_chat(),
            played_by=lambda policy: agent_player(service, LocalAgents(answer_once), policy),
        )
    (played,) = read_played(tmp_path / "demonstrations.jsonl") or ()
    (segment,) = played.segments
    assert "Be an agent." in tiny_chat().decode(segment.token_ids)
    (turn,) = segment.turns
    assert tiny_chat().said(segment.token_ids[turn.start : turn.end]) == SUBMIT


def sample(name: str) -> Sample:
    two = np.zeros(2, dtype=np.float32)
    whole = np.zeros(2, dtype=np.int32)
    return Sample(name, name.partition("#")[0], 0, whole, np.array([False, True]), two, two, whole, whole)


ROWS = [(sample(f"{number}.0"), sample(f"{number}.0#1")) for number in range(5)]


def test_a_batch_is_the_same_whenever_it_is_asked_for() -> None:
    names = [[each.id for each in RowBatches(ROWS, 2, 1).get_batch(3).samples] for _ in range(2)]
    assert names[0] == names[1]
    batches = RowBatches(ROWS, 2, 1)
    assert [each.id for each in batches.get_batch(0).samples] != [
        each.id for each in batches.get_batch(5).samples
    ]


def test_a_pass_has_every_demonstration_once_with_all_its_samples_and_passes_differ() -> None:
    batches = RowBatches(ROWS, 2, 7, {"demonstrations/success": 0.5})
    taken = [batches.get_batch(step) for step in range(5)]
    ids = [each.id for batch in taken for each in batch.samples]
    assert Counter(ids) == {each.id: 2 for row in ROWS for each in row}
    assert ids[:10] != ids[10:]
    assert [batch.step for batch in taken] == list(range(5))
    assert all(batch.objective is Objective.SFT and len(batch.samples) == 4 for batch in taken)
    assert taken[4].metrics == {"demonstrations/success": 0.5, "demonstrations/epoch": 2.0}


def test_a_batch_may_be_larger_than_all_there_is() -> None:
    assert len(RowBatches(ROWS, 12, 0).get_batch(0).samples) == 24


def test_seeds_differ() -> None:
    orders = {tuple(each.id for each in RowBatches(ROWS, 5, seed).get_batch(0).samples) for seed in range(5)}
    assert len(orders) > 1


def test_batches_without_a_demonstration_are_refused() -> None:
    with pytest.raises(DataError, match="no row to train on"):
        RowBatches((), 2, 0)
