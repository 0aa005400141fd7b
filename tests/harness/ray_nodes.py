"""A Ray cluster of several nodes on this machine, each with a raylet of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

ROOT = Path(__file__).parents[2]
PATIENT = {"RAY_agent_register_timeout_ms": "180000"}
"""On a busy machine a node's agents take longer than the 30 s after which Ray gives the node up."""
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024}


@contextlib.contextmanager
def ray_nodes(count: int, further: Sequence[Mapping[str, Any]] = ()) -> Iterator[Cluster]:
    """Be connected to a cluster while the block runs.

    It has ``count`` equal nodes, and a further one for each of the settings, which change those of ``NODE``.
    """
    variables = {
        "RAY_AUTH_MODE": "disabled",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'clients'}",
        "RAY_USAGE_STATS_ENABLED": "0",
        **PATIENT,
    }
    before = {name: os.environ.get(name) for name in (*variables, "RAY_TMPDIR")}
    os.environ.update(variables)
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        (Path(folder) / "ray").mkdir()
        cluster = _started([*({} for _ in range(count)), *further], Path(folder))
        try:
            ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _started(nodes: Sequence[Mapping[str, Any]], folder: Path) -> Cluster:
    """Start the nodes, again when Ray gives up on one, as it does after 30 s on a busy machine."""
    from ray.cluster_utils import Cluster

    for last in (False, False, True):
        cluster = Cluster()
        try:
            head, *others = ({**NODE, **each} for each in nodes)
            cluster.add_node(**head, include_dashboard=False, temp_dir=str(folder))
            for node in others:
                cluster.add_node(**node)
        except Exception:
            cluster.shutdown()
            if last:
                raise
        else:
            return cluster
    raise AssertionError("the last attempt returns or raises")
