from dataclasses import replace

import pytest

from sandbox_service.environments.echo.service.catalog import EchoCatalog
from service_cli.bench.comparisons import beside_plain, plain_process
from service_cli.bench.environments import FAILED, box_count, boxes_capacity, problems
from service_cli.bench.episodes import EpisodeCounts
from service_cli.bench.levels import Echo, level_figures
from service_cli.bench.lifetimes import memory_figures
from service_cli.bench.load import Load
from service_cli.bench.scripts import evenly, read_scripts
from service_cli.bench.variants import Variant, VariantError, playable, variants_of


def load(wall_s: float = 2.0) -> Load:
    times = {"/v1/create_instance": [4.0], "/v1/step": [1.0, 3.0], "/v1/evaluate": [2.0]}
    return Load(dict(times), wall_s=wall_s, own_cpu_s=0.02)


def test_figures_of_a_level_are_by_episode_and_beside_the_yardstick() -> None:
    tally = EpisodeCounts(solved=2)
    used = {"runner": 0.03, "gateway": 0.01, "yardstick": 9.0}
    figures = level_figures(load(), tally, used, Echo(p50_ms=0.5, per_s=200.0, cpu_s=0.001))
    assert figures["episodes_per_s"] == 1.0
    assert figures["ratio_requests_per_s"] == 100.0
    assert figures["server_cpu_s_per_episode"] == pytest.approx(0.02)
    assert figures["ratio_cpu_per_request"] == pytest.approx(10.0)
    assert figures["cpu_s_per_episode"] == {
        "runner": pytest.approx(0.015),
        "gateway": pytest.approx(0.005),
        "load_generator": pytest.approx(0.01),
    }
    assert figures["step"] == {"p50_ms": 1.0, "p95_ms": 3.0, "yardstick_p50_ms": 0.5, "ratio_p50": 2.0}
    assert "release" not in figures
    assert "first_problem" not in figures


def test_a_level_tells_what_went_wrong() -> None:
    tally = EpisodeCounts(solved=1, unsolved=["hard"], failures=["easy: status 500"])
    figures = level_figures(load(), tally, {}, Echo(0.5, 200.0, 0.001))
    assert (figures["episodes"], figures["solved"], figures["unsolved"], figures["failed"]) == (3, 1, 1, 1)
    assert figures["first_problem"] == "easy: status 500"


def test_memory_is_the_difference_by_instance() -> None:
    figures = memory_figures(10, empty=100.0, created=130.0, stepped=150.0, yardstick=50.0)
    assert figures["mb_per_instance"] == 3.0
    assert figures["mb_per_instance_after_step"] == 5.0
    assert figures["ratio_after_step"] == 0.1


def test_memory_that_may_not_be_looked_at_is_no_figure() -> None:
    figures = memory_figures(10, empty=None, created=130.0, stepped=150.0, yardstick=50.0)
    assert figures == {"instances": 10, "mb_per_instance": None, "mb_per_instance_after_step": None}


def test_a_plain_process_is_told_in_instances_of_ours() -> None:
    plain = {"first_world_mb": 260.0, "first_world_s": 4.0, "later_world_s": 0.2}
    figures = beside_plain(plain, mb_per_instance=65.0, create_p50_ms=100.0)
    assert figures["ratio_memory"] == 4.0
    assert figures["ratio_create_to_first_world"] == 40.0
    assert figures["ratio_create_to_later_world"] == 2.0
    assert "ratio_memory" not in beside_plain(plain, mb_per_instance=None, create_p50_ms=100.0)


def test_most_environments_have_no_plain_process_to_compare_with() -> None:
    assert plain_process("echo", None, 1) is None


@pytest.mark.parametrize(
    ("capacity", "instances", "most", "boxes"),
    [(32, 128, None, 4), (10_000, 128, None, 1), (1, 128, 16, 16), (1, 8, 16, 8)],
)
def test_there_are_boxes_for_every_client(
    capacity: int, instances: int, most: int | None, boxes: int
) -> None:
    assert box_count(capacity, instances, most) == boxes


def test_instances_share_process_boxes_with_agent_code() -> None:
    spec = replace(EchoCatalog.spec, agent_code=True, instances_per_box=1)
    assert boxes_capacity(spec, "docker") == 1
    assert boxes_capacity(spec, "process") > 1


def test_problems_are_found_wherever_they_are() -> None:
    report: dict[str, object] = {
        "machine": {"cores": 2},
        "process": {
            "batch": {"p50_ms": 1.0},
            "episodes": {
                "fine": {"split": "train", "at_1": {"solved": 1}},
                "bad": {"at_1": {"solved": 1}, "at_8": {"first_problem": "x is not solved"}},
                "dead": {FAILED: "no box"},
            },
        },
    }
    assert problems(report) == ["process: bad: x is not solved", "process: dead: no box"]


def test_a_sample_is_spread_over_all_items() -> None:
    assert evenly(list("abcdefghij"), 5) == list("acegi")
    assert evenly(list("ab"), 5) == list("ab")


def test_scripts_are_the_references_as_they_are_sent() -> None:
    found = read_scripts(EchoCatalog(), Variant("echo", "echo"), 10)
    assert (found.split, found.steps_per_episode) == ("train", 5.5)
    assert found.each[0].messages == (b'{"role": "assistant", "content": "step 0"}',)
    assert found.longest.task_id == "echo-10"
    assert [script.task_id for script in found.first(3)] == ["echo-1", "echo-10", "echo-1"]


def test_a_split_without_references_cannot_be_played() -> None:
    with pytest.raises(VariantError, match="endless"):
        read_scripts(EchoCatalog(), Variant("echo", "echo", split="endless"), 10)


def test_bfcl_is_measured_with_many_instances_a_worker_and_with_one() -> None:
    assert [variant.settings for variant in variants_of("bfcl")] == [
        {"many_per_worker": True},
        {"many_per_worker": False},
    ]
    assert variants_of("code") == (Variant("code", "code"),)


def test_only_what_is_there_is_played() -> None:
    assert [variant.name for variant in playable(["echo"])] == ["echo"]
    with pytest.raises(VariantError, match="is unknown"):
        playable(["nothing"])
