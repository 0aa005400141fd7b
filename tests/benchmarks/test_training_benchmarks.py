"""The arithmetic of the training benchmarks, without a training."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from statistics import stdev

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.benchmarks import offline_methods, process_rewards, trainer_vs_trl, variants
from tests.benchmarks import training_runs as bench
from tests.benchmarks.slow_service import LongTail, slow_service
from tests.benchmarks.training_runs import Place, RunFailed, Steps, run, runs_folder
from trainer.config.reading import read_run
from trainer.tracking.jsonl import JsonlTracker

AT_ONCE = LongTail(0.0, 1.0, 1.0)


def test_a_wait_is_the_same_whenever_it_is_asked_for_and_differs_between_steps_and_seeds() -> None:
    tail = LongTail(1.0, 1.0, 60.0, seed=3)
    assert tail.seconds("task", 1, 0) == tail.seconds("task", 1, 0)
    others = [tail.seconds("task", 1, 1), tail.seconds("task", 2, 0)]
    assert tail.seconds("task", 1, 0) not in [*others, LongTail(1.0, 1.0, 60.0, seed=4).seconds("task", 1, 0)]


def test_waits_have_the_median_that_was_asked_for_and_a_bound() -> None:
    drawn = sorted(LongTail(2.0, 1.0, 9.0).seconds(index) for index in range(2001))
    assert drawn[1000] == pytest.approx(2.0, rel=0.1)
    assert drawn[-1] == 9.0


async def echo(request: web.Request) -> web.Response:
    if request.path == "/v1/create_instance":
        return web.json_response({"instance_id": (await request.json())["name"]})
    if request.path == "/v1/broken":
        return web.json_response({"code": "gone"}, status=410)
    body = (await request.read()).decode()
    return web.json_response({"path": request.path_qs, "key": request.headers.get("X-Key"), "body": body})


async def test_the_slow_way_passes_everything_on_and_keeps_steps_waiting() -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo)
    async with TestServer(app) as server:
        with slow_service(str(server.make_url("")), AT_ONCE) as (url, slow):
            async with aiohttp.ClientSession(url, headers={"X-Key": "k"}) as session:
                async with session.get("/readyz?a=b") as answer:
                    assert await answer.json() == {"path": "/readyz?a=b", "key": "k", "body": ""}
                async with session.post("/v1/broken", data=b"{}") as answer:
                    assert (answer.status, await answer.json()) == (410, {"code": "gone"})
                assert slow.waited == []
                body = {"instance_id": "x", "step_index": 0}
                async with session.post("/v1/step", json=body) as answer:
                    assert json.loads((await answer.json())["body"]) == body
                assert len(slow.waited) == 1


async def test_runs_that_play_the_same_episodes_meet_the_same_waits() -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", echo)
    waited = []
    async with TestServer(app) as server:
        with slow_service(str(server.make_url("")), LongTail(1e-4, 1.0, 1e-3)) as (url, slow):
            async with aiohttp.ClientSession(url) as session:
                for names in ("ab", "cd"):
                    slow.forget()
                    for name in names:
                        created = {"name": name, "task_id": "t", "seed": 5}
                        await (await session.post("/v1/create_instance", json=created)).read()
                        step = {"instance_id": name, "step_index": 0}
                        await (await session.post("/v1/step", json=step)).read()
                    waited.append(slow.waited)
    assert waited[0] == waited[1]
    assert waited[0][0] != waited[0][1]


def test_a_step_lasts_from_the_end_of_the_one_before(tmp_path: Path) -> None:
    times = iter([10.0, 20.0, 23.0, 24.0, 27.5])
    tracker = JsonlTracker(tmp_path / "metrics.jsonl", lambda: next(times))
    tracker.log(0, {"loss/sft": 1.0})
    tracker.log(1, {"time/take": 1.0, "time/annotate": 0.5, "time/update": 2.0, "time/sync": 0.25})
    tracker.log(2, {"time/take": 2.0, "failures/sandbox": 2.0})
    tracker.log(2, {"evaluation/success": 0.5})
    tracker.log(3, {"time/take": 3.0, "failures/sandbox": 1.0})
    tracker.close()
    steps = Steps.of(tmp_path)
    assert steps.seconds() == [3.75, 4.0, 3.5]
    assert steps.phases(skip=1)["take"] == 2.5
    assert steps.failures() == {"sandbox": 3.0}


def test_a_process_that_fails_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"broken ended with 3: no room"):
        run(["sh", "-c", "echo no room >&2; exit 3"], tmp_path / "broken.log")
    assert run(["sh", "-c", "echo $SIZE"], tmp_path / "fine.log", {"SIZE": "4"}) == "4\n"


def test_a_process_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"(?s)slow did not end within 1 s: begun.*slow\.log"):
        run(["sh", "-c", "echo begun >&2; exec sleep 600"], tmp_path / "slow.log", most_s=1.0)


def test_a_temporary_folder_is_kept_after_a_failure_and_removed_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(RunFailed, match="no room"), runs_folder(None, "bench-") as failed:
        raise RunFailed("no room")
    assert failed.exists()
    assert f"kept in {failed}" in capsys.readouterr().err
    failed.rmdir()
    with runs_folder(None, "bench-") as fine:
        assert fine.exists()
    assert not fine.exists()


def test_runs_that_failed_are_named_after_all_have_been_measured() -> None:
    bench.require_all({"a": {"steps": 3}})
    with pytest.raises(RunFailed, match="1 of 2 runs failed: b"):
        bench.require_all({"a": {"steps": 3}, "b": {"error": "no room"}})


def test_every_pattern_has_to_match(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["openai_agents", "openai_loop", "langgraph"]
    assert bench.matching(ArgumentParser(), names, ["openai_*"]) == names[:2]
    with pytest.raises(SystemExit, match="2"):
        bench.matching(ArgumentParser(), names, ["openai_*", "opnai_*"])
    assert "nothing matches 'opnai_*'; expected one of: openai_agents" in capsys.readouterr().err


@pytest.mark.parametrize(("seeds", "quantile"), [(2, 12.706), (10, 2.262), (11, 2.2281), (31, 2.0423)])
def test_an_interval_is_of_any_number_of_seeds(seeds: int, quantile: float) -> None:
    values = [100.0 * (seed % 2) for seed in range(seeds)]
    found = bench.half_width(values)
    assert found == pytest.approx(quantile * stdev(values) / seeds**0.5, rel=2e-4)


def test_results_are_kept_for_the_settings_that_they_were_made_with(tmp_path: Path) -> None:
    at = Place(tmp_path, "", (), 0)
    model, other = tmp_path / "warm-1" / "model", tmp_path / "warm-2" / "model"
    changed = replace(at, words=("learner.epochs=2",))
    data = offline_methods.data_folder
    assert data(at, model, 64, 8) == data(at, model, 64, 8)
    folders = {data(at, model, 64, 8), data(at, model, 128, 8), data(at, model, 64, 4)}
    assert len(folders | {data(at, other, 64, 8), data(changed, model, 64, 8)}) == 5
    labels = process_rewards.labels_file
    assert labels(at, model, 64) == labels(at, model, 64)
    files = {labels(at, model, 64), labels(at, model, 128), labels(at, other, 64), labels(changed, model, 64)}
    assert len(files) == 4


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_the_words_of_a_variant_are_a_configuration(name: str) -> None:
    config = read_run(None, variants.VARIANTS[name])
    algorithm, workers, sharding, weights = name.split("-")
    assert config.algorithm.needs_values == (algorithm == "ppo")
    assert (config.learner.workers, config.learner.sharding) == (int(workers), sharding)
    assert (config.learner.lora is not None) == (weights == "lora")


def test_the_usual_variants_are_there() -> None:
    assert set(variants.USUAL) <= set(variants.VARIANTS)


@pytest.mark.parametrize("turns", [1, 3])
def test_demonstrations_leave_the_answer_of_the_reference_in_their_last_turn(
    tmp_path: Path, turns: int
) -> None:
    lines = trainer_vs_trl.demonstrations(tmp_path / "shown.jsonl", turns).read_text().splitlines()
    references = trainer_vs_trl.REFERENCES.read_text().splitlines()
    assert len(lines) == len(references)
    shown, reference = json.loads(lines[0]), json.loads(references[0])
    *looks, said = shown["messages"]
    assert [look["content"] for look in looks] == [reference["messages"][0]["content"]] * (turns - 1)
    expression = said["content"].partition("$((")[2].partition("))")[0]
    assert f"print({expression})" in reference["messages"][0]["content"]
    assert "answer.txt" in said["content"]


def test_runs_with_and_without_process_rewards_are_valid_and_differ_in_nothing_else(tmp_path: Path) -> None:
    labels = tmp_path / "labels.jsonl"
    labels.write_text("")
    options = Namespace(steps=4, model_steps=3)
    plain, rewarded = (
        read_run(bench.DEMO, process_rewards.learning(labels, weight, options)) for weight in (0.0, 0.5)
    )
    assert plain.reward.process is None
    assert rewarded.reward.process is not None
    assert rewarded.reward.process.weight == 0.5
    assert [stage.kind for stage in rewarded.stages] == ["process_reward_model", "rl"]
    assert (plain.steps, plain.algorithm) == (rewarded.steps, rewarded.algorithm)


def test_steps_to_a_success_are_counted_over_a_window() -> None:
    found = process_rewards.figures(
        Steps(tuple({"clock": 1.0, "success/mean": each} for each in (0.0, 0.2, 0.6, 0.6, 0.8))), 0.6, 2
    )
    assert (found["first"], found["last"], found["steps_to_success"]) == (0.1, 0.7, 4)
