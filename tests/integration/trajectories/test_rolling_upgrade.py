"""A service whose nodes and gateways are replaced one after another while episodes are played."""

from __future__ import annotations

import os

import pytest

from tests.harness.counted_steps import counted_load
from tests.harness.deployed_cluster import deployed_cluster
from tests.harness.rolling_upgrade import roll, settings_of, start_two_nodes
from tests.harness.sampling import where_changed

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.postgres,
    pytest.mark.timeout(600),
    where_changed("clusters"),
    pytest.mark.skipif(os.geteuid() != 0, reason="host names of their own need root"),
]

THINKS_S = 0.1
"""The clients must play all the time, and leave CPU time to the nodes that start meanwhile."""


async def test_an_upgrade_of_two_nodes_and_their_gateways_loses_no_episode(url: str) -> None:
    with deployed_cluster() as cluster:
        settings = settings_of(cluster, url)
        node = start_two_nodes(cluster, settings)
        async with counted_load(cluster.url, clients=4, steps=25, thinks_s=THINKS_S) as toll:
            figures = await roll(cluster, node, settings, toll, undisturbed_s=3.0)
    print(figures, toll)  # noqa: T201
    assert toll.told == {}, "no episode ended with an error"
    assert (toll.lost, toll.silent_gaps, toll.double_executions) == (0, 0, 0)
    assert all(part["episodes"] for part in figures.values())
