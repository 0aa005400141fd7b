"""A Ray cluster on this machine whose nodes come and go by Ray's own autoscaler.

The autoscaler's provider of fake nodes starts a real raylet for each, as for ``AutoscalingCluster`` of
``ray.cluster_utils``. That one ends every Ray process of the machine when it starts, so it cannot run beside
other clusters, and its template is not part of Ray's wheel.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
import ray

from local_processes.descendants import Descendants
from local_processes.ports import free_port
from local_processes.waiting import Deadline, wait_until

from .ray_nodes import ROOT

START_S = 120.0
ATTEMPTS = 4
READY = "--block"
"""Printed by the head when it is up."""
HEAD = "fffffffffffffffffffffffffffffffffffffffffffffffffff00000"
"""The head's id, which the provider of fake nodes expects."""


@contextlib.contextmanager
def autoscaled_nodes(
    resources: Mapping[str, float], *, most: int, idle_s: float, version: int = 2
) -> Iterator[None]:
    """Be connected to a head without CPUs while the block runs; nodes of ``resources`` come by demand.

    Args:
        resources: those of one node.
        most: nodes that the autoscaler starts at most.
        idle_s: time after which it removes an idle node.
        version: of the autoscaler.
    """
    run = secrets.token_hex(8)
    family = Descendants("SANDBOX_TEST_CLUSTER", run)
    with (
        pytest.MonkeyPatch.context() as environment,
        tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        family.adopting(),
    ):
        variables = {
            "SANDBOX_TEST_CLUSTER": run,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_FAKE_CLUSTER": "1",
            "RAY_enable_autoscaler_v2": str(int(version == 2)),
            "RAY_CLOUD_INSTANCE_ID": HEAD,
            "RAY_OVERRIDE_NODE_ID_FOR_TESTING": HEAD,
            "AUTOSCALER_UPDATE_INTERVAL_S": "1",
            # A node that does not answer for some seconds on a busy machine is not dead.
            "RAY_health_check_failure_threshold": "60",
            "AUTOSCALER_METRIC_PORT": str(free_port()),
            "PYTHONPATH": f"{ROOT}:{ROOT / 'clients'}",
        }
        config = partial(_cluster, dict(resources), most, idle_s)
        try:
            address = _start_head(Path(folder), config, variables, family)
            for name in ("RAY_AUTH_MODE", "RAY_enable_autoscaler_v2", "PYTHONPATH"):
                environment.setenv(name, variables[name])
            ray.init(address=address, log_to_driver=False, configure_logging=False)
            yield
        finally:
            ray.shutdown()
            family.end_all(0.0)


def _start_head(
    folder: Path,
    config: Callable[[str], Mapping[str, object]],
    variables: Mapping[str, str],
    family: Descendants,
) -> str:
    """Return the address of a started head; start it again when Ray gives up, as it does after 30 s."""
    for attempt in range(ATTEMPTS):
        port, own = free_port(), folder / str(attempt)
        own.mkdir()
        address = f"{ray.util.get_node_ip_address()}:{port}"
        file, output = own / "cluster.json", own / "head.log"
        file.write_text(json.dumps(config(address)))
        with output.open("w") as log:
            head = subprocess.Popen(
                _command(file, port, own / "ray"), env={**os.environ, **variables}, stdout=log, stderr=log
            )
        threading.Thread(target=head.wait, daemon=True).start()
        wait_until(
            lambda: READY in output.read_text() or head.poll() is not None,  # noqa: B023
            Deadline.after(START_S),
            poll_s=0.2,
        )
        if READY in output.read_text() and head.poll() is None:
            return address
        family.end_all(0.0)
    raise AssertionError(output.read_text())


def _command(config: Path, port: int, folder: Path) -> list[str]:
    ray_command = Path(sys.executable).with_name("ray")
    return [
        *(str(ray_command), "start", "--head", "--block"),
        f"--autoscaling-config={config}",
        f"--port={port}",
        f"--temp-dir={folder}",
        f"--ray-client-server-port={free_port()}",
        f"--dashboard-agent-listen-port={free_port()}",
        "--include-dashboard=false",
        "--num-cpus=0",
        "--object-store-memory=80000000",
    ]


def _cluster(resources: dict[str, float], most: int, idle_s: float, address: str) -> dict[str, object]:
    """Return the autoscaler's configuration of a cluster with fake nodes."""
    empty_lists = (
        *("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands"),
        *("head_start_ray_commands", "worker_start_ray_commands", "cluster_synced_files"),
        *("rsync_exclude", "rsync_filter"),
    )
    node = {"resources": resources, "node_config": {}, "min_workers": 0, "max_workers": most}
    return {
        "cluster_name": "fake",
        "max_workers": most,
        "provider": {
            # As "fake_multinode", whose defaults are in a file that Ray's wheel lacks.
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
            "launch_multiple": True,
            "gcs_address": address,
            "head_node_id": HEAD,
        },
        "head_node_type": "ray.head.default",
        "available_node_types": {
            "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
            "sandbox": node,
        },
        "upscaling_speed": 1.0,
        "idle_timeout_minutes": idle_s / 60,
        "docker": {},
        "auth": {},
        "file_mounts": {},
        "file_mounts_sync_continuously": False,
        **{name: [] for name in empty_lists},
    }
