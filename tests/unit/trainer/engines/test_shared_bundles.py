"""Bundles of GPUs that learner and engines share, and engines made of bundles on one node."""

import pytest

from trainer.config import RunConfig
from trainer.engines.shared_bundles import bundles_of_engines, engine_share, shared_bundles
from trainer.errors import EngineError


def hardware(learner=None, engine=None):
    return RunConfig.model_validate(
        {
            "learner": {"workers": 4, "gpus": 0.6, "cpus": 2, **(learner or {})},
            "engine": {"count": 2, "gpus": 0.4, "tensor_parallel": 2, "cpus": 3, **(engine or {})},
        }
    ).hardware


def test_the_bundles_of_an_engine_are_alike_and_have_its_cpus_together() -> None:
    settings = hardware()
    bundles = shared_bundles(settings, 4)
    assert bundles == [{"GPU": 1.0, "CPU": 3.5}] * 4
    assert sum(bundle["CPU"] for bundle in bundles) == 4 * 2 + 2 * 3
    assert engine_share(settings.engine) == {"CPU": 1.5, "GPU": 0.4}


def test_cpus_that_do_not_divide_are_the_same_in_ray_s_count_for_bundle_and_engine() -> None:
    settings = hardware({"workers": 6}, {"tensor_parallel": 3, "cpus": 2})
    share = engine_share(settings.engine)["CPU"]
    assert share == 0.6667
    assert all(bundle["CPU"] == 2 + share for bundle in shared_bundles(settings, 6))


def test_processes_without_cpus_reserve_none() -> None:
    settings = hardware({"cpus": 0}, {"cpus": 0})
    assert shared_bundles(settings, 4) == [{"GPU": 1.0}] * 4
    assert engine_share(settings.engine) == {"GPU": 0.4}


def test_a_worker_without_an_engine_reserves_no_cpus_for_one() -> None:
    bundles = shared_bundles(hardware({"workers": 5}), 5)
    assert [bundle["CPU"] for bundle in bundles] == [3.5, 3.5, 3.5, 3.5, 2.0]


def test_marks_of_both_are_in_bundles_of_both() -> None:
    settings = hardware({"node_resource": "learner"}, {"node_resource": "engine"})
    assert {"learner", "engine"} <= shared_bundles(settings, 4)[0].keys()
    alone = shared_bundles(settings, 0)
    assert len(alone) == 4
    assert all("engine" in bundle and "learner" not in bundle for bundle in alone)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [("aaaa", ((0, 1), (2, 3))), ("abab", ((0, 2), (1, 3))), ("abba", ((0, 3), (1, 2)))],
)
def test_an_engine_is_made_of_bundles_of_one_node(nodes, expected) -> None:
    assert bundles_of_engines(hardware().engine, dict(enumerate(nodes))) == expected


def test_engines_use_the_first_bundles_whose_workers_stay_when_others_are_lost() -> None:
    assert bundles_of_engines(hardware().engine, dict(enumerate("abababaa"))) == ((0, 2), (1, 3))


def test_gpus_divided_over_nodes_are_refused_with_their_numbers() -> None:
    with pytest.raises(EngineError, match=r"2 GPUs on one node, .* over nodes as 3, 1: free more GPUs"):
        bundles_of_engines(hardware().engine, dict(enumerate("aaba")))
