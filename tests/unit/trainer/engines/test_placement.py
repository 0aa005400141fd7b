"""Engines that no node of a cluster could hold are told apart from those that wait for their turn."""

import pytest

pytest.importorskip("ray", reason="Ray is not installed")

from trainer.engines.placement import missing_node

GPU_NODE = {"CPU": 16.0, "GPU": 8.0, "memory": 1e11}
CPU_NODE = {"CPU": 64.0, "memory": 1e11}


def test_a_cluster_without_gpus_is_named_as_such() -> None:
    said = missing_node([{"CPU": 4.0, "GPU": 1.0}], [CPU_NODE])
    assert said == "no node of the cluster has 4 CPU, 1 GPU (the most on any node: 64 CPU, 0 GPU)"


def test_one_node_has_to_hold_a_whole_bundle() -> None:
    assert missing_node([{"CPU": 32.0, "GPU": 1.0}], [CPU_NODE, GPU_NODE]) is not None
    assert missing_node([{"CPU": 1.0, "GPU": 16.0}], [GPU_NODE, GPU_NODE]) is not None


def test_engines_that_a_node_could_hold_wait_for_their_turn() -> None:
    assert missing_node([{"CPU": 4.0, "GPU": 4.0}] * 5, [CPU_NODE, GPU_NODE]) is None


def test_a_mark_that_no_node_has_is_named() -> None:
    said = missing_node([{"CPU": 1.0, "engine": 0.001}], [CPU_NODE])
    assert said is not None
    assert "0 engine" in said
